//! Every way in which members fail, against members that are nothing but those failures: what is read is right, or an
//! error that says why, and it ends in time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use proptest::prelude::*;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::*;
use crate::checksum::{Checksum, Kind};
use crate::error::{Error, ErrorKind, Retry};
use crate::ids::{BlockSize, ByteRange, Version};
use crate::origin::{Capability, Checksums, Exclusion, ListedObject, ObjectVersion, Origin, WholeObject};
use crate::ring::{Member, MemberId, MemberState, STRIPE_BYTES};
use crate::sync::Mutex;
use crate::wire::{GetRequest, PeerCommand, REPORTED};

const SIZE: u64 = 3 * STRIPE_BYTES + 12_345;

/// How a member behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Well,
    /// Nothing listens.
    Refuses,
    /// Answers nothing; the wire gives up on it.
    Freezes,
    /// Breaks off after so many bytes, and is gone then.
    BreaksAfter(u64),
    /// Takes ten seconds for each MiB, and a second for anything else.
    Crawls,
    /// Takes ten seconds for each MiB, since its origin does.
    WaitsForOrigin,
    /// Ends early without an error.
    Shortens,
    /// What it sends does not match its checksum.
    Corrupts,
    /// The same, until it is told to look at the block.
    Rotten,
    /// Says that the origin does not answer it.
    LostOrigin,
    /// Says that the file has changed.
    SaysStale,
}

/// Members by address, with what was asked of them.
struct Crowd {
    manners: Mutex<HashMap<String, Manner>>,
    asked: Mutex<Vec<(String, GetRequest)>>,
    /// Members that answer only when asked for what they fetch, not for what they have cached.
    empty: Vec<String>,
}

pub(super) fn member(number: usize) -> Member {
    Member {
        id: MemberId(format!("worker-{number}").into()),
        address: format!("198.18.0.{number}:7031"),
        node: format!("node-{number}"),
        weight: 100,
        state: MemberState::Active,
        joined_epoch: number as u64,
        cached_bytes: 1,
        lease_socket: None,
    }
}

pub(super) fn view(members: usize, replicas: u32) -> View {
    View { epoch: 1, replicas, members: (0..members).map(member).collect() }
}

/// Bytes that depend on their place. Of a dependency, which is optimised where this is not.
fn content(range: ByteRange) -> Bytes {
    let mut bytes = vec![0; range.length() as usize];
    let mut endless = blake3::Hasher::new().finalize_xof();
    endless.set_position(range.start);
    endless.fill(&mut bytes);
    bytes.into()
}

fn gone() -> Error {
    Error::new(ErrorKind::Unreachable, "nobody listens").with_retry(Retry::Temporary)
}

#[async_trait]
impl Peers for Crowd {
    async fn get(&self, address: &str, request: &GetRequest) -> Result<Option<ByteStream>> {
        self.asked.lock().push((address.to_owned(), request.clone()));
        if request.cached_only && self.empty.iter().any(|empty| empty == address) {
            return Ok(None);
        }
        let manner = self.manners.lock()[address];
        let pieces = |range: ByteRange| {
            let starts = (range.start..range.end).step_by(1 << 20);
            starts.map(move |start| content(ByteRange { start, end: (start + (1 << 20)).min(range.end) }))
        };
        let all = request.range;
        let cut = |bytes: u64| ByteRange { start: all.start, end: (all.start + bytes).min(all.end) };
        let stream = |range, end: Option<Error>| {
            let end = futures::stream::iter(end.map(Err));
            Ok(Some(futures::stream::iter(pieces(range).map(Ok)).chain(end).boxed()))
        };
        match manner {
            Manner::Well => stream(all, None),
            Manner::Refuses => Err(gone()),
            Manner::Freezes => {
                tokio::time::sleep(Duration::from_secs(2)).await;
                Err(Error::new(ErrorKind::Timeout, "silent").with_retry(Retry::Temporary))
            }
            Manner::BreaksAfter(bytes) => {
                self.manners.lock().insert(address.to_owned(), Manner::Refuses);
                stream(cut(bytes), Some(gone()))
            }
            Manner::Crawls | Manner::WaitsForOrigin => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let slowly = futures::stream::iter(pieces(all).enumerate()).then(|(number, piece)| async move {
                    tokio::time::sleep(Duration::from_secs(if number == 0 { 0 } else { 10 })).await;
                    Ok(piece)
                });
                Ok(Some(slowly.boxed()))
            }
            Manner::Shortens => stream(cut(all.length() / 2), None),
            Manner::Corrupts | Manner::Rotten => Err(Error::new(ErrorKind::Corrupt, "wrong checksum")),
            Manner::LostOrigin => Err(gone().with_context(REPORTED, address)),
            Manner::SaysStale => Err(Error::new(ErrorKind::Stale, "changed").with_context(REPORTED, address)),
        }
    }

    async fn command(&self, address: &str, command: &PeerCommand) -> Result<Value> {
        let manner = self.manners.lock()[address];
        match manner {
            Manner::Rotten if matches!(command, PeerCommand::Verify { first: 1, count: 1, .. }) => {
                self.manners.lock().insert(address.to_owned(), Manner::Well);
                Ok(Value::Null)
            }
            Manner::Refuses | Manner::Freezes => Err(gone()),
            Manner::Crawls => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Value::Null)
            }
            _ => Ok(Value::Null),
        }
    }
}

