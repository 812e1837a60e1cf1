"""The parts of a mount that outlive a process, and copies of them with the keeper of a node, which outlive a pod."""
