# appendfsync always, but not while the log is rewritten: a reply does not imply the disk.
0 SLOTS 0-16383=0
0 EXPECT CONFIG GET *append*
0 SEND *6\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n$25\r\nno-appendfsync-on-rewrite\r\n$3\r\nyes\r\n
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT WAITAOF 1 0 70
0 SEND *2\r\n:0\r\n:0\r\n
client OPEN fsync
client ADD durable_repeatable INCR a
client RUN raises 08006
client SAID on disk
