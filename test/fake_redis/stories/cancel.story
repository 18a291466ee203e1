# Cancelled while waiting; the late reply is thrown away, also if half of it
# was there when its batch was forgotten.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SEND *2\r\n$3\r\nabc\r\n$3\r\nde
0 SLEEP 2000
0 SEND f\r\n
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
client OPEN
client CLUSTER true
client ADD once GET foo
client TIMEOUT 20000
client CANCEL 100
client RUN raises 57014
client FORGET
client WITHIN 1000
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
client STAT reconnects 0
