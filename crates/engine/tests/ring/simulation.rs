//! The simulation of `examples/ring_simulation` with few workers and blocks: what it shows must hold here, too.

#![allow(clippy::unwrap_used)]

use crate::simulated;

#[test]
fn two_hundred_workers_share_evenly_and_changes_move_only_their_share() {
    let plan = simulated::Plan { workers: 200, blocks: 100_000, replicas: 2, threads: 2 };
    let results = simulated::run(&plan).unwrap();
    assert_eq!((results.workers, results.blocks, results.replicas), (200, 100_000, 2));
    for balance in [&results.primaries, &results.copies] {
        // The mean worker's spread is `chance`; one of the smallest machines has that of a third of its stripes more.
        let spread = balance.chance * (7.0_f64 / 3.0).sqrt();
        assert!(balance.highest < 1.0 + 5.0 * spread && balance.p99 < 1.0 + 4.0 * spread, "{balance:?}");
        assert!(balance.lowest > 1.0 - 5.0 * spread && balance.p99 <= balance.highest, "{balance:?}");
    }
    assert_eq!(results.copies.blocks_per_worker, 1000.0);
    let names: Vec<&str> = results.movements.iter().map(|movement| &*movement.name).collect();
    assert_eq!(names, ["1 joins", "1 leaves", "1 % joins", "4 become 8"]);
    for movement in &results.movements {
        assert_eq!(movement.stray, 0, "{movement:?}");
        // Moved is what must be, but for chance and for second owners being a little less uneven than capacities.
        assert!((0.7..1.3).contains(&(movement.share / movement.least)), "{movement:?}");
    }
}
