# No answer in time: an error that names the server.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SLEEP 400
client OPEN
client TIMEOUT 150
client ADD repeatable GET foo
client RUN raises 08006
client SAID 127.0.0.1
client WITHIN 350
