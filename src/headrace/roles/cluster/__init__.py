"""The parts of a role that is a member of a cluster: how it follows the master, and what it does for it."""
