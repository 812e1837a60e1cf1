"""A plan's roles as objects of Kubernetes. Pure: plans and settings in, plain values out."""
