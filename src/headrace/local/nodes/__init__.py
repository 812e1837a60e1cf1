"""Virtual nodes: their networks and namespaces, what they have room for, and the folders that are made on this machine.

Must not know datasets or the processes that run on nodes.
"""
