//! The simulation itself: rings before and after a change, asked for every stripe; a counter a worker is all that is kept.

use std::ops::Range;
use std::sync::Arc;

use headrace_engine::error::Result;
use headrace_engine::ids::{BlockSize, FileKey, Version};
use headrace_engine::ring::{Member, MemberId, MemberState, Ring, STRIPE_BYTES, StripeId, View, stripe_of};
use serde::Serialize;

/// Blocks of the default size, 4 MiB.
const BLOCKS_PER_STRIPE: u64 = 4;
/// Files of 1 GiB: the hardest case for balance is whole stripes, since smaller files are smaller units.
const STRIPES_PER_FILE: u64 = 64;
/// Three generations of machines.
const CAPACITIES_TB: [u64; 3] = [1, 2, 4];

pub struct Plan {
    pub workers: u64,
    pub blocks: u64,
    pub replicas: u32,
    pub threads: u64,
}

/// How full workers are, each in proportion to its capacity; 1 is the mean.
#[derive(Debug, Serialize)]
pub struct Balance {
    pub blocks_per_worker: f64,
    pub lowest: f64,
    pub p99: f64,
    pub highest: f64,
    /// The spread that throwing dice would have: the inverse root of the stripes a worker has.
    pub chance: f64,
}

/// What a change of the workers moved.
#[derive(Debug, Serialize)]
pub struct Movement {
    pub name: String,
    /// Copies that have another owner, of all.
    pub share: f64,
    /// The share of capacity that came or went: less cannot be moved.
    pub least: f64,
    /// Copies that moved between workers that were there before and after.
    pub stray: u64,
}

#[derive(Debug, Serialize)]
pub struct Results {
    pub workers: u64,
    pub blocks: u64,
    pub replicas: u32,
    pub primaries: Balance,
    pub copies: Balance,
    pub movements: Vec<Movement>,
}

/// Everything, for `plan`.
pub fn run(plan: &Plan) -> Result<Results> {
    let n = plan.workers;
    let large = Scenario::new(plan, n, &[("1 joins", n + 1), ("1 leaves", n - 1), ("1 % joins", n + n / 100)])?;
    let counts = large.count(plan);
    let four = Scenario::new(plan, 4, &[("4 become 8", 8)])?;
    let mut movements = large.movements(&counts);
    movements.extend(four.movements(&four.count(plan)));
    Ok(Results {
        workers: n,
        blocks: plan.blocks,
        replicas: plan.replicas,
        primaries: large.balance(&counts.primaries),
        copies: large.balance(&counts.copies),
        movements,
    })
}

/// One ring, and the rings that it becomes.
struct Scenario {
    before: Ring,
    after: Vec<(String, Ring)>,
}

/// What one pass over the stripes counts.
#[derive(Default)]
struct Counts {
    /// Stripes by member of `before`: as first owner, as any owner.
    primaries: Vec<u64>,
    copies: Vec<u64>,
    /// (moved, stray) by ring of `after`.
    moved: Vec<(u64, u64)>,
}

impl Scenario {
    fn new(plan: &Plan, workers: u64, changes: &[(&str, u64)]) -> Result<Scenario> {
        let ring = |workers| Ring::new(view(workers, plan.replicas));
        let after = changes.iter().map(|(name, workers)| Ok(((*name).to_owned(), ring(*workers)?)));
        Ok(Scenario { before: ring(workers)?, after: after.collect::<Result<_>>()? })
    }

    fn count(&self, plan: &Plan) -> Counts {
        let stripes = plan.blocks / BLOCKS_PER_STRIPE;
        let bound = |thread| stripes * thread / plan.threads;
        let shares = (0..plan.threads).map(|thread| bound(thread)..bound(thread + 1));
        let parts: Vec<Counts> = std::thread::scope(|scope| {
            let threads: Vec<_> = shares.map(|share| scope.spawn(|| self.count_range(share))).collect();
            threads.into_iter().map(|thread| thread.join().expect("the counting does not fail")).collect()
        });
        parts.into_iter().reduce(Counts::plus).unwrap_or_default()
    }

