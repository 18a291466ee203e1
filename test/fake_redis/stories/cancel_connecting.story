# Cancelled while the server does not say hello.
0 SLOTS 0-16383=0
0 EXPECT AUTH secret
0 SLEEP 1000
0 SEND +OK\r\n
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
client OPEN password=secret
client ADD once GET foo
client CANCEL 100
client RUN raises 57014
client WITHIN 900
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
