# The server wants a password and got none.
0 EXPECT CLUSTER SLOTS
0 SEND -NOAUTH Authentication required.\r\n
client OPEN
client ADD once GET foo
client RUN raises 28P01
