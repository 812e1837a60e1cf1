"""The local backend: objects in SQLite, one supervisor, virtual nodes of one machine.

It keeps what people declare, serves it to the command line over a Unix socket, and owns what runs on the nodes.
`headrace.plan` decides what shall run. Knows no Kubernetes. Its rooms, each of which imports only from those below it:
`supervisor`, `lifecycle`, `jobs`, `server`, `reconcile` and `programs`, `operations`, `datasets`, `context`,
`processes`, `nodes`, `store`, `protocol`, `layout`.
"""

from headrace.process import program

# Before all else that its programs load.
program.begins()
