# Too few replicas: what may be repeated raises, what may not is lost.
0 SLOTS 0-16383=0
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT WAIT 2 70
0 SEND :1\r\n
0 EXPECT INCR a
0 SEND :2\r\n
0 EXPECT WAIT 2 70
0 SEND :1\r\n
0 EXPECT GET a
0 SEND $1\r\n2\r\n
client OPEN replicas=2
client ADD durable_once INCR a
client RUN
client REPLY 0 0 lost
client ADD durable_repeatable INCR a
client RUN raises 08006
client SAID 1 of 2 replicas
client ADD repeatable GET a
client RUN
client REPLY 0 0 string 2
