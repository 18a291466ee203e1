# appendfsync always: a reply implies the disk, nothing to wait for.
0 SLOTS 0-16383=0
0 EXPECT CONFIG GET *append*
0 SEND *6\r\n$25\r\nno-appendfsync-on-rewrite\r\n$2\r\nno\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n
0 EXPECT INCR a
0 SEND :1\r\n
client OPEN fsync
client ADD durable_once INCR a
client RUN
client REPLY 0 0 integer 1
