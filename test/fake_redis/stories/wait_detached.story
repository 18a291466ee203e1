# Detached commands: one question for copies; what a broken connection had is lost.
0 SLOTS 0-16383=0
0 EXPECT GET x
0 SEND $1\r\n1\r\n
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT INCR b
0 SEND :1\r\n
0 EXPECT WAIT 1 70
0 SEND :1\r\n
0 EXPECT INCR c
0 SEND :1\r\n
0 CLOSE
client OPEN replicas=1
client ADD repeatable GET x
client RUN
client COPIES 0
client DETACH_DURABLE INCR a
client DETACH_DURABLE INCR b
client COPIES 1
client DRAIN 2000
client DETACHED integer 3
client COPIES 0
client DETACH_DURABLE INCR c
client DRAIN 2000
client DETACHED integer 4
client SLEEP 500
client ADD repeatable GET x
0 EXPECT GET x
0 SEND $1\r\n1\r\n
client RUN
client COPIES 1
client DETACHED lost 1
client COPIES 0
