# A slot is moving: ASKING before the command, this time only.
nodes 2
0 SLOTS 0-16383=0
1 SLOTS 0-16383=0
0 EXPECT GET foo
0 SEND -ASK 12182 127.0.0.1:$PORT1\r\n
1 EXPECT ASKING
1 SEND +OK\r\n
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
0 EXPECT GET foo
0 SEND $-1\r\n
client OPEN seeds=1
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
client ADD once GET foo
client RUN
client REPLY 0 0 nil
