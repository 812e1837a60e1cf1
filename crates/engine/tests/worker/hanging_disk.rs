//! A disk that hangs, under a worker and under a mount: they answer who asks how they are and what there is, give what
//! lies elsewhere, take from the origin what lies there, and go on with the disk when that is back.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use futures::TryStreamExt;
use headrace_engine::fuse::{Mode, MountOptions, mount};
use headrace_engine::ids::ByteRange;
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::ObjectVersion;
use headrace_engine::snapshot::SnapshotBuilder;
use headrace_engine::store::Blocks;
use headrace_engine::transfer::{ReaderState, Transfer};
use headrace_engine::vfs::{Ownership, Tree as Files};
use headrace_engine::wire::{GetRequest, PeerClient, PeerCommand};
use tokio::runtime::Runtime;

use crate::hanging_file::{HangingFile, forget_pages};
use crate::members::{Plan, Worker, client, key, object, view};
use crate::mounts::{can_mount, eventually};
use crate::support::{KIB, MIB, MemoryOrigin, budgets, config, pattern, scan, store};

const BLOCK: u64 = 64 * KIB;
/// Far more than the kernel reads ahead.
const SIZE: u64 = 128 * BLOCK;
const PLAN: Plan = Plan { block_bytes: BLOCK, memory_bytes: 16 * BLOCK, quota_bytes: 64 * MIB };
const PATIENCE: Duration = Duration::from_secs(60);

fn put(origin: &Arc<MemoryOrigin>, name: &str, seed: u64) -> ObjectVersion {
    origin.put(name, SIZE, seed);
    object(name, SIZE, seed)
}

fn request(object: &ObjectVersion, range: ByteRange) -> GetRequest {
    GetRequest {
        key: key(object),
        range,
        block_size: BLOCK as u32,
        cached_only: false,
        direct: false,
        purpose: 0,
        fill: None,
    }
}

async fn get(client: &PeerClient, address: &str, object: &ObjectVersion, range: ByteRange) -> Vec<u8> {
    let request = request(object, range);
    let answer = async {
        let stream = client.get(address, &request).await.unwrap().unwrap();
        stream.try_collect::<Vec<_>>().await.unwrap().concat()
    };
    tokio::time::timeout(PATIENCE, answer).await.expect("the worker gives nothing")
}

fn nothing() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn whole() -> ByteRange {
    ByteRange::new(0, SIZE)
}

#[tokio::test]
async fn what_must_be_opened_and_verified_first_is_cached_all_the_same() {
    let (origin, folder) = (MemoryOrigin::new(), tempfile::tempdir().unwrap());
    let object = put(&origin, "kept", 1);
    for is_second in [false, true] {
        let cache = store(folder.path(), PLAN.quota_bytes, BLOCK);
        let worker = Worker::over(0, &origin, &PLAN, cache, nothing()).await;
        worker.cluster.set_view(view(1, 1, std::slice::from_ref(&worker))).unwrap();
        if is_second {
            let request = GetRequest { cached_only: true, ..request(&object, whole()) };
            let answer = client(&Metrics::new()).get(&worker.address(), &request).await.unwrap().unwrap();
            assert!(answer.try_collect::<Vec<_>>().await.unwrap().concat() == pattern(SIZE, 1));
        } else {
            worker.read(&object).await;
        }
        worker.server.close().await;
        worker.transfer.close().await;
        worker.store.close().unwrap();
    }
    assert_eq!(origin.bytes_sent(), SIZE);
}

#[test]
fn a_worker_whose_disk_hangs_answers_serves_the_rest_and_goes_on_with_it_afterwards() {
    if !can_mount() {
        return;
    }
    // As many threads as a worker has; the test asks from a runtime of its own.
    let threads = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (theirs, ours): (Runtime, Runtime) = (threads(), threads());
    let (origin, folder) = (MemoryOrigin::new(), tempfile::tempdir().unwrap());
    let (held, other) = (put(&origin, "held", 1), put(&origin, "other", 2));
    let place = folder.path().to_owned();
    theirs.block_on(async {
        let worker = Worker::over(0, &origin, &PLAN, store(&place, PLAN.quota_bytes, BLOCK), nothing()).await;
        worker.cluster.set_view(view(1, 1, std::slice::from_ref(&worker))).unwrap();
        worker.read(&held).await;
        worker.read(&other).await;
        worker.transfer.close().await;
        worker.server.close().await;
        worker.store.close().unwrap();
    });
    let name = key(&held).id().to_string();
    let disk = HangingFile::at(&place.join("data").join(&name[..2]).join(&name));
    let cache = store(&place, PLAN.quota_bytes, BLOCK);
    cache.set_disk_patience(Duration::from_millis(400));
    let worker = theirs.block_on(Worker::over(0, &origin, &PLAN, cache, nothing()));
    // Let go before the worker ends, whatever happens.
    let disk = disk;
    worker.cluster.set_view(view(1, 1, std::slice::from_ref(&worker))).unwrap();
    let (asking, address, before) =
        (Arc::new(ours.block_on(async { client(&Metrics::new()) })), worker.address(), origin.bytes_sent());
    let waiting: Vec<_> = [ByteRange::new(0, BLOCK), ByteRange::new(SIZE - BLOCK, BLOCK)]
        .map(|range| {
            let (asking, address, held) = (asking.clone(), address.clone(), held.clone());
            ours.spawn(async move { get(&asking, &address, &held, range).await })
        })
        .into_iter()
        .collect();
    eventually("both blocks are asked of the disk", || disk.reads() >= 2);

    let status = ours.block_on(async {
        tokio::time::timeout(Duration::from_secs(20), asking.command(&address, &PeerCommand::Status)).await
    });
    assert!(matches!(status, Ok(Ok(_))), "a worker whose disk hangs says nothing: {status:?}");
    assert!(ours.block_on(get(&asking, &address, &other, whole())) == pattern(SIZE, 2));
    let parts: Vec<Vec<u8>> = waiting.into_iter().map(|part| ours.block_on(part).unwrap()).collect();
    let content = pattern(SIZE, 1);
    assert!(parts[0] == content[..BLOCK as usize] && parts[1] == content[(SIZE - BLOCK) as usize..]);
    assert!(origin.bytes_sent() - before >= 2 * BLOCK, "what hangs came from the origin");

    disk.let_go();
    // Busy machines are no disks that hang.
    worker.store.set_disk_patience(PATIENCE);
    let id = key(&held).id();
    eventually("the disk is used again", || worker.store.get(&id, 0).is_some() && worker.store.get(&id, 127).is_some());
    let after = origin.bytes_sent();
    assert!(ours.block_on(get(&asking, &address, &held, whole())) == content);
    assert_eq!(origin.bytes_sent(), after, "from the cache again");
    theirs.block_on(async {
        worker.server.close().await;
        worker.transfer.close().await;
    });
    worker.store.close().unwrap();
}

