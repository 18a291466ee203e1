# A reply of many pieces.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 BULK 300000
0 EXPECT GET foo
0 BULK 0
client OPEN
client TIMEOUT 10000
client ADD once GET foo
client ADD once GET foo
client RUN
client REPLY 0 0 string length 300000
client REPLY 1 0 string length 0
