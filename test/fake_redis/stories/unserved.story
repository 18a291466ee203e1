# A slot that nobody serves.
0 SLOTS 0-9999=0
client OPEN
client CLUSTER true
client TIMEOUT 100
client ADD once GET foo
client RUN raises 08006
client SAID 12182
