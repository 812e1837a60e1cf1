//! Commands to a mount of one machine whose cache disk hangs: each ends, and says which folder.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use headrace_engine::config::EngineConfig;
use headrace_engine::engine::{Engine, Job, JobState, Progress};
use headrace_engine::error::{Error, ErrorKind};
use serde_json::json;

use crate::hanging_file::HangingFile;
use crate::mounts::can_mount;
use crate::support::{KIB, MIB, pattern};

const BLOCK: u64 = 64 * KIB;
const SIZE: u64 = 16 * BLOCK;
const PATIENCE: Duration = Duration::from_secs(60);
const ALL: &[&[u8]] = &[b""];

fn config(place: &Path) -> EngineConfig {
    let text = json!({
        "name": "training",
        "origins": [{"path": "", "origin": {"kind": "local", "directory": place.join("origin")}}],
        "cache": [{"medium": "SSD", "folders": [{"path": place.join("cache"), "quota_bytes": 64 * MIB}]}],
        "state_directory": place.join("state"),
        "transfer": {"block_size_bytes": BLOCK},
    });
    serde_json::from_value(text).unwrap()
}

/// A machine with one file in its cache, where reads hang.
struct Machine {
    // Let go before the engine ends, whatever happens.
    disk: HangingFile,
    engine: Arc<Engine>,
    place: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("origin")).unwrap();
        std::fs::write(place.path().join("origin/held"), pattern(SIZE, 1)).unwrap();
        let engine = Engine::own(config(place.path())).unwrap();
        let warming = engine.warm(ALL).unwrap();
        assert!(warming.wait(PATIENCE) && warming.progress().state == JobState::Done, "{:?}", warming.progress());
        engine.close().unwrap();
        drop(engine);
        let disk = HangingFile::at(&data_file(&place.path().join("cache/data")));
        let engine = Engine::own(config(place.path())).unwrap();
        let Engine::Owner(owner) = &engine else { panic!("it owns nothing") };
        owner.set_disk_patience(Duration::from_millis(400));
        Machine { disk, engine: Arc::new(engine), place }
    }

    fn end_of(&self, job: &Arc<dyn Job>) -> Progress {
        assert!(job.wait(PATIENCE), "{:?}", job.progress());
        job.progress()
    }

    /// What `work` returns, which must come.
    fn within_time<T: Send + 'static>(&self, work: impl FnOnce(&Engine) -> T + Send + 'static) -> T {
        let (told, coming) = channel();
        let engine = self.engine.clone();
        std::thread::spawn(move || told.send(work(&engine)));
        coming.recv_timeout(PATIENCE).expect("no answer, and no error")
    }

    fn must_name_folder(&self, told: &str) {
        let folder = std::fs::canonicalize(self.place.path().join("cache")).unwrap().display().to_string();
        assert!(told.contains(&folder) && told.contains("does not answer") && told.contains("take the folder out"));
    }

    fn must_be_words(&self, error: &Error) {
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        self.must_name_folder(&error.sentence());
    }
}

fn data_file(root: &Path) -> PathBuf {
    let first = |folder: &Path| std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    first(&first(root))
}

#[test]
fn a_mount_ends_every_command_with_the_name_of_the_folder_and_answers_others_meanwhile() {
    if !can_mount() {
        return;
    }
    let machine = Machine::new();
    let mut bytes = vec![0; SIZE as usize];
    // Waits for the disk itself, and then finds it hanging already.
    for _ in 0..2 {
        let verified = machine.end_of(&machine.engine.verify(ALL).unwrap());
        assert_eq!((verified.state, verified.done_files), (JobState::Failed, 0), "{verified:?}");
        machine.must_name_folder(&verified.errors.join("\n"));
        assert_eq!(verified.message, "1 files are out of reach: a cache disk does not answer");
    }
    machine.must_be_words(&machine.within_time(|engine| engine.evict(ALL)).unwrap_err());
    let warmed = machine.end_of(&machine.engine.warm(ALL).unwrap());
    assert_eq!(warmed.state, JobState::Failed);
    machine.must_name_folder(&warmed.errors.join("\n"));
    assert!(machine.within_time(|engine| engine.status()).unwrap().contains("training"));
    assert_eq!(machine.engine.list(b"", None, 10).unwrap().len(), 1);
    assert_eq!(machine.engine.read_into(b"held", 0, &mut bytes).unwrap(), bytes.len());
    assert!(bytes == pattern(SIZE, 1), "from the origin");
    machine.disk.let_go();
}
