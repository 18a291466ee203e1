# What a server says is shown as text, whatever it is.
0 SLOTS 0-16383=0
0 EXPECT AUTH secret
0 SEND -WRONGPASS a\nb\r\n
client OPEN password=secret
client ADD once GET foo
client RUN raises 28P01
client SAID WRONGPASS a?b
