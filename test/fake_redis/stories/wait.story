# Durable groups: one WAIT behind all that leave together, no round trip more.
0 SLOTS 0-16383=0
0 EXPECT INCR a
0 EXPECT GET b
0 EXPECT INCR c
0 EXPECT WAIT 2 70
0 SEND :1\r\n$1\r\nx\r\n:3\r\n:2\r\n
0 EXPECT GET a
0 SEND $1\r\n1\r\n
client OPEN replicas=2
client CLUSTER true
client ADD durable_once INCR a
client ADD repeatable GET b
client ADD durable_repeatable INCR c
client RUN
client REPLY 0 0 integer 1
client REPLY 1 0 string x
client REPLY 2 0 integer 3
client STAT round_trips 1
client ADD repeatable GET a
client RUN
client REPLY 0 0 string 1
