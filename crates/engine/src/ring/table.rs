//! Members in a form that is quick to rank: heaviest first, seeds side by side.
//!
//! Of two members the lighter one with the lower draw has the lower score. So once a draw has proved too low, no lower one
//! that comes later needs a look: nearly all members cost one integer hash, made for many at a time, and the logarithm is
//! taken for a few.

use std::cmp::Ordering;

use super::hash::{self, StripeId};

/// Members whose draws are made at one go.
const CHUNK: usize = 128;
/// Up to so many best members are kept in order while looking; for more, all are sorted.
const FEW: usize = 32;

/// A member in the running.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    score: f64,
    /// Its place in the order of ids, which decides between equal scores.
    rank: u32,
    /// Its index in the view.
    pub member: usize,
}

impl Candidate {
    /// Best first.
    fn order(&self, other: &Candidate) -> Ordering {
        other.score.total_cmp(&self.score).then(self.rank.cmp(&other.rank))
    }
}

/// A member that enters a table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub id: &'a str,
    /// With 0 it is left out.
    pub weight: u64,
    /// Its index in the view.
    pub member: usize,
    /// Its place in the order of all ids of the view.
    pub rank: u32,
}

/// Members that can be ranked, by falling weight and then in the order of their ids; four columns.
pub struct Table {
    first_seeds: Vec<u32>,
    second_seeds: Vec<u32>,
    weights: Vec<f64>,
    /// (rank, index in the view)
    members: Vec<(u32, u32)>,
}

impl Table {
    pub fn new<'a>(rows: impl Iterator<Item = Row<'a>>) -> Table {
        let mut rows: Vec<Row<'a>> = rows.filter(|row| row.weight > 0).collect();
        let weight = |row: &Row<'_>| row.weight as f64;
        rows.sort_unstable_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.rank.cmp(&b.rank)));
        let (first_seeds, second_seeds) = rows.iter().map(|row| hash::seeds_of(row.id)).unzip();
        let members = rows.iter().map(|row| (row.rank, row.member as u32)).collect();
        Table { first_seeds, second_seeds, weights: rows.iter().map(weight).collect(), members }
    }

    /// The `most` best of those whom `accepts` lets through, best first.
    pub fn best(&self, stripe: StripeId, most: usize, accepts: impl Fn(usize) -> bool) -> Vec<Candidate> {
        let mut best = Best::new(most.min(self.members.len()));
        let mut draws = [0; CHUNK];
        for start in (0..self.members.len()).step_by(CHUNK) {
            let end = (start + CHUNK).min(self.members.len());
            let seeds = (&self.first_seeds[start..end], &self.second_seeds[start..end]);
            let highest = draw_all(seeds, stripe, &mut draws);
            if !best.may_take(highest, self.weights[start]) {
                continue;
            }
            for (position, draw) in (start..end).zip(draws) {
                if u64::from(draw) >= best.too_low && accepts(self.members[position].1 as usize) {
                    best.take(draw, self.candidate(draw, position));
                }
            }
        }
        best.finish()
    }

    fn candidate(&self, draw: u32, position: usize) -> Candidate {
        let (rank, member) = self.members[position];
        Candidate { score: hash::score(draw, self.weights[position]), rank, member: member as usize }
    }
}

/// The `most` best of several tables' candidates, best first.
pub fn first(mut candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    candidates.sort_unstable_by(Candidate::order);
    candidates.truncate(most);
    candidates
}

/// The best so far, while weights fall.
struct Best {
    most: usize,
    /// In order when few are wanted; otherwise everything, until the end.
    found: Vec<Candidate>,
    /// Draws below this no longer get in.
    too_low: u64,
}

impl Best {
    fn new(most: usize) -> Best {
        Best { most, found: Vec::with_capacity(most.min(FEW) + 1), too_low: 0 }
    }

    /// The one to beat.
    fn worst(&self) -> Option<&Candidate> {
        self.found.get(self.most.wrapping_sub(1)).filter(|_| self.most <= FEW)
    }

    /// Whether any of the members that come next can get in, `highest` being their highest draw and `weight` the weight of
    /// the heaviest.
    fn may_take(&mut self, highest: u32, weight: f64) -> bool {
        if self.most == 0 || u64::from(highest) < self.too_low {
            return false;
        }
        let is_too_low = self.worst().is_some_and(|worst| hash::score(highest, weight) < worst.score);
        if is_too_low {
            self.too_low = u64::from(highest) + 1;
        }
        !is_too_low
    }

