"""Processes on the nodes: started, found again by their tags, ended; who consumes datasets; their files and logs.

Must not know why a process is to run: that is decided above.
"""
