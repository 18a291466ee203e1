# The same with elements.
0 SLOTS 0-16383=0
0 ALWAYS *2000000000\r\n
client OPEN
client TIMEOUT 1000
client ADD repeatable GET foo
client RUN raises 08P01
client SAID more elements
