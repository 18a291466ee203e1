# Arrays in arrays in arrays.
0 SLOTS 0-16383=0
0 EXPECT INCR foo
0 SEND *1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
client OPEN
client TIMEOUT 10000
client ADD once INCR foo
client RUN
client WITHIN 5000
client REPLY 0 0 lost
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string bar
