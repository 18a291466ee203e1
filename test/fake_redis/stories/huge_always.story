# Whoever goes on like that is told so, not that memory is short.
0 SLOTS 0-16383=0
0 ALWAYS $2000000000\r\n
client OPEN
client TIMEOUT 1000
client ADD repeatable GET foo
client RUN raises 08P01
client SAID longer string
