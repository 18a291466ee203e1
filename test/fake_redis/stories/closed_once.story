# The connection breaks in the middle of a reply: lost, and no error.
0 SLOTS 0-16383=0
0 EXPECT INCR foo
0 SEND :1\r\n
0 EXPECT INCR foo
0 SEND :
0 CLOSE
0 EXPECT GET foo
0 SEND $-1\r\n
client OPEN
client ADD once INCR foo ; INCR foo
client RUN
client REPLY 0 0 integer 1
client REPLY 0 1 lost
client ADD once GET foo
client RUN
client REPLY 0 0 nil
