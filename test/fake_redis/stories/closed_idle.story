# The server closed an idle connection: noticed before something is sent once.
0 SLOTS 0-16383=0
0 EXPECT INCR foo
0 SEND :1\r\n
0 CLOSE
0 EXPECT INCR foo
0 SEND :2\r\n
client OPEN
client ADD once INCR foo
client RUN
client SLEEP 500
client ADD once INCR foo
client RUN
client REPLY 0 0 integer 2
client STAT reconnects 1
