# Protected mode: the server lets nobody in.
0 EXPECT CLUSTER SLOTS
0 SEND -DENIED Redis is running in protected mode\r\n
0 CLOSE
client OPEN
client ADD once INCR foo
client RUN raises 28000
client SAID protected mode
client SAID give it a password
