# No answer in time: nobody knows whether it ran.  The next one reconnects.
0 SLOTS 0-16383=0
0 EXPECT INCR foo
0 SLEEP 400
0 EXPECT GET foo
0 SEND $1\r\n1\r\n
client OPEN
client CLUSTER true
client TIMEOUT 150
client ADD once INCR foo
client RUN
client REPLY 0 0 lost
client TIMEOUT 2000
client ADD once GET foo
client RUN
client REPLY 0 0 string 1
client STAT reconnects 1
