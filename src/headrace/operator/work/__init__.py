"""The work for operations, one module a kind: ordered, followed, cancelled."""
