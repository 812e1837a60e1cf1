//! The owners of a stripe, and those who may have had it before.

use super::hash::StripeId;
use super::table::{self, Candidate, Row, Table};
use super::view::{Member, MemberState, View};
use crate::error::Result;

/// A view that can be asked for places. Immutable; a new view makes a new ring. Some µs an answer for 10,000 workers.
pub struct Ring {
    view: View,
    active: Table,
    draining: Table,
}

impl Ring {
    /// Checks the view first.
    pub fn new(view: View) -> Result<Ring> {
        view.check()?;
        let mut by_id: Vec<usize> = (0..view.members.len()).collect();
        by_id.sort_unstable_by_key(|index| &view.members[*index].id);
        // Somebody has to own things: where no active worker has a weight, all weigh the same.
        let least = u64::from(!view.members.iter().any(|member| is_active(member) && member.weight > 0));
        let table = |state| {
            let rows = by_id.iter().zip(0..).map(|(&member, rank)| {
                let Member { id, weight, .. } = &view.members[member];
                Row { id: &id.0, weight: (*weight).max(least), member, rank }
            });
            Table::new(rows.filter(|row| view.members[row.member].state == state))
        };
        let (active, draining) = (table(MemberState::Active), table(MemberState::Draining));
        Ok(Ring { view, active, draining })
    }

    /// What this ring was made of.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The member with this index, as `ranking` and the others return it.
    pub fn member(&self, index: usize) -> &Member {
        &self.view.members[index]
    }

    /// The first `most` members for `stripe`, active and draining ones, best first: where its bytes are looked for.
    pub fn ranking(&self, stripe: StripeId, most: usize) -> Vec<usize> {
        let mut candidates = self.active.best(stripe, most, |_| true);
        let draining = self.draining.best(stripe, most, |_| true);
        if !draining.is_empty() {
            candidates.extend(draining);
            candidates = table::first(candidates, most);
        }
        indices(candidates)
    }

    /// The owners of `stripe`, the primary first: `replicas` different active members, or as many as there are.
    pub fn owners(&self, stripe: StripeId) -> Vec<usize> {
        indices(self.active.best(stripe, self.view.replicas as usize, |_| true))
    }

    /// Who may hold a block of `stripe` that member `me` owns now but lacks, the likeliest first, at most `most`: draining
    /// members, then active ones that were here before `me` and have something cached.
    pub fn previous_owners(&self, stripe: StripeId, me: usize, most: usize) -> Vec<usize> {
        let mut previous = indices(self.draining.best(stripe, most, |index| index != me));
        let joined_epoch = self.member(me).joined_epoch;
        let was_before = |index: usize| {
            let member = self.member(index);
            index != me && member.joined_epoch < joined_epoch && member.cached_bytes > 0
        };
        previous.extend(indices(self.active.best(stripe, most - previous.len(), was_before)));
        previous
    }
}

fn is_active(member: &Member) -> bool {
    member.state == MemberState::Active
}

fn indices(candidates: Vec<Candidate>) -> Vec<usize> {
    candidates.into_iter().map(|candidate| candidate.member).collect()
}
