//! The list of files on disk: whole, damaged, and written by a process that is killed.

mod crash;
mod damage;
mod erofs;
mod keys;
mod permissions;
mod properties;
mod support;