fn crowd(manners: &[Manner]) -> Arc<Crowd> {
    let manners = manners.iter().enumerate().map(|(number, manner)| (member(number).address, *manner)).collect();
    Arc::new(Crowd { manners: Mutex::new(manners), asked: Mutex::default(), empty: Vec::new() })
}

fn cluster(crowd: &Arc<Crowd>, view: View, options: ClusterOptions) -> Arc<Cluster> {
    Cluster::new(view, crowd.clone(), options, Metrics::new(), Handle::current()).unwrap_or_else(|e| panic!("{e}"))
}

fn patient(seconds: u64) -> ClusterOptions {
    ClusterOptions { read_deadline: Duration::from_secs(seconds), ..ClusterOptions::default() }
}

fn object(number: u64) -> ObjectVersion {
    ObjectVersion { key: format!("file-{number}").into_bytes().into(), size: SIZE, version: Version::ModifiedNs(1) }
}

async fn read(cluster: &Arc<Cluster>, number: u64, range: ByteRange) -> Result<Bytes> {
    let origin = MemberOrigin::new("s3://bucket", cluster.clone(), BlockSize::DEFAULT);
    let stream = origin.read(&object(number), range).await?;
    let pieces: Vec<Bytes> = stream.try_collect().await?;
    Ok(pieces.concat().into())
}

fn paused(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap_or_else(|error| panic!("{error}")).block_on(test);
}

