# An ACL forbids the command; the batch is finished before the error is raised.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SEND -NOPERM this user has no permissions to run the 'get' command\r\n
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
0 EXPECT GET foo
0 SEND $3\r\nbaz\r\n
client OPEN
client ADD once GET foo
client ADD once GET foo
client RUN raises 42501
client ADD once GET foo
client RUN
client REPLY 0 0 string baz
