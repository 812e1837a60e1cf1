"""One dataset on this machine: its desired state, its files and addresses, how its roles are rendered and probed.

Must not know when something is done: `reconcile` decides that, `operations` and `programs` only ask.
"""
