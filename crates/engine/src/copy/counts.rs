//! How far a copy is, and what went wrong, counted by all files at once.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::Error;
use crate::sync::Mutex;

/// Faults that are told one by one; of those after them only the number.
const FAULTS_TOLD: usize = 100;
/// So many files that fail one after the other are not the files' fault: the rest is not tried.
const FAULTS_IN_A_ROW: u32 = 100;

/// How far a copy is.
#[derive(Debug, Default)]
pub struct Counts {
    done_files: AtomicU64,
    done_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    faults: AtomicU64,
    in_a_row: AtomicU32,
    told: Mutex<Vec<String>>,
}

impl Counts {
    /// Files and links that are at the target and were compared.
    pub fn done_files(&self) -> u64 {
        self.done_files.load(Ordering::Relaxed)
    }

    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Bytes written to the target by this process.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// A sentence a fault, for the first of them.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().clone()
    }

    pub(super) fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn done(&self, bytes: u64) {
        self.in_a_row.store(0, Ordering::Relaxed);
        self.done_files.fetch_add(1, Ordering::Relaxed);
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, key: &[u8], error: &Error) {
        self.in_a_row.fetch_add(1, Ordering::Relaxed);
        self.faults.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(key = %shown(key), %error, "not copied");
        let mut told = self.told.lock();
        if told.len() < FAULTS_TOLD {
            told.push(sentence(key, error));
        }
    }

    pub(super) fn goes_nowhere(&self) -> bool {
        self.in_a_row.load(Ordering::Relaxed) >= FAULTS_IN_A_ROW
    }
}

/// The path first, then what went wrong and what to do.
fn sentence(key: &[u8], error: &Error) -> String {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{}: {error}{hint}", shown(key))
}

/// A key on one line.
pub fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).escape_debug().to_string()
}
