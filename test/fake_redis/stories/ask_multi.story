# ASKING counts for a whole transaction: one before MULTI, none inside.
nodes 2
0 SLOTS 0-16383=0
0 EXPECT WATCH foo
0 SEND -ASK 12182 127.0.0.1:$PORT1\r\n
0 EXPECT MULTI
0 SEND +OK\r\n
0 EXPECT SET foo 1
0 SEND -ASK 12182 127.0.0.1:$PORT1\r\n
0 EXPECT EXEC
0 SEND -EXECABORT Transaction discarded because of previous errors.\r\n
1 EXPECT ASKING
1 SEND +OK\r\n
1 EXPECT WATCH foo
1 SEND +OK\r\n
1 EXPECT ASKING
1 SEND +OK\r\n
1 EXPECT MULTI
1 SEND +OK\r\n
1 EXPECT SET foo 1
1 SEND +QUEUED\r\n
1 EXPECT EXEC
1 SEND *1\r\n+OK\r\n
client OPEN seeds=1
client ADD once WATCH foo ; MULTI ; SET foo 1 ; EXEC
client RUN
client REPLY 0 0 status OK
client REPLY 0 3 array 1
