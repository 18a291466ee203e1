# A listed node is no part of a cluster any more: it has no map, and does not get all slots.
nodes 2
0 EXPECT CLUSTER SLOTS
0 SEND *1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:$PORT1\r\n
1 SLOTS 0-16383=1
1 EXPECT GET foo
1 CLOSE
1 EXPECT GET foo
1 SLEEP 100
1 SEND $3\r\nbar\r\n
1 EXPECT GET foo
1 SEND $3\r\nfoo\r\n
client OPEN seeds=1
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string bar
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string foo
client CLUSTER true
