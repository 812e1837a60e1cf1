//! Epochs over a cache of marks only: what each policy keeps, without any I/O.

use std::collections::HashMap;

use super::*;

/// A cache of `capacity` blocks that draws its victims as the store does.
struct Cache {
    policy: Box<dyn Eviction>,
    capacity: usize,
    residents: Vec<(u64, Mark)>,
    places: HashMap<u64, usize>,
    now: Tick,
    random: u64,
}

impl Cache {
    fn new(policy: EvictionPolicy, capacity: usize) -> Self {
        let (residents, places) = (Vec::new(), HashMap::new());
        Cache { policy: super::policy(policy), capacity, residents, places, now: 0, random: 7 }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below as u64) as usize
    }

    /// Reads one block; true on a hit.
    fn read(&mut self, block: u64) -> bool {
        if let Some(place) = self.places.get(&block) {
            let mark = self.residents[*place].1;
            if !is_same_access(mark, self.now, self.residents.len() as u64) {
                self.now += 1;
                self.policy.observe(hash(block), self.now);
                self.residents[*place].1 = self.policy.used(mark, self.now);
            }
            return true;
        }
        self.now += 1;
        self.policy.observe(hash(block), self.now);
        self.offer(block);
        false
    }

    fn offer(&mut self, block: u64) {
        let mark = self.policy.admitted(self.now);
        if self.residents.len() < self.capacity {
            self.places.insert(block, self.residents.len());
            self.residents.push((block, mark));
            return;
        }
        let drawn: Vec<usize> = (0..CANDIDATES).map(|_| self.draw(self.capacity)).collect();
        let victim = drawn
            .into_iter()
            .filter_map(|place| self.policy.surrender(self.residents[place].1, self.now).map(|score| (score, place)));
        if let Some((_, place)) = victim.max() {
            self.places.remove(&self.residents[place].0);
            self.places.insert(block, place);
            self.residents[place] = (block, mark);
        }
    }

    /// One epoch over blocks `from..to`; the share of hits.
    fn epoch(&mut self, from: u64, to: u64, shuffled: bool) -> f64 {
        let mut order: Vec<u64> = (from..to).collect();
        if shuffled {
            for last in (1..order.len()).rev() {
                let other = self.draw(last + 1);
                order.swap(last, other);
            }
        }
        let hits = order.iter().filter(|block| self.read(**block)).count();
        hits as f64 / order.len() as f64
    }

    /// The hit ratio over `epochs` after one to warm up.
    fn epochs(&mut self, epochs: usize, from: u64, to: u64, shuffled: bool) -> f64 {
        self.epoch(from, to, shuffled);
        (0..epochs).map(|_| self.epoch(from, to, shuffled)).sum::<f64>() / epochs as f64
    }

    fn share_of(&self, from: u64, to: u64) -> f64 {
        let count = self.residents.iter().filter(|(block, _)| (from..to).contains(block)).count();
        count as f64 / self.residents.len() as f64
    }
}

fn hash(block: u64) -> u64 {
    (block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

const BLOCKS: u64 = 4000;

#[test]
fn scan_resistant_hits_the_optimum_on_epochs() {
    for (blocks, shuffled) in [(BLOCKS, true), (BLOCKS, false), (100, true), (100, false), (60_000, true)] {
        let mut cache = Cache::new(EvictionPolicy::ScanResistant, blocks as usize / 2);
        let ratio = cache.epochs(6, 0, blocks, shuffled);
        assert!(ratio >= 0.49, "{blocks} blocks, shuffled {shuffled}: {ratio}");
    }
}

#[test]
fn least_recently_used_is_worse_on_epochs() {
    let shuffled = Cache::new(EvictionPolicy::Lru, BLOCKS as usize / 2).epochs(6, 0, BLOCKS, true);
    let ordered = Cache::new(EvictionPolicy::Lru, BLOCKS as usize / 2).epochs(6, 0, BLOCKS, false);
    assert!(shuffled < 0.3 && ordered < 0.2, "shuffled {shuffled}, ordered {ordered}");
}

#[test]
fn scan_resistant_follows_to_another_dataset() {
    for (other, shuffled) in [(BLOCKS, true), (BLOCKS, false), (3 * BLOCKS, true), (BLOCKS / 2, true)] {
        let mut cache = Cache::new(EvictionPolicy::ScanResistant, BLOCKS as usize / 2);
        cache.epochs(3, 0, BLOCKS, shuffled);
        let (from, to) = (1_000_000, 1_000_000 + other);
        cache.epoch(from, to, shuffled);
        cache.epoch(from, to, shuffled);
        if other >= BLOCKS {
            let taken = cache.share_of(from, to);
            assert!(taken >= 0.75, "{other} blocks, shuffled {shuffled}: {taken} taken over");
        }
        cache.epochs(1, from, to, shuffled);
        let best = (BLOCKS as f64 / 2.0 / other as f64).min(1.0);
        let ratio = cache.epochs(2, from, to, shuffled);
        assert!(ratio >= 0.98 * best, "{other} blocks, shuffled {shuffled}: {ratio} of {best}");
    }
}

#[test]
fn one_pass_over_other_data_takes_nothing() {
    let mut cache = Cache::new(EvictionPolicy::ScanResistant, BLOCKS as usize / 2);
    cache.epochs(3, 0, BLOCKS, true);
    cache.epoch(2_000_000, 2_000_000 + BLOCKS / 2, false);
    assert!(cache.share_of(0, BLOCKS) > 0.95, "{}", cache.share_of(0, BLOCKS));
}

#[test]
fn hot_blocks_outlive_a_scan_under_lfu() {
    let mut cache = Cache::new(EvictionPolicy::Lfu, 1000);
    for _ in 0..10 {
        cache.epoch(0, 500, true);
    }
    cache.epoch(10_000, 14_000, false);
    assert!(cache.share_of(0, 500) > 0.45, "{}", cache.share_of(0, 500));
}

#[test]
fn small_pieces_of_one_block_are_one_access() {
    let mut cache = Cache::new(EvictionPolicy::Lfu, 1000);
    cache.epoch(0, 1000, false);
    let before = cache.now;
    for _ in 0..100 {
        cache.read(999);
    }
    assert_eq!(cache.now, before);
}
