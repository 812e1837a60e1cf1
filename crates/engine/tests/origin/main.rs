//! Storages of all kinds, served by programs of the tests: one contract, and what each may do wrong.

mod check;
mod checksums;
mod contract;
mod faults;
mod hdfs;
mod hdfs_checksums;
mod keys;
mod listing;
mod local;
mod nfs;
mod redirects;
mod servers;
mod throughput;
mod web;
