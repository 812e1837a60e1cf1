"""Headrace's benchmark: the workloads of training, side by side with the local file system and with peers."""
