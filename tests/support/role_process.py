"""Runs a role as a real process around the doubles: `role_process.py master|worker ORDERS-DESCRIPTOR`."""

from __future__ import annotations

import sys

import cluster_double

from headrace.engine import native
from headrace.roles.processes import master, worker

if __name__ == "__main__":
    module = cluster_double.make_module()
    native.load = lambda: module  # type: ignore[assignment]
    role, descriptor = sys.argv[1:]
    sys.exit({"master": master, "worker": worker}[role].main(["name", descriptor]))
