# The connection breaks while replicas are waited for: sent again, and waited for there.
0 SLOTS 0-16383=0
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT WAIT 1 70
0 CLOSE
0 EXPECT INCR a
0 SEND :2\r\n
0 EXPECT WAIT 1 70
0 SEND :1\r\n
0 EXPECT INCR b
0 SEND :1\r\n
0 EXPECT WAIT 1 70
0 CLOSE
client OPEN replicas=1
client ADD durable_repeatable INCR a
client RUN
client REPLY 0 0 integer 2
client STAT reconnects 1
client ADD durable_once INCR b
client RUN
client REPLY 0 0 lost
