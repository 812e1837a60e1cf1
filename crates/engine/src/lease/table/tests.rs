//! Of the table alone: no worker, no files.

use proptest::prelude::*;

use super::*;
use crate::budget::Budget;

fn id(number: u8) -> FileId {
    let mut id = [number; 16];
    id[14] = number.wrapping_mul(37);
    FileId(id)
}

/// A lease of a file whose size is its number.
fn lease(number: u8, budget: &Budget) -> Arc<Lease> {
    lease_by(Ticket::default(), number, budget)
}

fn lease_by(ticket: Ticket, number: u8, budget: &Budget) -> Arc<Lease> {
    Arc::new(Lease {
        file: Arc::new(File::open("/dev/null").expect("there")),
        size: u64::from(number),
        length: 0,
        blocks: BlockMap::default(),
        whole: false,
        unverified: false,
        asked: Instant::now(),
        outdated: false.into(),
        ticket,
        _descriptor: budget.try_acquire(1).expect("free"),
    })
}

proptest! {
    #[test]
    fn table_is_bounded_and_every_lease_is_in_it_or_was_given_back(
        limit in 1usize..6, steps in prop::collection::vec((0u8..5, 0u8..12), 1..200),
    ) {
        let (table, budget) = (Table::new(limit), Budget::count("descriptors", 1000));
        let mut held = Vec::new();
        for (step, number) in steps {
            match step {
                0 | 1 => {
                    let left = table.insert(id(number), lease(number, &budget), limit);
                    left.iter().for_each(|(id_left, lease)| assert_eq!(*id_left, id(lease.size as u8)));
                    prop_assert!(table.find(&id(number)).is_some());
                }
                2 => held.extend(table.find(&id(number))),
                3 => {
                    let left = table.remove_one(&id(number)).into_iter().chain(table.grow_older());
                    let free = left.map(|(_, lease)| Arc::strong_count(&lease)).all(|count| count == 1);
                    prop_assert!(free, "what is in use is not given back for tidiness");
                }
                _ => held.clear(),
            }
            prop_assert!(table.len() <= limit);
            for number in 0..12 {
                let found = table.find(&id(number)).map(|lease| lease.size);
                prop_assert!(found.is_none_or(|size| size == u64::from(number)));
            }
        }
        drop(held);
        prop_assert_eq!(budget.used(), table.len() as u64);
    }
}

#[test]
fn what_was_not_used_for_two_rounds_goes() {
    let (table, budget) = (Table::new(10), Budget::count("descriptors", 10));
    (0..2).for_each(|number| assert!(table.insert(id(number), lease(number, &budget), 10).is_empty()));
    assert!(table.grow_older().is_empty());
    assert!(table.find(&id(1)).is_some());
    assert_eq!(table.grow_older().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(0)]);
    assert_eq!(table.grow_older().len(), 1);
    assert_eq!(budget.used(), 0);
}

#[test]
fn absence_is_remembered_for_its_time_and_within_bounds() {
    let (table, now) = (Table::new(10), Instant::now());
    table.note_absent(&id(1), now);
    let second = Duration::from_secs(1);
    assert!(table.is_absent(&id(1), now, second) && !table.is_absent(&id(1), now + second, second));
    (0..2 * MAX_ABSENT as u64).for_each(|number| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        table.note_absent(&FileId(id), now);
    });
    assert!(table.shards[0].lock().absent.len() <= MAX_ABSENT);
    table.note_absent(&id(2), now);
    table.outdate(&id(2));
    assert!(!table.is_absent(&id(2), now, second));
}

#[test]
fn of_two_answers_on_one_connection_the_later_one_stays() {
    let (table, budget) = (Table::new(10), Budget::count("descriptors", 10));
    let ticket = |connection, request| Ticket { connection, request, ..Ticket::default() };
    let insert = |ticket| table.insert(id(1), lease_by(ticket, 1, &budget), 10).len();
    let found = || table.find(&id(1)).map(|lease| lease.ticket);
    assert_eq!((insert(ticket(1, 6)), found()), (0, Some(ticket(1, 6))));
    // The thread that asked before is slower here. The worker has but the later lease.
    assert_eq!((insert(ticket(1, 5)), found()), (0, Some(ticket(1, 6))));
    assert_eq!((insert(ticket(1, 7)), found()), (1, Some(ticket(1, 7))));
    assert_eq!((insert(ticket(2, 1)), found()), (1, Some(ticket(2, 1))), "another connection has leases of its own");
    assert_eq!(budget.used(), 1);
}
