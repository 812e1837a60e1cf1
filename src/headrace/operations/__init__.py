"""What both backends do alike for operations on datasets: notes of runs, and loads ordered from masters."""
