# A client that waits for nothing sends no WAIT.
0 SLOTS 0-16383=0
0 EXPECT INCR a
0 SEND :1\r\n
client OPEN
client ADD durable_once INCR a
client RUN
client REPLY 0 0 integer 1
