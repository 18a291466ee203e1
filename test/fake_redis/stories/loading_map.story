# A server that is loading does not answer CLUSTER SLOTS; another one does.
nodes 2
0 EXPECT CLUSTER SLOTS
0 SEND -LOADING Redis is loading the dataset in memory\r\n
0 SLOTS 0-16383=1
1 SLOTS 0-16383=1
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
client OPEN
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
