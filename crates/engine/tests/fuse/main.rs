//! The mount, as the kernel and programs see it.

mod lifecycle;
mod modes;
mod mount;
mod support;
