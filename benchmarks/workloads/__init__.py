"""Measurements on a directory, whoever serves it. None of them knows contenders, servers or reports."""
