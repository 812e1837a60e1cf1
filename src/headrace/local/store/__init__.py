"""Declared objects and their history, on disk: the database, its objects, transactions, admission, events.

Must not know what is done for an object: no nodes, no processes, no planner's decisions.
"""
