"""A command becomes the process of a role, or the two of a mount, whose words and variables hold no credential."""
