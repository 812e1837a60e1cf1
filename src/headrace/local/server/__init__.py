"""The supervisor's HTTP API on its Unix socket: who may ask, endpoints, watches, and lines for people.

Must not know training jobs, which add endpoints of their own, nor decide anything.
"""
