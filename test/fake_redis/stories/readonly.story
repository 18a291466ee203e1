# A primary was demoted: the map is refreshed, the command goes to the new one.
nodes 2
0 SLOTS 0-16383=0
1 SLOTS 0-16383=1
0 EXPECT SET foo 1
0 SEND -READONLY You can't write against a read only replica.\r\n
1 EXPECT SET foo 1
1 SEND +OK\r\n
client OPEN
client ADD once SET foo 1
client RUN
client REPLY 0 0 status OK
