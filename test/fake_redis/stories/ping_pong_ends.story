# Two servers send the client to each other for ever.
nodes 2
0 SLOTS 0-16383=0
1 SLOTS 0-16383=1
0 ALWAYS -MOVED 12182 127.0.0.1:$PORT1\r\n
1 ALWAYS -MOVED 12182 127.0.0.1:$PORT0\r\n
client OPEN
client CLUSTER true
client TIMEOUT 300
client ADD once INCR foo
client RUN raises 08006
client SAID MOVED
client WITHIN 10000
