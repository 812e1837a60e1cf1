"""The common work of both backends for operations on datasets: notes of runs, and loads ordered from masters."""
