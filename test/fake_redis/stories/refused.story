# Nobody listens.
nodes 2
0 DOWN
1 DOWN
client OPEN
client TIMEOUT 200
client SLEEP 500
client ADD once GET foo
client RUN raises 08001
client SAID 127.0.0.1
