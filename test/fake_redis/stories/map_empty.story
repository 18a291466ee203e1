# A node that was taken out of the cluster knows of no slots: the next one is asked.
nodes 2
0 SLOTS none
1 SLOTS 0-16383=1
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
client OPEN
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
client CLUSTER true
