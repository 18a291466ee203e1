# ASK is an answer to who never asks; MOVED is followed, and what must wait waits.
nodes 2
0 SLOTS 0-16383=0
1 SLOTS 0-16383=1
0 EXPECT GET foo
0 SEND -ASK 12182 127.0.0.1:$PORT1\r\n
0 EXPECT GET foo
0 SEND -TRYAGAIN please\r\n
0 EXPECT GET foo
0 SEND -MOVED 12182 127.0.0.1:$PORT1\r\n
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
client OPEN seeds=1
client ADD never_asking_once GET foo
client RUN
client REPLY 0 0 error ASK 12182
client ADD never_asking_repeatable GET foo
client RUN
client REPLY 0 0 string bar
client STAT redirects 1
