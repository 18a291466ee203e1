# A node of a cluster says so in other words.
nodes 2
0 SLOTS 0-16383=1
1 EXPECT INCR foo
1 SEND -ERR max number of clients + cluster connections reached\r\n
1 CLOSE
1 EXPECT INCR foo
1 SEND :1\r\n
1 EXPECT INCR foo
1 SEND :2\r\n
client OPEN seeds=1
client ADD once INCR foo
client ADD once INCR foo
client RUN
client REPLY 0 0 integer 1
client REPLY 1 0 integer 2
