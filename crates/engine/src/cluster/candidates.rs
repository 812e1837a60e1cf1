//! The order in which members are asked for a stripe. Pure.

use crate::ring::{Ring, StripeId};

/// Members beyond the owners that are asked before a read looks at everybody.
const STAND_INS: usize = 3;

/// A member to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its number in the view.
    pub member: usize,
    /// It is to fetch from the origin itself what it lacks, since whom it would ask does not answer us.
    pub direct: bool,
    pub is_owner: bool,
}

/// Owners first, those on `node` before others; then members that can fetch in their place; those that do not answer
/// last. `everybody` goes through the whole view instead of the next few.
pub(super) fn candidates(
    ring: &Ring,
    stripe: StripeId,
    node: &str,
    is_suspect: impl Fn(usize) -> bool,
    everybody: bool,
) -> Vec<Candidate> {
    let owners = ring.owners(stripe);
    let most = if everybody { ring.view().members.len() } else { owners.len() + STAND_INS };
    let primary_lost = owners.first().is_none_or(|primary| is_suspect(*primary));
    let mut found: Vec<Candidate> = owners
        .iter()
        .enumerate()
        .map(|(rank, member)| Candidate { member: *member, direct: rank > 0 && primary_lost, is_owner: true })
        .collect();
    // Stable: the rank decides among equals.
    found.sort_by_key(|candidate| ring.member(candidate.member).node != node);
    let others = ring.ranking(stripe, most).into_iter().filter(|member| !owners.contains(member));
    found.extend(others.map(|member| Candidate { member, direct: true, is_owner: false }));
    found.sort_by_key(|candidate| is_suspect(candidate.member));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::view;

    fn ring(members: usize, replicas: u32) -> Ring {
        Ring::new(view(members, replicas)).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn owners_come_first_and_the_own_node_before_them_all() {
        let ring = ring(6, 3);
        for number in 0..200u64 {
            let stripe = StripeId(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let owners = ring.owners(stripe);
            let node = ring.member(owners[2]).node.clone();
            let found = candidates(&ring, stripe, &node, |_| false, false);
            assert_eq!(found[0].member, owners[2]);
            assert!(found[..3].iter().all(|candidate| candidate.is_owner && !candidate.direct));
            assert!(found[3..].iter().all(|candidate| !candidate.is_owner && candidate.direct));
            assert_eq!(found.len(), 6);
        }
    }

    #[test]
    fn suspects_are_asked_last_and_a_lost_primary_makes_replicas_fetch_themselves() {
        let ring = ring(5, 2);
        let stripe = StripeId(77);
        let owners = ring.owners(stripe);
        let found = candidates(&ring, stripe, "elsewhere", |member| member == owners[0], false);
        assert_eq!((found[0].member, found[0].direct), (owners[1], true));
        assert_eq!(found.last().map(|candidate| candidate.member), Some(owners[0]));
    }

    #[test]
    fn everybody_means_every_member_once() {
        let ring = ring(20, 1);
        let found = candidates(&ring, StripeId(3), "", |member| member % 2 == 0, true);
        let mut members: Vec<usize> = found.iter().map(|candidate| candidate.member).collect();
        members.sort_unstable();
        assert_eq!(members, (0..20).collect::<Vec<_>>());
    }
}
