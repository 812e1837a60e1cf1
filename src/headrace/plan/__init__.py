"""The plan for a dataset: the roles to run, their places and settings, and the status; decided, not done.

`plan(declared, observed, now)` is a pure function: objects that people declared and facts that a backend saw go in;
roles, steps, volume, status and events come out. A backend takes the steps and observes again. Operations (DataLoad and
its like) are planned by `plan_operation`. Nothing here does I/O, reads a clock, holds a secret, or knows a backend.
"""
