# A slot is moving, and one of two keys is here still: the two are read together, later.
nodes 2
0 SLOTS 0-16383=0
1 SLOTS 0-16383=0
0 EXPECT GET {foo}a
0 SEND $3\r\nbar\r\n
0 EXPECT GET {foo}b
0 SEND -ASK 12182 127.0.0.1:$PORT1\r\n
0 EXPECT GET {foo}a
0 SEND -ASK 12182 127.0.0.1:$PORT1\r\n
0 EXPECT GET {foo}b
0 SEND -ASK 12182 127.0.0.1:$PORT1\r\n
1 EXPECT ASKING
1 SEND +OK\r\n
1 EXPECT GET {foo}a
1 SEND $3\r\nbar\r\n
1 EXPECT ASKING
1 SEND +OK\r\n
1 EXPECT GET {foo}b
1 SEND $3\r\nbaz\r\n
client OPEN seeds=1
client ADD repeatable GET {foo}a ; GET {foo}b
client RUN
client REPLY 0 0 string bar
client REPLY 0 1 string baz
