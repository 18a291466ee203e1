# A server whose WAIT has another name (rename-command) is told at once, and by its name.
0 SLOTS 0-16383=0
0 EXPECT INCR a
0 SEND :1\r\n
0 EXPECT WAIT 1 70
0 SEND -ERR unknown command 'WAIT', with args beginning with: '1' '70' \r\n
client OPEN replicas=1
client TIMEOUT 10000
client ADD durable_repeatable INCR a
client RUN raises 0A000
client SAID unknown command 'WAIT'
client WITHIN 5000
