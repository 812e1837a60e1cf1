//! The store against a plain set of blocks, over random operations, restarts, crashes and damage.
//!
//! Always: a block that comes back is the content put, used bytes stay within the quota, a pinned file stays right.
//! With room for everything and no damage, moreover: exactly the blocks put and not evicted are there.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::ids::FileKey;
use headrace_engine::store::{Put, Store, StoreConfig, WholeFile};
use proptest::prelude::*;

const SIZES: [u64; 7] = [1, 5_000, 65_536, 65_537, 150_000, 200_000, 330_000];

#[derive(Debug, Clone)]
enum Op {
    Put(usize, u32),
    PutWhole(usize),
    Get(usize, u32),
    Evict(usize),
    /// Holds the file until `Unpin`.
    Pin(usize),
    Unpin,
    Verify(usize),
    Reopen,
    Crash,
    /// A crash that also loses the end of the log.
    TornCrash(u16),
    FlipData(u16, u32),
    /// A crash with a flipped byte in the log.
    FlipLog(u32),
}

fn any_op(damage: bool) -> BoxedStrategy<Op> {
    let file = 0..SIZES.len();
    let plain = prop_oneof![
        8 => (file.clone(), 0..6u32).prop_map(|(file, index)| Op::Put(file, index)),
        4 => file.clone().prop_map(Op::PutWhole),
        8 => (file.clone(), 0..6u32).prop_map(|(file, index)| Op::Get(file, index)),
        2 => file.clone().prop_map(Op::Evict),
        4 => file.clone().prop_map(Op::Pin),
        2 => Just(Op::Unpin),
        1 => file.prop_map(Op::Verify),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
    ];
    let harm = prop_oneof![
        1 => any::<u16>().prop_map(Op::TornCrash),
        2 => any::<(u16, u32)>().prop_map(|(file, offset)| Op::FlipData(file, offset)),
        1 => any::<u32>().prop_map(Op::FlipLog),
    ];
    if damage { prop_oneof![8 => plain, 1 => harm].boxed() } else { plain.boxed() }
}

/// Half of them may be given away: four whole files at once.
const DESCRIPTORS: u64 = 20;

struct Run<'a> {
    place: &'a Path,
    config: StoreConfig,
    store: Arc<Store>,
    files: Vec<Arc<FileKey>>,
    /// Blocks that must be there, when everything fits and nothing was damaged.
    model: Option<BTreeSet<(usize, u32)>>,
    pins: Vec<(usize, WholeFile)>,
}

