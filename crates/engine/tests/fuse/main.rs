//! The mount, as the kernel and programs see it.

mod disks;
mod invalidation;
mod maps;
mod modes;
mod mount;
mod mounting;
mod readers;
mod succession;
mod support;
mod tree;
mod views;
