# A slot has moved: follow, remember, and refresh the map by the way.
nodes 2
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SLOTS 0-9999=0,10000-16383=1
0 SEND -MOVED 12182 127.0.0.1:$PORT1\r\n
1 SLOTS 0-9999=0,10000-16383=1
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
1 EXPECT GET foo
1 SEND $3\r\nbaz\r\n
client OPEN
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
client STAT redirects 1
client ADD once GET foo
client RUN
client REPLY 0 0 string baz
client STAT redirects 1
client STAT round_trips 3
