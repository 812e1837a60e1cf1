//! The cache on disk and in memory.

mod basics;
mod counting;
mod crash;
mod damage;
mod disk;
mod leases;
mod levels;
mod maps;
mod model;
mod proofs;
mod support;
mod threads;
