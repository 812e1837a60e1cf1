//! What placement promises: shares by weight, changes that move only what they must, one answer for everybody.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use headrace_engine::ids::{BlockSize, FileId};
use headrace_engine::ring::{Member, MemberId, MemberState, Ring, StripeId, View, stripe_of};
use proptest::prelude::*;

fn member(id: &str, weight: u64) -> Member {
    Member {
        id: MemberId::from(id),
        address: "198.18.0.1:7070".to_owned(),
        node: id.to_owned(),
        weight,
        state: MemberState::Active,
        joined_epoch: 1,
        cached_bytes: 1,
        lease_socket: None,
    }
}

fn members(weights: &[u64]) -> Vec<Member> {
    weights.iter().enumerate().map(|(number, weight)| member(&format!("node-{number}"), *weight)).collect()
}

fn ring(replicas: u32, members: Vec<Member>) -> Ring {
    Ring::new(View { epoch: 9, replicas, members }).unwrap()
}

fn stripes(count: u64, seed: u64) -> impl Iterator<Item = StripeId> {
    (0..count).map(move |number| {
        let mut file = [0; 16];
        file[..8].copy_from_slice(&seed.to_le_bytes());
        file[8..].copy_from_slice(&(number / 4).to_le_bytes());
        stripe_of(&FileId(file), (number % 4) as u32 * 4, BlockSize::DEFAULT)
    })
}

fn ids(ring: &Ring, indices: &[usize]) -> Vec<String> {
    indices.iter().map(|index| ring.member(*index).id.to_string()).collect()
}

fn owners(ring: &Ring, stripe: StripeId) -> BTreeSet<String> {
    ids(ring, &ring.owners(stripe)).into_iter().collect()
}

