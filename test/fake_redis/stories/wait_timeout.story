# WAIT is not answered in time: nobody knows.
0 SLOTS 0-16383=0
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT WAIT 1 70
0 SLEEP 500
client OPEN replicas=1
client CLUSTER true
client TIMEOUT 150
client ADD durable_once INCR a
client RUN
client REPLY 0 0 lost
