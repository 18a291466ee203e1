# One of two commands ran: a group that must not run twice is not repeated.
nodes 2
0 SLOTS 0-16383=0
0 EXPECT INCR foo
0 SEND :1\r\n
0 EXPECT INCR foo
0 SEND -MOVED 12182 127.0.0.1:$PORT1\r\n
client OPEN
client ADD once INCR foo ; INCR foo
client RUN
client REPLY 0 0 integer 1
client REPLY 0 1 error MOVED
client STAT redirects 0
