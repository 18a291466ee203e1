# The disk: WAITAOF, after a look at the server's log settings.
0 SLOTS 0-16383=0
0 EXPECT CONFIG GET *append*
0 SEND *4\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT WAITAOF 1 1 70
0 SEND *2\r\n:1\r\n:1\r\n
0 EXPECT INCR a
0 SEND :2\r\n
0 EXPECT WAITAOF 1 1 70
0 SEND *2\r\n:0\r\n:1\r\n
client OPEN replicas=1 fsync
client ADD durable_repeatable INCR a
client RUN
client REPLY 0 0 integer 1
client ADD durable_repeatable INCR a
client RUN raises 08006
