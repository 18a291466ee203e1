# Detached commands are answered in passing; redirections arrive as errors.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
0 EXPECT SET foo 1
0 EXPECT SET foo 2
0 SEND +OK\r\n
0 SEND -MOVED 12182 127.0.0.1:1\r\n
0 EXPECT GET foo
0 SEND $1\r\n2\r\n
0 EXPECT SET foo 3
0 CLOSE
0 EXPECT GET foo
0 SEND $-1\r\n
client OPEN
client DETACH SET foo 0
client DETACHED lost 1
client ADD repeatable GET foo
client RUN
client DETACH SET foo 1
client DETACH SET foo 2
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string 2
client DETACHED status 1
client DETACHED error 1
client DETACH SET foo 3
client DRAIN 500
client DETACHED lost 2
client ADD repeatable GET foo
client RUN
client REPLY 0 0 nil
