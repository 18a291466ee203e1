# A node that was in use is replaced while nobody asks it anything, and its connection stays as it is:
# the map says so, and a fence is in the way as if the connection had broken.
nodes 3
0 SLOTS 0-8000=0,8001-16383=1
2 SLOTS 0-8000=2,8001-16383=1
0 EXPECT GET bar
0 SEND $1\r\n1\r\n
1 EXPECT GET foo
1 SEND -CLUSTERDOWN The cluster is down\r\n
client OPEN
client ADD repeatable GET bar
client RUN
client FENCE
client ADD repeatable GET foo
client RUN raises 08006
client FENCED_OFF true
client LIFT
