# A redirection without host means the host that said it.
nodes 2
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SLOTS 0-16383=1
0 SEND -MOVED 12182 :$PORT1\r\n
1 SLOTS 0-16383=1
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
client OPEN seeds=1
client ADD once GET foo
client RUN
client REPLY 0 0 string bar
