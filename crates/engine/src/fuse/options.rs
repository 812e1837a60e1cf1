//! The caller's options for a mount.

use crate::error::{Error, Result};

/// How files are opened and read through the mount; see `docs/decisions/0005-mount-modes.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Passthrough where the kernel and the rights allow it, otherwise classic.
    #[default]
    Auto,
    /// The kernel reads files that are whole on this machine from the cache file itself.
    Passthrough,
    /// No open, flush or release ever leaves the kernel: best for many small files that fit the page cache.
    Elide,
    /// One message an open, the page cache kept between opens.
    Classic,
    /// Names, attributes and the page cache are the kernel's own; only content that it has not comes from us. Shows the
    /// list of files that there was when it was mounted.
    View,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Auto => "auto",
            Mode::Passthrough => "passthrough",
            Mode::Elide => "elide",
            Mode::Classic => "classic",
            Mode::View => "view",
        })
    }
}

/// One mount.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MountOptions {
    pub mode: Mode,
    /// Request threads; `None`: one a core, at most 8.
    pub threads: Option<usize>,
    /// Whether other users than the one who mounts may enter.
    pub allow_other: bool,
    /// Whether a folder that holds something may be mounted on.
    pub allow_nonempty: bool,
    /// How long the kernel may believe that a name exists, or does not.
    pub entry_timeout_s: f64,
    /// How long the kernel may believe size, mode and times.
    pub attributes_timeout_s: f64,
    /// How far the kernel reads ahead of a sequential reader. Beyond its default (128 KiB) only with root's rights.
    pub max_readahead_bytes: u32,
    /// Read-ahead requests that the kernel may have outstanding.
    pub max_background: u16,
    /// What `/proc/mounts` shows as the source.
    pub source: String,
    /// Whether programs may write: the tree must be one that can be written to.
    pub writable: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            mode: Mode::Auto,
            threads: None,
            allow_other: false,
            allow_nonempty: false,
            // A tree changes only by a new snapshot, and that one is announced to the kernel; so any time is right.
            entry_timeout_s: 86_400.0,
            attributes_timeout_s: 86_400.0,
            max_readahead_bytes: 4 << 20,
            max_background: 64,
            source: "headrace".to_owned(),
            writable: false,
        }
    }
}

/// More threads than this only wake each other. And at least two, one of which may wait for a disk.
const MOST_DEFAULT_THREADS: usize = 8;
/// As many as there are buffers in a ledger.
const MOST_THREADS: usize = super::ledger::BUFFERS;

impl MountOptions {
    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<()> {
        if self.threads.is_some_and(|threads| !(1..=MOST_THREADS).contains(&threads)) {
            return Err(Error::config(format!("threads must be 1 to {MOST_THREADS}")));
        }
        let timeouts = [self.entry_timeout_s, self.attributes_timeout_s];
        if timeouts.iter().any(|timeout| timeout.is_nan() || *timeout < 0.0) {
            return Err(Error::config("entry and attribute timeouts must not be negative"));
        }
        if self.writable && matches!(self.mode, Mode::Elide | Mode::View) {
            return Err(Error::config(format!("a writable mount cannot be served in mode {}", self.mode)).with_hint(
                "leave the mode to Headrace: files that are only read are passed through where that is possible",
            ));
        }
        if self.source.is_empty() || self.source.contains(['\0', '\n']) {
            return Err(Error::config("the source of a mount must be a line of text"));
        }
        Ok(())
    }

    /// How many request threads to start.
    pub fn thread_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from).clamp(2, MOST_DEFAULT_THREADS);
        self.threads.unwrap_or_else(cores)
    }
}
