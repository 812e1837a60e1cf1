//! Taking a snapshot: all origins listed side by side into one builder.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::heap::give_back_free_memory;
use super::state::StateDirectory;
use crate::config::{EngineConfig, Exclude, OriginConfig, OriginMount, TransferConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::origin::{self, Exclusion, ListedObject, Origin, Sieve, is_to_be_listed_anew};
use crate::snapshot::{Difference, Snapshot, SnapshotBuilder};

/// Batches on their way from the listers to the builder: a builder that falls behind slows the listing down.
const BATCHES_IN_FLIGHT: usize = 64;
/// How often progress is told, in objects.
const REPORT_EVERY: u64 = 250_000;
/// What the list of so many objects leaves on the heap is worth giving back, at some milliseconds.
const LONG_LIST: u64 = 100_000;

/// Lists every origin and writes the snapshot to `path`; nothing is written unless every listing is complete. An origin that
/// has to be listed in another way than expected is so after a second try, which ends: each asks for it once.
pub fn take_snapshot(
    runtime: &Handle,
    origins: &[Arc<dyn Origin>],
    config: &EngineConfig,
    path: &Path,
    previous: Option<&Snapshot>,
) -> Result<(Snapshot, Difference)> {
    loop {
        match try_snapshot(runtime, origins, config, path, previous) {
            Err(error) if is_to_be_listed_anew(&error) => {}
            outcome => return outcome,
        }
    }
}

fn try_snapshot(
    runtime: &Handle,
    origins: &[Arc<dyn Origin>],
    config: &EngineConfig,
    path: &Path,
    previous: Option<&Snapshot>,
) -> Result<(Snapshot, Difference)> {
    let paths: Vec<String> = config.origins.iter().map(|mount| mount.path.clone()).collect();
    let mut builder = SnapshotBuilder::new(&paths)?;
    builder.limit_memory(config.limits.listing_bytes);
    if config.origins.iter().any(|mount| mount.strict) {
        builder.refuse_rejections();
    }
    builder.note_exclude(excluded(&config.origins));
    let exclusions = config.origins.iter().map(|mount| Exclusion::new(&mount.exclude)).collect::<Result<Vec<_>>>()?;
    for (number, origin) in origins.iter().enumerate() {
        // Only folders have links; their names are whatever the kernel holds, valid UTF-8 or not.
        if origin.capability().symlinks {
            builder.accept_any_bytes(number as u16);
        }
    }
    let (sink, mut batches) = mpsc::channel(BATCHES_IN_FLIGHT);
    let listings: Vec<_> =
        (0..).zip(origins.iter().zip(exclusions)).map(|(number, what)| start(runtime, number, what, &sink)).collect();
    drop(sink);
    let mut objects = 0;
    while let Some((number, batch)) = batches.blocking_recv() {
        let before = objects / REPORT_EVERY;
        objects += batch.len() as u64;
        batch.into_iter().for_each(|object: ListedObject| builder.add(number, object));
        if objects / REPORT_EVERY > before {
            tracing::info!(objects, "listing");
        }
        if builder.is_given_up() {
            // An origin may go on for ever.
            listings.iter().for_each(tokio::task::JoinHandle::abort);
            return builder.finish(path, previous);
        }
    }
    for listing in listings {
        runtime
            .block_on(listing)
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Cancelled, "the listing was stopped")))?;
    }
    let taken = builder.finish(path, previous);
    if objects >= LONG_LIST {
        give_back_free_memory();
    }
    taken
}

/// Asks one origin whether it can be used, as a mount does before it lists: within seconds, and without its list.
pub fn check_one(config: &OriginConfig) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("headrace-check")
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unexpected, format!("no thread can be started: {error}")))?;
    let checked =
        runtime.block_on(async { origin::open(config, &TransferConfig::default(), &Metrics::new())?.check().await });
    // What was not waited for does not keep the caller.
    runtime.shutdown_background();
    checked
}

