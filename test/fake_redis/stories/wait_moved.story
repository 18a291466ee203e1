# Redirected: the WAIT behind the refusal counts for nothing.
nodes 2
0 SLOTS 0-16383=0
0 EXPECT INCR a
0 SEND -MOVED 15495 127.0.0.1:$PORT1\r\n
0 SLOTS 0-16383=1
1 SLOTS 0-16383=1
0 EXPECT WAIT 1 70
0 SEND :1\r\n
1 EXPECT INCR a
1 SEND :7\r\n
1 EXPECT WAIT 1 70
1 SEND :1\r\n
client OPEN replicas=1
client ADD durable_once INCR a
client RUN
client REPLY 0 0 integer 7
