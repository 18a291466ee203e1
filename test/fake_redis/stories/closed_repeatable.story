# The connection breaks in the middle of a reply: sent again.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SEND $3\r\nba
0 CLOSE
0 EXPECT GET foo
0 SEND $3\r\nbar\r\n
client OPEN
client ADD repeatable GET foo
client RUN
client REPLY 0 0 string bar
client STAT reconnects 1