/// Placement is part of the protocol: these answers are the same on every machine and in every version.
#[test]
fn golden_places() {
    let mut members = members(&[1 << 40, 1 << 40, 2 << 40, 4 << 40, 0, 1 << 40, 3_000_000_000_000, 1 << 40]);
    members[5].state = MemberState::Draining;
    let ring = ring(3, members);
    let file = FileId(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff");
    let answers: Vec<_> = [0, 1, 4, 8, 1 << 20, u32::MAX]
        .into_iter()
        .map(|index| stripe_of(&file, index, BlockSize::DEFAULT))
        .map(|stripe| (stripe.0, ring.ranking(stripe, 8), ring.owners(stripe)))
        .collect();
    let expected = [
        (15_172_793_983_712_843_293, vec![6, 7, 1, 3, 0, 2, 5], vec![6, 7, 1]),
        (15_172_793_983_712_843_293, vec![6, 7, 1, 3, 0, 2, 5], vec![6, 7, 1]),
        (11_787_978_204_748_616_899, vec![3, 7, 0, 6, 5, 2, 1], vec![3, 7, 0]),
        (17_608_705_422_334_193_405, vec![3, 1, 2, 6, 0, 5, 7], vec![3, 1, 2]),
        (112_194_408_220_681_787, vec![5, 7, 0, 2, 6, 1, 3], vec![7, 0, 2]),
        (11_438_558_711_908_116_672, vec![3, 2, 1, 6, 0, 7, 5], vec![3, 2, 1]),
    ];
    assert_eq!(answers, expected);
}

/// The golden answer for a whole population, as one number: catches what six stripes do not touch.
#[test]
fn golden_places_of_many() {
    let ring = ring(2, members(&(0..500).map(|number| 100 + number % 3 * 50).collect::<Vec<_>>()));
    let mut sum = 0_u64;
    for stripe in stripes(2_000, 42) {
        for index in ring.ranking(stripe, 5) {
            sum = sum.wrapping_mul(31).wrapping_add(index as u64);
        }
    }
    assert_eq!(sum, 8_237_217_109_316_974_571);
}

/// Within five standard deviations of the fair share.
#[test]
fn shares_follow_weights() {
    let weights = [1, 1, 2, 4, 8, 0, 16, 3];
    let ring = ring(1, members(&weights));
    let count = 60_000;
    let mut owned = [0_u64; 8];
    stripes(count, 1).for_each(|stripe| owned[ring.owners(stripe)[0]] += 1);
    let total: u64 = weights.iter().sum();
    for (weight, owned) in weights.into_iter().zip(owned) {
        let expected = (count * weight) as f64 / total as f64;
        assert!((owned as f64 - expected).abs() <= 5.0 * expected.sqrt(), "weight {weight}: {owned} of {expected}");
    }
}

/// When a worker dies, what it had is spread over all others: whoever comes second is independent of who comes first.
#[test]
fn every_pair_of_owners_is_equally_likely() {
    let ring = ring(2, members(&[5; 12]));
    let count = 66_000;
    let mut pairs = BTreeMap::<(usize, usize), u64>::new();
    for stripe in stripes(count, 2) {
        let owners = ring.owners(stripe);
        *pairs.entry((owners[0], owners[1])).or_default() += 1;
    }
    let expected = count as f64 / 132.0;
    let chi_square: f64 = pairs.values().map(|seen| (*seen as f64 - expected).powi(2) / expected).sum();
    assert_eq!(pairs.len(), 132);
    // 131 degrees of freedom: 131 ± 16; 220 has a chance of one in a million.
    assert!(chi_square < 220.0, "{chi_square}");
}

#[test]
fn where_nobody_has_a_weight_all_own_equally() {
    let ring = ring(1, members(&[0; 4]));
    let mut owned = [0; 4];
    stripes(4_000, 3).for_each(|stripe| owned[ring.owners(stripe)[0]] += 1);
    assert!(owned.iter().all(|owned| (800..1200).contains(owned)), "{owned:?}");
}

#[test]
fn a_view_without_members_has_no_owners() {
    let ring = ring(2, Vec::new());
    assert!(ring.owners(StripeId(1)).is_empty() && ring.ranking(StripeId(1), 5).is_empty());
}

#[test]
fn previous_owners_are_the_draining_then_the_elder_that_have_something() {
    let mut members = members(&[7; 6]);
    members[1].state = MemberState::Draining;
    members[2].cached_bytes = 0;
    members[3].joined_epoch = 5;
    members[4].joined_epoch = 6;
    let ring = ring(1, members);
    for stripe in stripes(200, 4) {
        let previous = ring.previous_owners(stripe, 3, 9);
        assert_eq!(previous[0], 1);
        let ranked: Vec<usize> = ring.ranking(stripe, 9).into_iter().filter(|index| [0, 5].contains(index)).collect();
        assert_eq!(previous[1..], ranked);
        assert_eq!(ring.previous_owners(stripe, 3, 2), previous[..2]);
        assert!(ring.previous_owners(stripe, 3, 0).is_empty());
    }
}

/// After one join, the worker that owned a stripe before is the first that its new owner asks.
#[test]
fn the_previous_primary_is_asked_first_after_a_join() {
    let before = ring(1, members(&[3, 3, 6, 6]));
    let mut grown = members(&[3, 3, 6, 6, 6]);
    grown[4].joined_epoch = 2;
    let after = ring(1, grown);
    let mut moved = 0;
    for stripe in stripes(500, 5).filter(|stripe| after.owners(*stripe) == [4]) {
        assert_eq!(after.previous_owners(stripe, 4, 1), before.owners(stripe));
        moved += 1;
    }
    assert!(moved > 80, "{moved}");
}

/// Weights as a cluster has them: a few sizes, sometimes none.
fn weights() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop::sample::select(vec![0_u64, 1, 1 << 38, 1 << 40, 3 << 40, 1 << 44]), 1..40)
}

