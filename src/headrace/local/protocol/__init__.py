"""Messages between commands and the supervisor, and the client that asks.

Must not know the store or anything that runs: a command loads it, and has to be quick.
"""
