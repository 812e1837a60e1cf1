"""What is wrong with a machine, a storage or a cluster, and how it is mended; and a bundle of all that for who helps.

Facts are gathered in modules `…_facts`; modules `…_checks` decide by them, without asking anybody.
"""
