# The cluster is down for a while: retried, and the map is asked for again.
nodes 2
0 SLOTS 0-16383=0
1 SLOTS 0-16383=1
0 EXPECT GET foo
0 SEND -CLUSTERDOWN The cluster is down\r\n
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
client OPEN
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
