"""Messages between the processes of a cluster through the master: requests, signatures, state, web page.

`client` is used by workers, mounts, loads and the command line; `server` by the master alone. Nothing here knows the
native engine: what the master does with bytes is handed in.
"""
