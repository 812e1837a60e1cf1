"""What commands and the supervisor say to each other, and the client that asks.

Must not know the store or anything that runs: a command loads it, and has to be quick.
"""
