"""The faults of a machine, a storage or a cluster, and their remedies; and a bundle of all that for a helper.

Facts are gathered in modules `…_facts`; modules `…_checks` decide by them, without asking anybody.
"""
