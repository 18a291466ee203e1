# A server without cluster mode has all slots.
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
0 EXPECT GET bar
0 SEND $3\r\nfoo\r\n
client OPEN
client ADD once GET foo
client ADD once GET bar
client RUN
client REPLY 0 0 string bar
client REPLY 1 0 string foo
client STAT round_trips 1
client CLUSTER false
