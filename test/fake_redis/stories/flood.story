# A reply that comes without pause is waited for no longer than one that does not come.
0 SLOTS 0-16383=0
0 EXPECT INCR foo
0 SEND *1000000\r\n
0 FLOOD 1000000 300
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
client OPEN
client TIMEOUT 60
client ADD once INCR foo
client RUN
client WITHIN 5000
client REPLY 0 0 lost
client TIMEOUT 10000
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string bar
