"""A real Kubernetes on this machine for tests and demos: control plane, nodes in namespaces, images without a registry.

Needs root and the programs of `lacking()`; all of a cluster lies in one folder, and `down` leaves nothing.
"""
