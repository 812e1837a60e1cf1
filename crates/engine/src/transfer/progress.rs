//! How far a warm-up is, in numbers and in one sentence.

use crate::store::DISK_HANGS;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WarmState {
    Fetching,
    /// Looking whether every block is in the store.
    Verifying,
    /// Every byte is in.
    Complete,
    /// It ended, and not every byte is in: see the errors and `did_not_fit_bytes`.
    Incomplete,
    Cancelled,
}

/// How far a warm-up is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct WarmProgress {
    pub state: WarmState,
    /// Bytes known to be in the store; verified once the job has ended.
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Files of which every block is in.
    pub done_files: u64,
    pub total_files: u64,
    /// Bytes that this job fetched from the origin.
    pub origin_bytes: u64,
    /// Bytes that found no room in the cache.
    pub did_not_fit_bytes: u64,
    pub failed_blocks: u64,
    /// The store's last reason for not keeping a block; empty when it kept all.
    pub declined_reason: &'static str,
    /// `path: message`, the first hundred.
    pub errors: Vec<String>,
    /// One sentence for a person, once the job has ended.
    pub message: String,
}

impl WarmState {
    pub fn is_end(self) -> bool {
        matches!(self, WarmState::Complete | WarmState::Incomplete | WarmState::Cancelled)
    }
}

impl WarmProgress {
    pub(super) fn sentence(&self) -> String {
        let (done, total) = (self.done_bytes, self.total_bytes);
        let missing = total.saturating_sub(done);
        match self.state {
            WarmState::Fetching | WarmState::Verifying => String::new(),
            WarmState::Complete => {
                format!("complete: all {total} bytes of {} files are in the cache", self.total_files)
            }
            WarmState::Cancelled => {
                format!("cancelled: {done} of {total} bytes are in the cache; warming again goes on")
            }
            WarmState::Incomplete if self.failed_blocks > 0 => {
                format!("incomplete: {missing} of {total} bytes are missing, {} blocks failed", self.failed_blocks)
            }
            WarmState::Incomplete if self.declined_reason == DISK_HANGS => {
                format!("incomplete: {missing} of {total} bytes are out of reach: a cache disk does not answer")
            }
            WarmState::Incomplete if self.declined_reason.is_empty() => {
                format!("incomplete: {missing} of {total} bytes were evicted again; the cache is too small for them")
            }
            WarmState::Incomplete => {
                format!("incomplete: {missing} of {total} bytes did not fit into the cache ({})", self.declined_reason)
            }
        }
    }
}
