# Names of hosts are shown in errors and views: what is no name is none.
0 EXPECT CLUSTER SLOTS
0 SEND *1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$3\r\na\nb\r\n:7001\r\n
0 EXPECT CLUSTER SLOTS
0 SEND *1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:$PORT0\r\n
0 EXPECT GET foo
0 SEND -MOVED 12182 a\nb:7001\r\n
0 EXPECT GET foo
0 SEND -MOVED 12182 a\nb:7001\r\n
0 SLOTS 0-16383=0
0 ALWAYS -MOVED 12182 a\nb:7001\r\n
client OPEN
client TIMEOUT 300
client ADD once GET foo
client RUN raises 08006
client SAID MOVED 12182 a?b:7001
