"""The backend for Kubernetes: observes the cluster, asks the planner, and applies what it says."""
