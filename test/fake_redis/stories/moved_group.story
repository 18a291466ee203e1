# A transaction of which the slot has moved is repeated as a whole, once only.
nodes 2
0 SLOTS 0-16383=0
0 EXPECT MULTI
0 SEND +OK\r\n
0 EXPECT SET foo 1
0 SEND -MOVED 12182 127.0.0.1:$PORT1\r\n
0 EXPECT EXEC
0 SLOTS 0-16383=1
0 SEND -EXECABORT Transaction discarded because of previous errors.\r\n
0 EXPECT WAIT 1 10
0 SEND :1\r\n
1 SLOTS 0-16383=1
1 EXPECT MULTI
1 SEND +OK\r\n
1 EXPECT SET foo 1
1 SEND +QUEUED\r\n
1 EXPECT EXEC
1 SEND *1\r\n+OK\r\n
1 EXPECT WAIT 1 10
1 SEND :1\r\n
client OPEN
client ADD once MULTI ; SET foo 1 ; EXEC ; WAIT 1 10
client RUN
client REPLY 0 0 status OK
client REPLY 0 1 status QUEUED
client REPLY 0 2 array 1
client REPLY 0 3 integer 1
