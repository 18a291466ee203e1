# A name with a zero in it is no host, and the map with it is not believed.
0 EXPECT CLUSTER SLOTS
0 SEND *2\r\n*3\r\n:0\r\n:99\r\n*2\r\n$40\r\nh\0yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n:7001\r\n*3\r\n:100\r\n:16383\r\n*2\r\n$40\r\nh\0yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n:7001\r\n
0 EXPECT CLUSTER SLOTS
0 SEND *1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:$PORT0\r\n
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
client OPEN
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
client CLUSTER true
