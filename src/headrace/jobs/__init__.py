"""Training jobs: what a person asks for, what that means on a cluster or one machine, and how it is shown. No I/O."""
