"""One pass over a dataset, for both backends: its order, what becomes of a part that fails, when the next one comes.

Must not do any I/O of its own: a backend observes and acts through `world.World`. Between passes nothing is remembered
that could not be found out again.
"""
