"""The backend for Kubernetes: looks at the world, asks the planner, and applies what it says."""
