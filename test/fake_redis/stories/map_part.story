# One that has heard of a part of the cluster alone: others may know more.
nodes 2
0 SLOTS 0-9999=1
1 SLOTS 0-16383=1
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
client OPEN
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
