"""Training jobs on Kubernetes, run by the operators of Kubeflow: the `JobBackend`, and the keeper of jobs."""