    fn count_range(&self, stripes: Range<u64>) -> Counts {
        let members = self.before.view().members.len();
        let mut counts =
            Counts { primaries: vec![0; members], copies: vec![0; members], moved: vec![(0, 0); self.after.len()] };
        let dataset: Arc<str> = "s3://training@store".into();
        for stripe in stripes.map(|number| stripe(number, &dataset)) {
            let owners = self.before.owners(stripe);
            counts.primaries[owners[0]] += 1;
            owners.iter().for_each(|owner| counts.copies[*owner] += 1);
            for ((_, ring), moved) in self.after.iter().zip(&mut counts.moved) {
                // Members are listed in the same order before and after, so that an index is a name.
                let after = ring.owners(stripe);
                let gained = after.iter().filter(|owner| !owners.contains(owner));
                let lost = owners.iter().filter(|owner| !after.contains(owner));
                let stays = |owner: &&usize| **owner < members.min(ring.view().members.len());
                moved.0 += gained.clone().count() as u64;
                moved.1 += gained.filter(stays).count().min(lost.filter(stays).count()) as u64;
            }
        }
        counts
    }

    fn movements(&self, counts: &Counts) -> Vec<Movement> {
        let copies = counts.copies.iter().sum::<u64>() as f64;
        let before = capacity(&self.before);
        let rows = self.after.iter().zip(&counts.moved);
        rows.map(|((name, ring), (moved, stray))| Movement {
            name: name.clone(),
            share: *moved as f64 / copies,
            least: (before - capacity(ring)).abs() / before.max(capacity(ring)),
            stray: *stray * BLOCKS_PER_STRIPE,
        })
        .collect()
    }

    fn balance(&self, stripes: &[u64]) -> Balance {
        let members = &self.before.view().members;
        let mean = stripes.iter().sum::<u64>() as f64 / capacity(&self.before);
        let mut fill: Vec<f64> =
            stripes.iter().zip(members).map(|(count, member)| *count as f64 / member.weight as f64 / mean).collect();
        fill.sort_by(f64::total_cmp);
        let per_worker = stripes.iter().sum::<u64>() as f64 / members.len() as f64;
        Balance {
            blocks_per_worker: per_worker * BLOCKS_PER_STRIPE as f64,
            lowest: fill[0],
            p99: fill[(fill.len() * 99).div_ceil(100) - 1],
            highest: fill[fill.len() - 1],
            chance: per_worker.recip().sqrt(),
        }
    }
}

impl Counts {
    fn plus(mut self, other: Counts) -> Counts {
        self.primaries.iter_mut().zip(other.primaries).for_each(|(mine, theirs)| *mine += theirs);
        self.copies.iter_mut().zip(other.copies).for_each(|(mine, theirs)| *mine += theirs);
        for (mine, theirs) in self.moved.iter_mut().zip(other.moved) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
        self
    }
}

fn stripe(number: u64, dataset: &Arc<str>) -> StripeId {
    let file = FileKey {
        dataset: dataset.clone(),
        path: format!("train/{:08}.tar", number / STRIPES_PER_FILE).into_bytes().into(),
        size: STRIPES_PER_FILE * STRIPE_BYTES,
        version: Version::ModifiedNs(0),
    };
    stripe_of(&file.id(), (number % STRIPES_PER_FILE * BLOCKS_PER_STRIPE) as u32, BlockSize::DEFAULT)
}

fn capacity(ring: &Ring) -> f64 {
    ring.view().members.iter().map(|member| member.weight as f64).sum()
}

fn view(workers: u64, replicas: u32) -> View {
    View { epoch: 1, replicas, members: (0..workers).map(member).collect() }
}

fn member(number: u64) -> Member {
    let kind = CAPACITIES_TB[number as usize % CAPACITIES_TB.len()];
    Member {
        id: MemberId::from(format!("node-{number}")),
        address: format!("node-{number}:7070"),
        node: format!("node-{number}"),
        weight: kind << 40,
        state: MemberState::Active,
        joined_epoch: 1,
        cached_bytes: 0,
        lease_socket: None,
    }
}
