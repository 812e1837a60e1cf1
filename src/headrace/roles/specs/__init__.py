"""From the settings of a role to the spec of its process: everything that can be checked is checked here."""
