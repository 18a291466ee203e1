# The server has just started.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SEND -LOADING Redis is loading the dataset in memory\r\n
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
client OPEN
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
