from headrace.process import program

# Before all else that its programs load.
program.begins()
