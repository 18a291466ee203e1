# A node of a cluster whose CLUSTER has another name: it passes for a plain server until it redirects.
nodes 2
0 EXPECT CLUSTER SLOTS
0 SEND -ERR unknown command 'CLUSTER', with args beginning with: 'SLOTS' \r\n
0 EXPECT GET foo
0 SEND -MOVED 12182 127.0.0.1:$PORT1\r\n
1 EXPECT CLUSTER SLOTS
1 SEND -ERR unknown command 'CLUSTER', with args beginning with: 'SLOTS' \r\n
client OPEN seeds=1
client TIMEOUT 10000
client ADD once GET foo
client RUN raises 08001
client SAID CLUSTER SLOTS
client WITHIN 5000
