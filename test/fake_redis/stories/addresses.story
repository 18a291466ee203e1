# A name has two addresses, and at the first nobody answers: it has its time, then the second is tried.
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
client OPEN name
client TIMEOUT 10000
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
