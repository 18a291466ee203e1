# Always CLUSTERDOWN: the budget ends, and the error says so.
0 SLOTS 0-16383=0
0 ALWAYS -CLUSTERDOWN some text\r\n
client OPEN
client CLUSTER true
client TIMEOUT 300
client ADD once INCR foo
client ADD repeatable GET foo
client RUN raises 08006
client SAID CLUSTERDOWN some text
client WITHIN 10000
