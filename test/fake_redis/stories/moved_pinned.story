# A pinned group is never redirected.
nodes 2
0 SLOTS 0-16383=0
0 EXPECT WATCH foo
0 SEND +OK\r\n
0 EXPECT MULTI
0 SEND +OK\r\n
0 EXPECT SET foo 1
0 SEND -MOVED 12182 127.0.0.1:$PORT1\r\n
0 EXPECT EXEC
0 SEND -EXECABORT Transaction discarded because of previous errors.\r\n
client OPEN
client ADD repeatable WATCH foo
client RUN
client ADD pinned MULTI ; SET foo 1 ; EXEC
client RUN
client REPLY 0 1 error MOVED
client REPLY 0 2 error EXECABORT
