# No answer in time: an error that names the server.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SLEEP 3000
client OPEN
client CLUSTER true
client TIMEOUT 150
client ADD repeatable GET foo
client RUN raises 08006
client SAID 127.0.0.1
client WITHIN 2500
