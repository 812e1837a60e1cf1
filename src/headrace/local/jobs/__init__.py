"""Training jobs on the virtual nodes of one machine: kept, scheduled, started, followed, ended; logs that outlive them.

Must not know Kubernetes; what a job is to a person is decided in `headrace.jobs`.
"""
