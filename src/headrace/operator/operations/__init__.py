"""The work of operations on Kubernetes, a driver a kind: ordered as a Job or from the master, followed, cancelled."""
