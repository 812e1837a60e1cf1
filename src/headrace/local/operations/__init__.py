"""The work of operations (loads, copies, programs, backups): a driver a kind, and the runner of their processes.

Must not know the plan of a dataset: it is handed an order for one run, and says how far that is.
"""