impl Run<'_> {
    fn restart(&mut self) {
        self.pins.clear();
        // A store that is still alive would hold the lock.
        self.store = patient(
            Store::open(config(Vec::new(), EvictionPolicy::Lru), budgets(DESCRIPTORS), Default::default()).unwrap(),
        );
        self.store = patient(Store::open(self.config.clone(), budgets(DESCRIPTORS), Default::default()).unwrap());
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Put(file, index) if *index < block_size().count(SIZES[*file]) => self.put(*file, *index),
            Op::PutWhole(file) => (0..block_size().count(SIZES[*file])).for_each(|index| self.put(*file, index)),
            Op::Get(file, index) => self.get(*file, *index),
            Op::Evict(file) => self.evict(*file),
            Op::Pin(file) => self.pin(*file),
            Op::Unpin => self.pins.clear(),
            Op::Verify(file) => drop(self.store.verify(&self.files[*file].id())),
            Op::Reopen => {
                self.store.close().unwrap();
                self.restart();
            }
            Op::Crash => self.restart(),
            Op::TornCrash(lost) => {
                self.harm_log(|bytes| bytes.truncate(bytes.len().saturating_sub(*lost as usize % 300)))
            }
            Op::FlipLog(place) => self.harm_log(|bytes| {
                let place = *place as usize % bytes.len().max(1);
                bytes.get_mut(place).into_iter().for_each(|byte| *byte ^= 0x10);
            }),
            Op::FlipData(number, place) => self.flip_data(*number as usize, u64::from(*place)),
            Op::Put(..) => {}
        }
        self.check();
    }

    fn put(&mut self, file: usize, index: u32) {
        let put = self.store.put(&self.files[file], index, &content(&self.files[file], index));
        if let Some(model) = &mut self.model {
            let expected = if model.insert((file, index)) { Put::Stored } else { Put::Present };
            assert_eq!(put, expected);
        }
    }

    fn get(&self, file: usize, index: u32) {
        let found = read(&self.store, &self.files[file], index);
        if let Some(found) = &found {
            assert!(*found == bytes(&self.files[file], index), "wrong content of file {file}, block {index}");
        }
        if let Some(model) = &self.model {
            assert_eq!(found.is_some(), model.contains(&(file, index)), "file {file}, block {index}");
        }
    }

    fn evict(&mut self, file: usize) {
        self.store.evict(&self.files[file].id());
        let pinned = self.pins.iter().any(|(pinned, _)| *pinned == file);
        if let Some(model) = self.model.as_mut().filter(|_| !pinned) {
            model.retain(|(other, _)| *other != file);
        }
    }

    fn pin(&mut self, file: usize) {
        let whole = self.store.whole_file(&self.files[file].id(), SIZES[file]);
        if let Some(model) = &self.model {
            let all = (0..block_size().count(SIZES[file])).all(|index| model.contains(&(file, index)));
            assert_eq!(whole.is_some(), all);
        }
        self.pins.extend(whole.map(|whole| (file, whole)));
        if self.pins.len() > 3 {
            self.pins.remove(0);
        }
    }

    fn harm_log(&mut self, harm: impl Fn(&mut Vec<u8>)) {
        self.pins.clear();
        self.store = patient(
            Store::open(config(Vec::new(), EvictionPolicy::Lru), budgets(DESCRIPTORS), Default::default()).unwrap(),
        );
        for level in &self.config.levels {
            let log = level.folders[0].path.join("index.log");
            let mut bytes = std::fs::read(&log).unwrap();
            harm(&mut bytes);
            std::fs::write(&log, bytes).unwrap();
        }
        self.restart();
    }

    fn flip_data(&mut self, number: usize, place: u64) {
        self.pins.clear();
        let files: Vec<_> = self.config.levels.iter().flat_map(|level| data_files(&level.folders[0].path)).collect();
        if let Some(path) = files.get(number % files.len().max(1)) {
            let length = std::fs::metadata(path).map_or(0, |data| data.len());
            wait_for_clock_tick();
            flip_byte(path, place % length.max(1));
        }
    }

    fn check(&self) {
        for usage in self.store.usage() {
            assert!(usage.used_bytes <= usage.quota_bytes);
        }
        for (file, whole) in &self.pins {
            let mut all = vec![0; whole.size as usize];
            whole.file.read_exact_at(&mut all, 0).unwrap();
            let expected: Vec<u8> =
                (0..block_size().count(SIZES[*file])).flat_map(|index| bytes(&self.files[*file], index)).collect();
            assert!(all == expected, "pinned file {file} changed");
        }
    }

    /// Whatever happened: what is there is right, and what is used is what lies on the disk.
    fn finish(mut self) {
        self.pins.clear();
        for (file, size) in SIZES.iter().enumerate() {
            (0..block_size().count(*size)).for_each(|index| self.get(file, index));
        }
        // The background thread may hold a block that it moves between levels for a moment.
        for _ in 0..100 {
            for file in &self.files {
                self.store.evict(&file.id());
            }
            if self.store.usage().iter().all(|usage| usage.blocks == 0 && usage.used_bytes == 0) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(
            self.store.usage().iter().all(|usage| usage.used_bytes == 0 && usage.blocks == 0),
            "{:?}",
            self.store.usage()
        );
        drop(self.store);
        assert_eq!(data_files(&self.place.join("0")).len() + data_files(&self.place.join("1")).len(), 0);
    }
}

fn run(quotas: &[u64], policy: EvictionPolicy, exact: bool, ops: &[Op]) {
    let place = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..quotas.len()).map(|number| place.path().join(number.to_string())).collect();
    let levels = paths.iter().zip(quotas).map(|(path, quota)| level(&[(path, *quota)])).collect();
    let config = config(levels, policy);
    let store = patient(Store::open(config.clone(), budgets(DESCRIPTORS), Default::default()).unwrap());
    let files = SIZES.iter().enumerate().map(|(number, size)| key(&format!("dir/{number}"), *size)).collect();
    let model = exact.then(BTreeSet::new);
    let mut run = Run { place: place.path(), config, store, files, model, pins: Vec::new() };
    ops.iter().for_each(|op| run.step(op));
    run.finish();
}

fn any_policy() -> impl Strategy<Value = EvictionPolicy> {
    prop_oneof![Just(EvictionPolicy::ScanResistant), Just(EvictionPolicy::Lru), Just(EvictionPolicy::Lfu)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_room_for_all_the_store_is_a_set(policy in any_policy(), ops in prop::collection::vec(any_op(false), 1..60)) {
        run(&[4 << 20], policy, true, &ops);
    }

    #[test]
    fn under_pressure_and_damage_nothing_wrong_is_served(
        policy in any_policy(),
        ops in prop::collection::vec(any_op(true), 1..80),
    ) {
        run(&[400_000], policy, false, &ops);
    }

    #[test]
    fn two_levels_under_pressure_serve_nothing_wrong(
        policy in any_policy(),
        ops in prop::collection::vec(any_op(true), 1..80),
    ) {
        run(&[250_000, 450_000], policy, false, &ops);
    }
}
