"""Clusters larger than any we can start: how evenly blocks lie, what a change moves, what a master has to do.

`python -m benchmarks.simulation.run` prints the tables of docs/decisions/0008-placement.md.
"""