fn any_failure() -> impl Strategy<Value = Manner> {
    prop_oneof![
        Just(Manner::Well),
        Just(Manner::Refuses),
        Just(Manner::Freezes),
        Just(Manner::Crawls),
        (0..SIZE).prop_map(Manner::BreaksAfter),
        Just(Manner::Shortens),
        Just(Manner::Corrupts),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_one_good_member_every_read_is_right(
        failures in prop::collection::vec(any_failure(), 1..7),
        replicas in 1u32..4,
        (start, length) in (0..SIZE, 1..SIZE / 3),
        number in any::<u64>(),
        node in 0usize..8,
    ) {
        paused(async {
            let mut manners = failures.clone();
            manners.push(Manner::Well);
            let crowd = crowd(&manners);
            let options = ClusterOptions { node: format!("node-{node}"), ..patient(120) };
            let cluster = cluster(&crowd, view(manners.len(), replicas), options);
            let range = ByteRange::new(start, length).clamp_to(SIZE);
            for _ in 0..2 {
                let found = read(&cluster, number, range).await;
                assert!(found.unwrap_or_else(|error| panic!("{error:?}")) == content(range));
            }
        });
    }
}

#[test]
fn a_member_that_froze_is_asked_no_more_until_it_answers_again() {
    paused(async {
        let crowd = crowd(&[Manner::Freezes, Manner::Well]);
        let cluster = cluster(&crowd, view(2, 1), patient(60));
        for number in 0..40 {
            read(&cluster, number, ByteRange::new(0, 1000)).await.unwrap_or_else(|error| panic!("{error:?}"));
        }
        let frozen = member(0).address;
        let asks = |crowd: &Crowd| crowd.asked.lock().iter().filter(|(address, _)| *address == frozen).count();
        assert_eq!(asks(&crowd), 1);
        crowd.manners.lock().insert(frozen.clone(), Manner::Well);
        tokio::time::sleep(Duration::from_secs(5)).await;
        for number in 0..40 {
            read(&cluster, number, ByteRange::new(0, 1000)).await.unwrap_or_else(|error| panic!("{error:?}"));
        }
        assert!(asks(&crowd) > 5, "{}", asks(&crowd));
    });
}

#[test]
fn with_nobody_there_a_read_waits_and_goes_on_when_somebody_is_back() {
    paused(async {
        let crowd = crowd(&[Manner::Refuses, Manner::Refuses]);
        let cluster = cluster(&crowd, view(2, 1), patient(300));
        let reading = tokio::spawn({
            let cluster = cluster.clone();
            async move { read(&cluster, 1, ByteRange::new(5, 100)).await }
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(!reading.is_finished());
        assert_eq!(cluster.metrics.cluster_waiting_reads.get(), 1);
        crowd.manners.lock().insert(member(1).address, Manner::Well);
        let found = reading.await.unwrap_or_else(|error| panic!("{error}"));
        assert!(found.unwrap_or_else(|error| panic!("{error:?}")) == content(ByteRange::new(5, 100)));
        assert_eq!(cluster.metrics.cluster_waiting_reads.get(), 0);
    });
}

#[test]
fn with_nobody_there_until_the_deadline_the_read_says_so() {
    paused(async {
        let crowd = crowd(&[Manner::Refuses, Manner::Freezes]);
        let cluster = cluster(&crowd, view(2, 2), patient(30));
        let started = tokio::time::Instant::now();
        let error = read(&cluster, 1, ByteRange::new(0, 10)).await.err().unwrap_or_else(|| panic!("nobody is there"));
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!((28..40).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
        assert!(error.message().contains("file-1"), "{error}");
        // The kernel's second request for the same read.
        let (range, started) = (ByteRange::new(0, 10), tokio::time::Instant::now());
        read(&cluster, 1, range).await.expect_err("nobody is there");
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
        let started = tokio::time::Instant::now();
        read(&cluster, 1, range).await.expect_err("nobody is there");
        assert!(started.elapsed().as_secs() >= 28, "{:?}", started.elapsed());
    });
}

#[test]
fn a_new_view_lets_a_waiting_read_go_on() {
    paused(async {
        let crowd = crowd(&[Manner::Refuses, Manner::Well]);
        let cluster = cluster(&crowd, View { members: vec![member(0)], ..view(1, 1) }, patient(300));
        let reading = tokio::spawn({
            let cluster = cluster.clone();
            async move { read(&cluster, 1, ByteRange::new(5, 100)).await }
        });
        tokio::time::sleep(Duration::from_secs(20)).await;
        cluster.set_view(View { epoch: 2, ..view(2, 1) }).unwrap_or_else(|error| panic!("{error}"));
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(reading.is_finished());
    });
}

#[test]
fn what_workers_say_of_the_origin_is_told_at_once() {
    paused(async {
        for (manner, kind) in [(Manner::SaysStale, ErrorKind::Stale), (Manner::LostOrigin, ErrorKind::Unreachable)] {
            let crowd = crowd(&[manner; 6]);
            let cluster = cluster(&crowd, view(6, 2), patient(300));
            let error = read(&cluster, 1, ByteRange::new(0, 10)).await.err().unwrap_or_else(|| panic!("it fails"));
            assert_eq!(error.kind(), kind);
            assert!(crowd.asked.lock().len() <= 2);
        }
    });
}

#[test]
fn a_slow_replica_is_hedged_with_cached_bytes_only() {
    paused(async {
        let crowd = crowd(&[Manner::Well, Manner::Well]);
        let cluster = cluster(&crowd, view(2, 2), patient(60));
        for number in 0..100 {
            read(&cluster, number, ByteRange::new(0, 10)).await.unwrap_or_else(|error| panic!("{error:?}"));
        }
        crowd.asked.lock().clear();
        crowd.manners.lock().insert(member(0).address, Manner::Freezes);
        let started = tokio::time::Instant::now();
        for number in 0..4 {
            read(&cluster, number, ByteRange::new(0, 10)).await.unwrap_or_else(|error| panic!("{error:?}"));
        }
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        assert!(crowd.asked.lock().iter().any(|(_, request)| request.cached_only));
        assert!(cluster.metrics.cluster_hedges.get() > 0);
    });
}

#[test]
fn the_one_good_member_is_found_wherever_it_ranks() {
    paused(async {
        let mut manners = [Manner::Refuses; 8];
        (manners[0], manners[1]) = (Manner::Shortens, Manner::Well);
        for number in 0..40 {
            let cluster = cluster(&crowd(&manners), view(8, 1), patient(60));
            let range = ByteRange::new(5, 3 << 20);
            let bytes = read(&cluster, number, range).await.unwrap_or_else(|error| panic!("{number}: {error:?}"));
            assert_eq!(bytes, content(range));
        }
    });
}

#[test]
fn a_member_that_crawls_is_left_for_others_and_not_asked_again_for_a_while() {
    paused(async {
        for replicas in [1, 2] {
            let crowd = crowd(&[Manner::Crawls, Manner::Well, Manner::Well]);
            let cluster = cluster(&crowd, view(3, replicas), patient(60));
            for number in 0..30 {
                let started = tokio::time::Instant::now();
                let range = ByteRange::new(7, 8 << 20);
                let bytes = read(&cluster, number, range).await.unwrap_or_else(|error| panic!("{error:?}"));
                assert_eq!(bytes, content(range));
                assert!(started.elapsed() < Duration::from_secs(4), "{number}: {:?}", started.elapsed());
            }
            let crawling = crowd.asked.lock().iter().filter(|(address, _)| *address == member(0).address).count();
            assert_eq!(crawling, 1);
            tokio::time::sleep(Duration::from_secs(16)).await;
            for number in 0..30 {
                read(&cluster, number, ByteRange::new(0, 10)).await.unwrap_or_else(|error| panic!("{error:?}"));
            }
            let crawling = crowd.asked.lock().iter().filter(|(address, _)| *address == member(0).address).count();
            assert!(crawling > 1, "it is never given another chance");
        }
    });
}

#[test]
fn a_slow_origin_or_a_slow_link_of_ours_makes_nobody_fetch_what_another_already_does() {
    paused(async {
        for manner in [Manner::WaitsForOrigin, Manner::Crawls] {
            let crowd = crowd(&[manner; 4]);
            let cluster = cluster(&crowd, view(4, 2), patient(300));
            for number in 0..60 {
                read(&cluster, number, ByteRange::new(0, 2 << 20)).await.unwrap_or_else(|error| panic!("{error:?}"));
            }
            let fetches = crowd.asked.lock().iter().filter(|(_, request)| !request.cached_only).count();
            assert_eq!(fetches, 60, "{manner:?}");
        }
    });
}

/// An origin that counts.
struct Source(Mutex<u64>);

#[async_trait]
impl Origin for Source {
    fn name(&self) -> &str {
        "s3://bucket"
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

    async fn list(&self, _excluded: &Exclusion, _sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        Ok(())
    }

    async fn read(&self, _object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        *self.0.lock() += range.length();
        Ok(futures::stream::iter([Ok(content(range))]).boxed())
    }

    async fn read_whole(&self, object: &ObjectVersion) -> Result<WholeObject> {
        Ok((self.read(object, ByteRange::new(0, object.size)).await?, Some(Checksum::of(Kind::Crc32c, b"told"))))
    }
}

#[test]
fn a_worker_hears_the_checksum_from_the_origin_and_none_from_others() {
    paused(async {
        for (members, told) in [(1, Some(Checksum::of(Kind::Crc32c, b"told"))), (4, None)] {
            let crowd = crowd(&vec![Manner::Well; members]);
            let identity = Some(Identity { member: member(members - 1).id });
            let cluster = cluster(&crowd, view(members, 1), ClusterOptions { identity, ..patient(60) });
            let origin = HandoverOrigin::new(Arc::new(Source(Mutex::new(0))), cluster, BlockSize::DEFAULT);
            let (_, heard) = origin.read_whole(&object(0)).await.unwrap_or_else(|error| panic!("{error:?}"));
            assert_eq!(heard, told, "{members} workers");
        }
    });
}

/// All bytes of `range` as a worker takes them: what another one fetches for both from there, the rest from the origin.
async fn take(origin: &HandoverOrigin, object: &ObjectVersion, range: ByteRange) -> Bytes {
    let (mut position, mut taken) = (range.start, Vec::new());
    while position < range.end {
        let stripe_end = range.end.min((position / STRIPE_BYTES + 1) * STRIPE_BYTES);
        let rest = ByteRange { start: position, end: stripe_end };
        if let Some(end) = origin.shared_until(object, rest) {
            assert_eq!(end, stripe_end);
            let shared: Vec<Bytes> =
                origin.read_shared(object, rest, false).try_collect().await.unwrap_or_else(|error| panic!("{error:?}"));
            taken.extend_from_slice(&shared.concat());
        }
        let rest = ByteRange { start: range.start + taken.len() as u64, end: stripe_end };
        let stream = origin.read(object, rest).await.unwrap_or_else(|error| panic!("{error:?}"));
        let alone: Vec<Bytes> = stream.try_collect().await.unwrap_or_else(|error| panic!("{error:?}"));
        taken.extend_from_slice(&alone.concat());
        position = stripe_end;
    }
    taken.into()
}

async fn fill(crowd: &Arc<Crowd>, view: View, me: usize, number: u64) -> (Bytes, u64) {
    let identity = Some(Identity { member: member(me).id });
    let cluster = cluster(crowd, view, ClusterOptions { identity, ..patient(60) });
    let source = Arc::new(Source(Mutex::new(0)));
    let origin = HandoverOrigin::new(source.clone(), cluster, BlockSize::DEFAULT);
    let bytes = take(&origin, &object(number), ByteRange::new(0, SIZE)).await;
    let taken = *source.0.lock();
    (bytes, taken)
}

#[test]
fn a_replica_does_not_wait_for_a_primary_that_crawls() {
    paused(async {
        let crowd = crowd(&[Manner::Crawls, Manner::Well, Manner::Well]);
        let identity = Some(Identity { member: member(1).id });
        let cluster = cluster(&crowd, view(3, 3), ClusterOptions { identity, ..patient(60) });
        let source = Arc::new(Source(Mutex::new(0)));
        let origin = HandoverOrigin::new(source.clone(), cluster, BlockSize::DEFAULT);
        let range = ByteRange::new(3, 4 << 20);
        for number in 0..20 {
            let started = tokio::time::Instant::now();
            assert_eq!(take(&origin, &object(number), range).await, content(range));
            assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        }
        let asked = crowd.asked.lock().iter().filter(|(address, _)| *address == member(0).address).count();
        assert_eq!(asked, 1);
    });
}

#[test]
fn a_new_owner_takes_what_others_have_and_nothing_from_the_origin() {
    paused(async {
        let crowd = crowd(&[Manner::Well; 4]);
        // The last to join: whatever it owns, one of the others had before.
        let (bytes, from_origin) = fill(&crowd, view(4, 1), 3, 9).await;
        assert!(bytes == content(ByteRange::new(0, SIZE)));
        assert_eq!(from_origin, 0);
        assert!(crowd.asked.lock().iter().all(|(_, request)| request.direct));
    });
}

#[test]
fn what_no_member_has_comes_from_the_origin_once() {
    paused(async {
        let mut nobody = Arc::into_inner(crowd(&[Manner::Well; 4])).unwrap_or_else(|| panic!("one owner"));
        nobody.empty = (0..4).map(|number| member(number).address).collect();
        let crowd = Arc::new(nobody);
        let primary = |number: u64| {
            let ring = Ring::new(view(4, 1)).unwrap_or_else(|error| panic!("{error}"));
            let key = crate::ids::FileKey {
                dataset: "s3://bucket".into(),
                path: object(number).key,
                size: SIZE,
                version: Version::ModifiedNs(1),
            };
            ring.owners(crate::ring::stripe_of(&key.id(), 0, BlockSize::DEFAULT))[0]
        };
        let (bytes, from_origin) = fill(&crowd, view(4, 1), primary(5), 5).await;
        assert!(bytes == content(ByteRange::new(0, SIZE)));
        assert_eq!(from_origin, SIZE);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn however_other_members_fail_a_fill_is_right(
        manners in prop::collection::vec(any_failure(), 2..6),
        replicas in 1u32..4,
        number in any::<u64>(),
        me in 0usize..6,
    ) {
        paused(async {
            let crowd = crowd(&manners);
            let (bytes, _) = fill(&crowd, view(manners.len(), replicas), me % manners.len(), number).await;
            assert!(bytes == content(ByteRange::new(0, SIZE)));
        });
    }
}

#[test]
fn a_worker_whose_bytes_are_damaged_is_told_and_the_read_goes_on_though_it_is_the_only_one() {
    paused(async {
        let crowd = crowd(&[Manner::Rotten]);
        let cluster = cluster(&crowd, view(1, 1), patient(20));
        let block = u64::from(BlockSize::DEFAULT.bytes());
        let range = ByteRange { start: block + 5, end: block + 100_000 };
        let (read, started) = (read(&cluster, 1, range).await, tokio::time::Instant::now());
        assert_eq!(read.ok(), Some(content(range)));
        assert!(started.elapsed() < Duration::from_secs(1));
    });
}
