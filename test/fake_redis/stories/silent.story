# A primary hangs without closing its connections; another one takes over.
nodes 3
0 SLOTS 0-16383=1
1 EXPECT GET foo
1 SEND $3\r\nold\r\n
1 EXPECT INCR foo
1 SLEEP 2500
1 EXPECT GET foo
0 EXPECT CLUSTER SLOTS
0 SEND *1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:$PORT1\r\n
0 SLOTS 0-16383=2
2 EXPECT GET foo
2 SEND $3\r\nnew\r\n
client OPEN seeds=1
client TIMEOUT 5000
client CLUSTER true
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string old
client ADD once INCR foo
client ADD repeatable GET foo
client RUN
client REPLY 0 0 lost
client REPLY 1 0 string new
client WITHIN 4000
