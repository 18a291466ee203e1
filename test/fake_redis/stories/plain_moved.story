# A server without cluster mode comes back as a node of a cluster.
nodes 2
0 EXPECT CLUSTER SLOTS
0 SEND -ERR This instance has cluster support disabled\r\n
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
0 CLOSE
0 SLOTS 0-16383=1
0 EXPECT GET foo
0 SEND -MOVED 12182 127.0.0.1:$PORT1\r\n
1 SLOTS 0-16383=1
1 EXPECT GET foo
1 SEND $3\r\nfoo\r\n
client OPEN seeds=1
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
client CLUSTER false
client SLEEP 100
client ADD once GET foo
client RUN
client REPLY 0 0 string foo
client CLUSTER true
