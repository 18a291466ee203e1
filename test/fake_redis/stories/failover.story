# A primary dies; another server takes over its slots, after a while.
nodes 3
0 EXPECT CLUSTER SLOTS
0 SEND *1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:$PORT1\r\n
1 EXPECT GET foo
1 SEND $3\r\nold\r\n
1 EXPECT GET foo
1 DOWN
0 EXPECT CLUSTER SLOTS
0 SEND *1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:$PORT1\r\n
0 SLOTS 0-16383=2
2 SLOTS 0-16383=2
2 EXPECT GET foo
2 SEND $3\r\nnew\r\n
client OPEN seeds=1
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string old
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string new
