"""A bundle for who helps: what this machine or a cluster says of itself, in one file, without a credential."""
