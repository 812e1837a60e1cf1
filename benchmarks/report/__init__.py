"""What is made of the samples: statistics, promises, tables, a plot. Measures nothing."""
