# Several servers that are no cluster: which one would be the database?
nodes 2
client OPEN
client ADD once GET foo
client RUN raises 08001
client SAID several servers are listed