/// Fails with the first origin that cannot be used, in the order given.
pub fn check_all(runtime: &Handle, origins: &[Arc<dyn Origin>], may_be_empty: bool) -> Result<()> {
    let checks: Vec<_> = origins
        .iter()
        .map(|origin| {
            let origin = origin.clone();
            runtime.spawn(async move { origin.check().await })
        })
        .collect();
    for check in checks {
        let checked = runtime.block_on(check);
        match checked.unwrap_or_else(|_| Err(Error::new(ErrorKind::Cancelled, "the check was stopped"))) {
            // Nothing below a prefix yet is how writing begins; no bucket is not.
            Err(error) if may_be_empty && error.kind() == ErrorKind::NotFound && error.context().is_empty() => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

fn start(
    runtime: &Handle,
    number: u16,
    (origin, exclusion): (&Arc<dyn Origin>, Exclusion),
    sink: &mpsc::Sender<(u16, Vec<ListedObject>)>,
) -> tokio::task::JoinHandle<Result<()>> {
    let (batches, mut received) = mpsc::channel::<Vec<ListedObject>>(BATCHES_IN_FLIGHT);
    let (origin, sink) = (origin.clone(), sink.clone());
    runtime.spawn(async move {
        let mut sieve = Sieve::new(exclusion.clone());
        let forward = async {
            while let Some(mut batch) = received.recv().await {
                sieve.sift(&mut batch);
                if sink.send((number, batch)).await.is_err() {
                    break;
                }
            }
        };
        let (outcome, ()) = tokio::join!(origin.list(&exclusion, batches), forward);
        outcome
    })
}

/// The snapshot to start with, and why it is not a new one if it should have been.
pub fn first_snapshot(
    config: &EngineConfig,
    state: &StateDirectory,
    runtime: &Handle,
    origins: &[Arc<dyn Origin>],
) -> Result<(Snapshot, Option<String>)> {
    let last = state.latest_snapshot();
    let does = last.as_ref().is_some_and(|last| is_as_configured(last, config));
    if let Some(last) = last.as_ref().filter(|_| does && config.snapshot.starts_with_the_last()) {
        return Ok((last.clone(), None));
    }
    let path = state.snapshot_path(state.next_version());
    let listed = check_all(runtime, origins, config.writable)
        .and_then(|()| take_snapshot(runtime, origins, config, &path, last.as_ref()));
    match (listed, last) {
        (Ok((snapshot, _)), _) => {
            state.prune(snapshot.version(), &[]);
            Ok((snapshot, None))
        }
        (Err(error), Some(_)) if may_pass(&error) && !does => {
            let last = "the last list of files would serve meanwhile, but was taken with other patterns to exclude, or without \
                        `strict`";
            let hint = error.hint().map_or_else(|| last.to_owned(), |hint| format!("{hint}; {last}"));
            Err(error.with_hint(hint))
        }
        (Err(error), Some(last)) if may_pass(&error) => {
            tracing::warn!(%error, version = last.version(), "the origin does not answer: going on with the last snapshot");
            Ok((last, Some(error.to_string())))
        }
        (Err(error), _) => Err(error),
    }
}

/// Whether a list that was taken before holds what one of today would be let hold. A list that others took is as they want it.
fn is_as_configured(last: &Snapshot, config: &EngineConfig) -> bool {
    let mounts = &config.origins;
    if mounts.iter().any(|mount| matches!(mount.origin, OriginConfig::Cluster { .. })) {
        return true;
    }
    let is_too_short = mounts.iter().any(|mount| mount.strict) && last.rejections().unwished() > 0;
    last.exclude() == excluded(&config.origins) && !is_too_short
}

/// What is not wanted of each origin; empty where all of each is.
fn excluded(mounts: &[OriginMount]) -> Vec<Exclude> {
    if mounts.iter().all(|mount| mount.exclude.patterns.is_empty()) {
        return Vec::new();
    }
    mounts.iter().map(|mount| mount.exclude.clone()).collect()
}

/// True for faults of the moment, for which the last snapshot is better than none.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Throttled)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::config::{Limits, OriginConfig, OriginMount};
    use crate::engine::parts;
    use crate::ids::ByteRange;
    use crate::metrics::Metrics;
    use crate::origin::{ByteStream, Capability, Checksums, ObjectKind, ObjectVersion};

    /// An origin that always knows one more name.
    struct Endless;

    #[async_trait]
    impl Origin for Endless {
        fn name(&self) -> &str {
            "endless"
        }

        fn capability(&self) -> Capability {
            Capability {
                conditional_read: true,
                list_from_key: false,
                etags: true,
                symlinks: false,
                checksums: Checksums::Never,
            }
        }

        async fn check(&self) -> Result<()> {
            Ok(())
        }

        async fn list(&self, _: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
            for number in 0u64.. {
                let object = ListedObject {
                    key: format!("{number:020}").into_bytes().into(),
                    kind: ObjectKind::File,
                    size: 1,
                    mtime_ns: 1,
                    etag: None,
                    stamp: None,
                    permissions: None,
                };
                if sink.send(vec![object]).await.is_err() {
                    break;
                }
            }
            Ok(())
        }

        async fn read(&self, _: &ObjectVersion, _: ByteRange) -> Result<ByteStream> {
            Err(Error::new(ErrorKind::NotFound, "nothing is read here"))
        }
    }

    /// A folder with files, and what a mount of it has.
    struct Scene {
        folder: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["data/keep", "data/Trash/x"] {
                let path = folder.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, name).unwrap();
            }
            Scene { folder }
        }

        /// The files that a start with these patterns shows; `policy` as people write it.
        fn start(&self, patterns: &[&str], strict: bool, policy: &str) -> Result<Vec<String>> {
            let origin = json!({"kind": "local", "directory": self.folder.path().join("data")});
            let mount = json!({"path": "", "origin": origin, "strict": strict, "exclude": {"patterns": patterns}});
            let state = self.folder.path().join("state");
            let config: EngineConfig = serde_json::from_value(json!({
                "name": "data", "origins": [mount], "cache": [], "state_directory": state, "snapshot": policy,
            }))
            .unwrap();
            let runtime = parts::runtime(1).unwrap();
            let _within = runtime.enter();
            let origins = parts::open_origins(&config, None, &Metrics::new())?;
            let state = StateDirectory::own(&state).unwrap();
            let (snapshot, _) = first_snapshot(&config, &state, runtime.handle(), &origins)?;
            let files = ["Trash/x", "keep", "new"].into_iter();
            Ok(files.filter(|path| snapshot.find_path(path.as_bytes()).is_some()).map(str::to_owned).collect())
        }
    }

    #[test]
    fn a_list_without_an_end_ends_at_its_limit_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().to_owned();
        let origin = OriginConfig::Local { directory: directory.clone(), ignore_change_times: false };
        let mut config: EngineConfig = serde_json::from_value(serde_json::json!({
            "name": "endless",
            "origins": [],
            "cache": [],
            "state_directory": directory,
        }))
        .unwrap();
        config.origins = vec![OriginMount { path: String::new(), origin, strict: false, exclude: Exclude::default() }];
        config.limits = Limits { listing_bytes: 1 << 20, ..Limits::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let origins: Vec<Arc<dyn Origin>> = vec![Arc::new(Endless)];
        let path = folder.path().join("snapshot");
        let error = take_snapshot(runtime.handle(), &origins, &config, &path, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.message().contains("more than 1 MiB"), "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("list_memory")), "{error:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_list_that_was_taken_with_other_patterns_is_taken_anew() {
        let scene = Scene::new();
        assert_eq!(scene.start(&[], false, "refresh").unwrap(), ["Trash/x", "keep"]);
        std::fs::write(scene.folder.path().join("data/new"), "n").unwrap();
        assert_eq!(scene.start(&[], false, "keep").unwrap(), ["Trash/x", "keep"], "the last one");
        for policy in ["keep", "revalidate"] {
            assert_eq!(scene.start(&["Trash/"], false, policy).unwrap(), ["keep", "new"], "{policy}");
            assert_eq!(
                scene.start(&["Trash/"], true, policy).unwrap(),
                ["keep", "new"],
                "nothing but this is left out"
            );
            assert_eq!(scene.start(&[], false, policy).unwrap(), ["Trash/x", "keep", "new"], "{policy}");
        }
        nix::unistd::mkfifo(&scene.folder.path().join("data/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        scene.start(&[], false, "refresh").unwrap();
        let error = scene.start(&[], true, "keep").unwrap_err();
        assert!(error.message().contains("special-file"), "{error}");
        scene.start(&["pipe"], true, "keep").unwrap();
    }

    #[test]
    fn a_wrong_pattern_is_told_before_anything_is_listed() {
        let error = Scene::new().start(&["[a"], false, "keep").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("'[a'"), "{error}");
    }
}
