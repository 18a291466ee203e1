# A plain server that is a replica stays one.
0 ALWAYS -READONLY You can't write against a read only replica.\r\n
client OPEN
client CLUSTER false
client TIMEOUT 100
client ADD once SET foo 1
client RUN raises 25006
