//! What members of a cluster say to each other.

mod answers;
mod descriptors;
mod faults;
mod flow;
mod rights;
mod support;
mod tls;
