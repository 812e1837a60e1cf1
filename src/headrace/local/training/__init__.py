"""Training jobs on the virtual nodes of one machine: kept, placed, started, followed, ended; logs that outlive them."""
