//! Commands on a worker's cache: hold, drop and pin blocks; tell how it is.

use serde_json::{Value, json};

use super::service::BlockService;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockId, FileId, FileKey};
use crate::store::DISK_HANGS;
use crate::transfer::HoldOutcome;
use crate::wire::PeerCommand;

/// Blocks of one command at most: longer ones would keep whoever asks waiting without a sign.
const MOST_BLOCKS: u32 = 4096;

impl BlockService {
    pub(super) async fn carry_out(&self, command: PeerCommand) -> Result<Value> {
        match command {
            PeerCommand::Warm { key, first, count, block_size } => self.hold(key, first, count, block_size).await,
            PeerCommand::Bring { key, first, count, block_size } => self.bring(key, first, count, block_size).await,
            PeerCommand::Verify { key, first, count, .. } => self.verify(key, first, count).await,
            PeerCommand::Evict { key } => self.evict(vec![key.id()], false).await,
            PeerCommand::Pin { id, pinned } => {
                self.store.set_pinned(id, pinned);
                Ok(json!({ "pinned_bytes": self.store.pinned_bytes() }))
            }
            PeerCommand::EvictMany { ids } => self.evict(ids, true).await,
            PeerCommand::Status => Ok(self.short_status()),
        }
    }

    async fn hold(&self, key: FileKey, first: u32, count: u32, block_size: u32) -> Result<Value> {
        check_count(count)?;
        let source = self.source(key, block_size)?;
        let held = self.transfer.hold(&source, first..first.saturating_add(count)).await;
        let mut report = report(&held);
        report["cached_bytes"] = Value::from(self.store.usage().iter().map(|level| level.content_bytes).sum::<u64>());
        if let Some(error) = self.hanging().filter(|_| held.declined_reason == DISK_HANGS) {
            report["obstacle"] = Value::from(error.sentence());
        }
        Ok(report)
    }

    /// Only what is ours to keep: the rest is for somebody else to bring.
    async fn bring(&self, key: FileKey, first: u32, count: u32, block_size: u32) -> Result<Value> {
        check_count(count)?;
        let source = self.source(key, block_size)?;
        let stored = match self.keeper_elsewhere(&source, first) {
            None => self.transfer.bring(&source, first..first.saturating_add(count)).await?,
            Some(_) => 0,
        };
        Ok(json!({ "stored_blocks": stored }))
    }

    async fn evict(&self, files: Vec<FileId>, pinned_too: bool) -> Result<Value> {
        let (store, wanted) = (self.store.clone(), files.clone());
        let evicting = move || {
            let evict = |file: FileId| {
                if pinned_too {
                    store.set_pinned(file, false);
                }
                store.evict(&file)
            };
            files.into_iter().map(evict).sum::<u64>()
        };
        let evicted_bytes = self.on_disks(evicting).await?;
        self.within_reach(&wanted)?;
        Ok(json!({ "evicted_bytes": evicted_bytes }))
    }

    async fn verify(&self, key: FileKey, first: u32, count: u32) -> Result<Value> {
        check_count(count)?;
        let (store, id) = (self.store.clone(), key.id());
        let verifying = move || {
            // It would wait for a disk that hangs already.
            store.within_reach([id])?;
            Ok(store.verify_blocks(&id, first..first.saturating_add(count)))
        };
        let (good, corrupt) = self.on_disks(verifying).await?.map_err(|error| self.named(error))?;
        if corrupt > 0 {
            // Some may have been computed of the damaged bytes.
            (first..first.saturating_add(count)).for_each(|index| self.checksums.forget(&BlockId { file: id, index }));
        }
        Ok(json!({ "good_blocks": good, "corrupt_blocks": corrupt }))
    }

    fn short_status(&self) -> Value {
        let ring = self.cluster.ring();
        json!({
            "epoch": ring.view().epoch,
            "member": self.cluster.options().identity.as_ref().map(|identity| identity.member.0.to_string()),
            "levels": self.store.usage(),
            "pinned_bytes": self.store.pinned_bytes(),
        })
    }
}

fn check_count(blocks: u32) -> Result<()> {
    if blocks <= MOST_BLOCKS {
        return Ok(());
    }
    let message = format!("{blocks} blocks at once were asked for; at most {MOST_BLOCKS} are possible");
    Err(Error::new(ErrorKind::Config, message))
}

fn report(held: &HoldOutcome) -> Value {
    json!({
        "held_bytes": held.held_bytes,
        "fetched_bytes": held.fetched_bytes,
        "declined_bytes": held.declined_bytes,
        "declined_reason": held.declined_reason,
        "failed_bytes": held.failed_bytes,
        "error": held.error,
    })
}
