# A primary that becomes a replica while it waits: its answer says nothing.
nodes 2
0 SLOTS 0-16383=0
1 SLOTS 0-16383=1
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT WAIT 1 70
0 SLOTS 0-16383=1
0 SEND -UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n
0 CLOSE
1 EXPECT INCR a
1 SEND :1\r\n
1 EXPECT WAIT 1 70
1 SEND :1\r\n
client OPEN replicas=1
client ADD durable_repeatable INCR a
client RUN
client REPLY 0 0 integer 1
