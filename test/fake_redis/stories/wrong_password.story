# Wrong credentials are an error at once.
0 SLOTS 0-16383=0
0 EXPECT AUTH joe secret
0 SEND -WRONGPASS invalid username-password pair or user is disabled.\r\n
client OPEN user=joe password=secret
client TIMEOUT 10000
client ADD once GET foo
client RUN raises 28P01
client SAID WRONGPASS
client WITHIN 5000
