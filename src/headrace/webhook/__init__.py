"""The admission webhook: pods that use a dataset prefer the nodes that hold its data."""
