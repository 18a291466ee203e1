# No log on disk: no use; no WAITAOF: said so.
0 SLOTS 0-16383=0
0 EXPECT CONFIG GET *append*
0 SEND *4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n
0 EXPECT CONFIG GET *append*
0 SEND *4\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT WAITAOF 1 0 70
0 SEND -ERR unknown command 'WAITAOF', with args beginning with: '1' '0' '70'\r\n
client OPEN fsync
client ADD durable_once INCR a
client RUN raises 55000
client SAID appendonly yes
client ADD durable_once INCR a
client RUN raises 0A000
