//! Notices that the small files of a directory are read in name order (`cat *`, tar, a sorted list of samples) and says
//! which to fetch next. Decisions only.

use std::ops::Range;
use std::sync::Arc;

use super::generation::Generation;
use crate::snapshot::NodeIndex;
use crate::sync::Mutex;

/// So many neighbours in a row make a walk. A random order has one by chance in (17 / files)^8 of the cases.
const RUN: u32 = 8;

/// How far several threads that share one walk may be apart.
const DISORDER: u32 = 8;

/// Files to be ahead at first, and at most.
const FIRST_WINDOW: u32 = 8;
const MAX_WINDOW: u32 = 256;

/// Directories watched at the same time.
const DIRECTORIES: usize = 32;

/// The walks going on.
#[derive(Default)]
pub(super) struct Siblings {
    walks: Mutex<Vec<Walk>>,
}

struct Walk {
    generation: Arc<Generation>,
    directory: NodeIndex,
    last: u32,
    run: u32,
    window: u32,
    /// Files before this have been asked for.
    frontier: u32,
}

impl Siblings {
    /// Notes that the file at `index` of `directory` is read from its start. The entries to fetch ahead, if any:
    /// possibly beyond the directory's end, possibly no files.
    pub(super) fn note(
        &self,
        generation: &Arc<Generation>,
        directory: NodeIndex,
        index: NodeIndex,
    ) -> Option<Range<u32>> {
        let mut walks = self.walks.lock();
        let same = |walk: &Walk| walk.directory == directory && Arc::ptr_eq(&walk.generation, generation);
        let mut walk = match walks.iter().position(same) {
            Some(position) => walks.remove(position),
            None => Walk::new(generation, directory, index.0),
        };
        let ahead = walk.step(index.0);
        walks.push(walk);
        // The one unused for longest stands first.
        if walks.len() > DIRECTORIES {
            walks.remove(0);
        }
        ahead
    }

    /// Only the entries before `reached` could be asked for.
    pub(super) fn pressed(&self, generation: &Arc<Generation>, directory: NodeIndex, reached: u32) {
        let mut walks = self.walks.lock();
        let same = |walk: &&mut Walk| walk.directory == directory && Arc::ptr_eq(&walk.generation, generation);
        if let Some(walk) = walks.iter_mut().find(same) {
            walk.frontier = walk.frontier.min(reached);
            walk.window = (walk.window / 2).max(FIRST_WINDOW);
        }
    }
}

impl Walk {
    fn new(generation: &Arc<Generation>, directory: NodeIndex, index: u32) -> Self {
        Walk { generation: generation.clone(), directory, last: index, run: 0, window: FIRST_WINDOW, frontier: index }
    }

    fn step(&mut self, index: u32) -> Option<Range<u32>> {
        if index == self.last {
            return None;
        }
        if index.abs_diff(self.last) > DISORDER {
            (self.last, self.run, self.window, self.frontier) = (index, 0, FIRST_WINDOW, index);
            return None;
        }
        self.run = self.run.saturating_add(1);
        self.last = self.last.max(index);
        if self.run < RUN {
            return None;
        }
        self.ahead()
    }

    /// More once half of the window has been read.
    fn ahead(&mut self) -> Option<Range<u32>> {
        let from = self.frontier.max(self.last + 1);
        if from - self.last > self.window / 2 {
            return None;
        }
        let to = self.last.saturating_add(self.window);
        self.window = (self.window * 2).min(MAX_WINDOW);
        self.frontier = to;
        Some(from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk_over(walk: &mut Walk, order: impl Iterator<Item = u32>) -> Vec<Range<u32>> {
        order.filter_map(|index| walk.step(index)).collect()
    }

    fn walk() -> Walk {
        let path = tempfile::tempdir().expect("a temporary folder");
        let builder = crate::snapshot::SnapshotBuilder::new(&[String::new()]).expect("a builder");
        let (snapshot, _) = builder.finish(&path.path().join("s"), None).expect("a snapshot");
        Walk::new(&Arc::new(Generation::new(snapshot, Arc::new([]))), NodeIndex::ROOT, 0)
    }

    #[test]
    fn a_walk_in_name_order_is_fetched_ahead_without_gaps_or_repeats() {
        let plans = walk_over(&mut walk(), 1..2000);
        assert_eq!(plans[0].start, RUN + 1);
        assert!(plans.windows(2).all(|pair| pair[0].end == pair[1].start), "{plans:?}");
        assert!(plans.iter().all(|plan| plan.len() as u32 <= MAX_WINDOW));
        assert!(plans.last().is_some_and(|plan| plan.end >= 2000));
    }

    #[test]
    fn threads_that_share_a_walk_are_one_walk() {
        let jumbled = (0..500).flat_map(|n| [n * 4 + 3, n * 4 + 1, n * 4 + 4, n * 4 + 2]);
        assert!(!walk_over(&mut walk(), jumbled).is_empty());
    }

    #[test]
    fn a_shuffled_order_is_no_walk() {
        let shuffled = (1..5000_u64).map(|n| (n * 2_654_435_761 % 100_003) as u32);
        assert_eq!(walk_over(&mut walk(), shuffled), []);
    }
}
