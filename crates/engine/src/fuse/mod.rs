//! The FUSE session over the kernel protocol.
