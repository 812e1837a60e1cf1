"""Programs of `headrace run`: the node that they get, what they wait for, and how a command becomes one on its node.

Must not know how data comes to a node: they note that they consume it, and mounts follow.
"""
