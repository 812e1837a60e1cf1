//! Loads and drains as jobs: what they ask of the cluster, and how they are told about.

use std::sync::Arc;
use std::time::Duration;

use super::job::{Job, JobState, Progress};
use crate::cluster::{HoldJob, HoldOrder, HoldState, Orders, orders};
use crate::ids::BlockSize;
use crate::transfer::OrderedFiles;
use crate::vfs::Selection;

/// Whole files of a snapshot, to be held by their owners.
pub struct SnapshotOrders {
    files: Selection,
    block_size: BlockSize,
}

impl SnapshotOrders {
    pub fn new(files: Selection, block_size: BlockSize) -> Self {
        SnapshotOrders { files, block_size }
    }
}

impl Orders for SnapshotOrders {
    /// Files without content need nothing, but count.
    fn total_files(&self) -> u64 {
        self.files.files_with_content()
    }

    fn total_bytes(&self) -> u64 {
        self.files.total_bytes()
    }

    fn iterate(&self) -> Box<dyn Iterator<Item = HoldOrder> + Send + '_> {
        Box::new(self.files.sources().flat_map(|source| {
            let blocks = 0..self.block_size.count(source.size());
            orders(&Arc::clone(source.key()), blocks, self.block_size)
        }))
    }
}

impl Job for HoldJob {
    fn progress(&self) -> Progress {
        let told = HoldJob::progress(self);
        let missing = told.total_bytes.saturating_sub(told.done_bytes);
        Progress {
            state: match told.state {
                HoldState::Holding | HoldState::Verifying => JobState::Running,
                HoldState::Complete => JobState::Done,
                HoldState::Incomplete => JobState::Failed,
                HoldState::Cancelled => JobState::Cancelled,
            },
            done_bytes: told.done_bytes,
            total_bytes: told.total_bytes,
            done_files: told.done_files,
            total_files: told.total_files,
            origin_bytes: told.fetched_bytes,
            did_not_fit_bytes: told.declined_bytes,
            errors: told.errors,
            cached_by_worker: told.cached_by_worker,
            message: match told.state {
                HoldState::Holding | HoldState::Verifying => String::new(),
                HoldState::Complete if told.corrupt_blocks > 0 => format!(
                    "complete: all {} bytes are held by their owners; {} blocks did not match their checksums and came anew",
                    told.total_bytes, told.corrupt_blocks
                ),
                HoldState::Complete => format!("complete: all {} bytes are held by their owners", told.total_bytes),
                HoldState::Cancelled => "cancelled: the same again goes on where it was".to_owned(),
                HoldState::Incomplete => {
                    format!("incomplete: {missing} of {} bytes are not held by all their owners", told.total_bytes)
                }
            },
        }
    }

    fn cancel(&self) {
        HoldJob::cancel(self);
    }

    fn wait(&self, timeout: Duration) -> bool {
        HoldJob::wait(self, timeout)
    }
}
