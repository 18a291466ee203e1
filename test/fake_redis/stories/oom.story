# Redis is full.
0 SLOTS 0-16383=0
0 EXPECT SET foo 1
0 SEND -OOM command not allowed when used memory > 'maxmemory'.\r\n
client OPEN
client ADD once SET foo 1
client RUN raises 53200
