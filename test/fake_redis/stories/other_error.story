# Other errors are the caller's business.
0 SLOTS 0-16383=0
0 EXPECT GET foo
0 SEND -WRONGTYPE Operation against a key holding the wrong kind of value\r\n
client OPEN
client ADD once GET foo
client RUN
client REPLY 0 0 error WRONGTYPE
