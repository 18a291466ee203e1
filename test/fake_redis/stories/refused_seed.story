# The first server listed is down, the second one knows the map.
nodes 2
0 DOWN
1 SLOTS 0-16383=1
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
client OPEN
client SLEEP 500
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