proptest! {
    #[test]
    fn owners_are_different_active_members_with_a_weight(
        weights in weights(), draining in prop::collection::vec(any::<bool>(), 40), replicas in 1_u32..6, seed: u64,
    ) {
        let mut members = members(&weights);
        for (member, draining) in members.iter_mut().zip(draining) {
            if draining { member.state = MemberState::Draining }
        }
        let able = |weighs: bool| {
            let found = members.iter().filter(|m| m.state == MemberState::Active && (m.weight > 0 || !weighs));
            found.count()
        };
        let expected = if able(true) > 0 { able(true) } else { able(false) };
        let has_weights = able(true) > 0;
        let ring = ring(replicas, members);
        for stripe in stripes(8, seed) {
            let owners = ring.owners(stripe);
            prop_assert_eq!(owners.len(), expected.min(replicas as usize));
            prop_assert_eq!(owners.iter().collect::<BTreeSet<_>>().len(), owners.len());
            for index in &owners {
                let member = ring.member(*index);
                prop_assert!(member.state == MemberState::Active && (member.weight > 0 || !has_weights));
            }
            // Owners are the ranking without the draining.
            let ranking = ring.ranking(stripe, usize::MAX);
            let active: Vec<usize> = ranking.iter().copied()
                .filter(|index| ring.member(*index).state == MemberState::Active).take(replicas as usize).collect();
            prop_assert_eq!(active, owners);
            for most in [0, 1, 3, 33, 34] {
                prop_assert_eq!(&ring.ranking(stripe, most)[..], &ranking[..most.min(ranking.len())]);
            }
        }
    }

    #[test]
    fn the_order_of_the_list_does_not_matter(weights in weights(), replicas in 1_u32..4, seed: u64, turn in 0_usize..40) {
        let plain = ring(replicas, members(&weights));
        let mut shuffled = members(&weights);
        shuffled.reverse();
        let length = shuffled.len();
        shuffled.rotate_left(turn % length);
        let other = ring(replicas, shuffled);
        for stripe in stripes(8, seed) {
            prop_assert_eq!(ids(&plain, &plain.owners(stripe)), ids(&other, &other.owners(stripe)));
            prop_assert_eq!(ids(&plain, &plain.ranking(stripe, 40)), ids(&other, &other.ranking(stripe, 40)));
        }
    }

    #[test]
    fn a_join_moves_stripes_to_the_joiner_alone_and_its_leaving_moves_them_back(
        weights in weights(), weight in 1_u64..1 << 44, replicas in 1_u32..4, seed: u64,
    ) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let before = ring(replicas, members(&weights));
        let mut grown = members(&weights);
        grown.push(member("joiner", weight));
        let after = ring(replicas, grown);
        for stripe in stripes(32, seed) {
            let (before, after) = (owners(&before, stripe), owners(&after, stripe));
            let new: Vec<&String> = after.difference(&before).collect();
            prop_assert!(new.is_empty() || new == ["joiner"], "{:?} became {:?}", before, after);
            prop_assert!(before.difference(&after).count() <= new.len());
        }
    }

    #[test]
    fn draining_moves_what_leaving_would_move(weights in weights(), replicas in 1_u32..4, seed: u64, which in 0_usize..40) {
        let mut drained = members(&weights);
        let which = which % drained.len();
        drained[which].state = MemberState::Draining;
        let mut gone = members(&weights);
        gone.remove(which);
        let (drained, gone) = (ring(replicas, drained), ring(replicas, gone));
        for stripe in stripes(16, seed) {
            prop_assert_eq!(ids(&drained, &drained.owners(stripe)), ids(&gone, &gone.owners(stripe)));
        }
    }

    #[test]
    fn more_weight_never_costs_a_stripe(weights in weights(), seed: u64, which in 0_usize..40) {
        let before = ring(1, members(&weights));
        let which = which % weights.len();
        prop_assume!(weights[which] > 0);
        let mut more = weights.clone();
        more[which] *= 2;
        let after = ring(1, members(&more));
        for stripe in stripes(32, seed) {
            let (before, after) = (before.owners(stripe), after.owners(stripe));
            prop_assert!(after == before || after == [which]);
        }
    }

    #[test]
    fn any_text_is_a_view_or_an_error(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = View::from_json(&text);
    }
}
