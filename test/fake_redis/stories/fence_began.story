# What counts is what broke since the work began, not since the fence was put up; a new fence
# against what breaks from then on lets pass.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
0 EXPECT GET foo
0 CLOSE
0 EXPECT GET foo
0 SEND $3\r\nbaz\r\n
0 EXPECT GET foo
0 SEND $1\r\n1\r\n
client OPEN
client ADD repeatable GET foo
client RUN
client BEGAN
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string baz
client FENCE began
client FENCED_OFF true
client ADD repeatable GET foo
client RUN raises 08006
client LIFT
client FENCE
client FENCED_OFF false
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string 1
