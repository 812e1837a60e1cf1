"""The CSI node driver: puts the mounts of a node into pods, and keeps what lets a mount outlive the end of its pod.

`driver` puts the parts together. `node`, `identity` and `registration` speak gRPC; `publishing` and `rebinding` do what
is asked, by `binding`; `keeper` holds descriptors for the supervisors of the node's mounts. This process touches no
mount itself, since one whose process is away would hold it (see `headrace.roles.mountpoint.apart`).
"""
