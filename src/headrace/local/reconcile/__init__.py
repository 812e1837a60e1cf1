"""Datasets of the local backend brought in line with their declarations: what is seen, what the planner says of it, and
the steps that follow, each of which may be cut off and taken again.
"""
