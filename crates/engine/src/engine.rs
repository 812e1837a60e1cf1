//! The assembled engine.
