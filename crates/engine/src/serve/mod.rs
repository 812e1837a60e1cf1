//! The local server: other processes of this machine read through the owner of a cache.
