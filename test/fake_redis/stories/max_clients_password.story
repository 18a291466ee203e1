# The same to who has a password: it is not the password that is wrong.
0 SLOTS 0-16383=0
0 EXPECT AUTH secret
0 SEND -ERR max number of clients + cluster connections reached\r\n
0 CLOSE
0 EXPECT AUTH secret
0 SEND +OK\r\n
0 EXPECT INCR foo
0 SEND :1\r\n
client OPEN password=secret
client ADD once INCR foo
client RUN
client REPLY 0 0 integer 1
