# One server hangs: what others answered counts, and a pause does not wait for it.
nodes 2
0 SLOTS 0-9999=0,10000-16383=1
1 SLOTS 0-9999=0,10000-16383=1
0 EXPECT INCR bar
0 SLEEP 4500
1 EXPECT GET foo
1 SEND -TRYAGAIN later\r\n
1 EXPECT GET foo
1 SEND $1\r\n7\r\n
client OPEN
client TIMEOUT 3000
client ADD once INCR bar
client ADD once GET foo
client RUN
client REPLY 0 0 lost
client REPLY 1 0 string 7
