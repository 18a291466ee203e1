# A connection that was in use breaks: behind a fence nothing is sent any more, also what might be
# repeated, and not to other nodes either.  When it is lifted, all is as before.
nodes 2
0 SLOTS 0-8000=0,8001-16383=1
1 EXPECT GET foo
1 SEND $3\r\nbar\r\n
1 EXPECT GET foo
1 CLOSE
1 EXPECT GET foo
1 SEND $3\r\nbaz\r\n
0 EXPECT GET bar
0 SEND $1\r\n1\r\n
0 EXPECT GET bar
0 SEND $1\r\n2\r\n
client OPEN seeds=1
client ADD repeatable GET foo
client ADD repeatable GET bar
client RUN
client FENCE
client FENCED_OFF false
client ADD repeatable GET foo
client RUN raises 08006
client SAID broke in the middle of something that has several steps
client FENCED_OFF true
client ADD repeatable GET bar
client RUN raises 08006
client DETACH SET bar 0
client DETACHED lost 1
client OUTER
client FENCED_OFF true
client LIFT
client FENCED_OFF false
client ADD repeatable GET foo
client ADD repeatable GET bar
client RUN
client REPLY 0 0 string baz
client REPLY 1 0 string 2
