//! Who holds a block.

#[path = "../../examples/ring_simulation/simulation.rs"]
mod simulated;

mod properties;
mod simulation;
