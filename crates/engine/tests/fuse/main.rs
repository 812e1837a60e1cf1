//! The mount, as the kernel and programs see it.

mod disks;
mod lifecycle;
mod modes;
mod mount;
mod support;