#[test]
fn a_mount_whose_disk_hangs_lists_reads_from_the_origin_and_goes_on_with_it_afterwards() {
    const READERS: u64 = 4;
    if !can_mount() {
        return;
    }
    let runtime = crate::mounts::runtime();
    let (origin, folder) = (MemoryOrigin::new(), tempfile::tempdir().unwrap());
    let held = origin.put("held", SIZE, 1);
    let transfer_over = |cache: &Arc<headrace_engine::store::Store>| {
        let (blocks, metrics) = (Some(cache.clone() as Arc<dyn Blocks>), Metrics::new());
        let budgets = budgets(PLAN.memory_bytes);
        Transfer::new(blocks, runtime.handle().clone(), budgets, metrics, config(BLOCK)).unwrap()
    };
    let caches = folder.path().join("cache");
    runtime.block_on(async {
        let cache = store(&caches, PLAN.quota_bytes, BLOCK);
        let transfer = transfer_over(&cache);
        scan(&transfer, &held, 1, BLOCK, &ReaderState::new()).await;
        transfer.close().await;
        cache.close().unwrap();
    });
    let name = held.id().to_string();
    let disk = HangingFile::at(&caches.join("data").join(&name[..2]).join(&name));
    disk.let_go();

    let cache = store(&caches, PLAN.quota_bytes, BLOCK);
    let transfer = transfer_over(&cache);
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    origin.listing().into_iter().for_each(|object| builder.add(0, object));
    let snapshot = builder.finish(&folder.path().join("snapshot"), None).unwrap().0;
    let tree = Files::new(snapshot, vec![origin.clone()], transfer.clone(), Ownership::new(0, 0));
    let options = MountOptions { mode: Mode::Classic, threads: Some(2), ..MountOptions::default() };
    let place = folder.path().join("mnt");
    std::fs::create_dir(&place).unwrap();
    let mounted =
        mount(tree, &place, options, runtime.handle().clone(), Metrics::new(), crate::mounts::budgets()).unwrap();
    // Let go before the mount ends, whatever happens.
    let disk = disk;
    let content = pattern(SIZE, 1);
    assert!(std::fs::read(place.join("held")).unwrap() == content);
    assert_eq!(origin.bytes_sent(), SIZE, "all of it is in the cache, open and verified");

    cache.set_disk_patience(Duration::from_millis(400));
    disk.hang();
    forget_pages(&place.join("held"));
    let before = disk.reads();
    let readers = (0..READERS).map(|number| {
        let file = File::open(place.join("held")).unwrap();
        let offset = number * SIZE / READERS;
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            file.read_exact_at(&mut bytes, offset).map(|()| (offset as usize, bytes))
        })
    });
    let readers: Vec<_> = readers.collect();
    eventually("a read waits for the disk", || disk.reads() > before);
    let (sender, listed) = channel();
    let folder_of = place.clone();
    let list = std::thread::spawn(move || {
        let names = std::fs::read_dir(folder_of).map(Iterator::count);
        let _ = sender.send(names.ok());
    });
    assert_eq!(listed.recv_timeout(PATIENCE), Ok(Some(1)), "ls waits for the disk");
    list.join().unwrap();
    for reader in readers {
        let (offset, bytes) = reader.join().unwrap().unwrap();
        assert!(bytes[..] == content[offset..offset + bytes.len()]);
    }
    assert!(origin.bytes_sent() > SIZE, "what hangs came from the origin");

    disk.let_go();
    cache.set_disk_patience(PATIENCE);
    eventually("the disk is used again", || (0..128).all(|index| cache.get(&held.id(), index).is_some()));
    let after = origin.bytes_sent();
    forget_pages(&place.join("held"));
    assert!(std::fs::read(place.join("held")).unwrap() == content);
    assert_eq!(origin.bytes_sent(), after, "from the cache again");
    drop(mounted);
    runtime.block_on(transfer.close());
    cache.close().unwrap();
}