    fn take(&mut self, draw: u32, candidate: Candidate) {
        if self.most > FEW {
            return self.found.push(candidate);
        }
        if self.worst().is_some_and(|worst| worst.order(&candidate).is_le()) {
            self.too_low = u64::from(draw) + 1;
            return;
        }
        let place = self.found.partition_point(|other| other.order(&candidate).is_le());
        self.found.insert(place, candidate);
        self.found.truncate(self.most);
    }

    fn finish(self) -> Vec<Candidate> {
        if self.most > FEW { first(self.found, self.most) } else { self.found }
    }
}

/// Writes the draw of each pair of seeds; the highest of them.
fn draw_all(seeds: (&[u32], &[u32]), stripe: StripeId, draws: &mut [u32; CHUNK]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor was just seen to have what the function was compiled for.
        return unsafe { draw_all_avx2(seeds, stripe, draws) };
    }
    draw_all_plain(seeds, stripe, draws)
}

/// The same loop, compiled for eight lanes: the base instruction set of x86-64 has no 32-bit vector multiplication.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn draw_all_avx2(seeds: (&[u32], &[u32]), stripe: StripeId, draws: &mut [u32; CHUNK]) -> u32 {
    draw_all_plain(seeds, stripe, draws)
}

#[inline(always)]
fn draw_all_plain(seeds: (&[u32], &[u32]), stripe: StripeId, draws: &mut [u32; CHUNK]) -> u32 {
    let mut highest = 0;
    for ((first, second), draw) in seeds.0.iter().zip(seeds.1).zip(draws.iter_mut()) {
        *draw = hash::draw((*first, *second), stripe);
        highest = highest.max(*draw);
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_draw_agree() {
        for length in [0, 1, 7, 8, 9, 100, CHUNK] {
            let (first, second): (Vec<u32>, Vec<u32>) = (0..length).map(|n| hash::seeds_of(&n.to_string())).unzip();
            let (mut quick, mut plain) = ([0; CHUNK], [0; CHUNK]);
            let stripe = StripeId(0x0123_4567_89ab_cdef);
            assert_eq!(
                draw_all((&first, &second), stripe, &mut quick),
                draw_all_plain((&first, &second), stripe, &mut plain)
            );
            assert_eq!(quick, plain);
        }
    }

    /// The quick way against the obvious one: score everybody, sort.
    #[test]
    fn the_quick_way_finds_what_sorting_all_finds() {
        for distinct_weights in [1, 2, 7, 300] {
            let ids: Vec<String> = (0..300).map(|number| format!("node-{number:03}")).collect();
            let rows = ids.iter().enumerate().map(|(member, id)| {
                let weight = (member % distinct_weights) as u64 * 10 + u64::from(distinct_weights < 7);
                Row { id, weight, member, rank: member as u32 }
            });
            let table = Table::new(rows.clone());
            for stripe in (1..200).map(|number: u64| StripeId(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))) {
                let scored = rows.clone().filter(|row| row.weight > 0).map(|row| Candidate {
                    score: hash::score(hash::draw(hash::seeds_of(row.id), stripe), row.weight as f64),
                    rank: row.rank,
                    member: row.member,
                });
                for most in [0, 1, 2, 5, FEW, FEW + 1, 1000] {
                    for divisor in [1, 2, 50] {
                        let accepts = |member: usize| member.is_multiple_of(divisor);
                        let expected = first(scored.clone().filter(|one| accepts(one.member)).collect(), most);
                        let members = |found: Vec<Candidate>| found.iter().map(|one| one.member).collect::<Vec<_>>();
                        assert_eq!(members(table.best(stripe, most, accepts)), members(expected));
                    }
                }
            }
        }
    }

    #[test]
    fn equal_scores_go_to_the_first_in_the_order_of_ids() {
        for most in [1, 3, FEW, FEW + 1] {
            let mut best = Best::new(most);
            for (rank, draw) in [(2, 5), (4, 9), (0, 9), (1, 5), (3, 9), (5, 1)] {
                best.take(draw, Candidate { score: f64::from(draw), rank, member: rank as usize });
            }
            let found: Vec<usize> = best.finish().iter().map(|one| one.member).collect();
            assert_eq!(found, [0, 3, 4, 1, 2, 5][..most.min(6)]);
        }
    }
}
