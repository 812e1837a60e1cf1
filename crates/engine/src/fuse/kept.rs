//! What a supervisor keeps of a mount, so that another daemon can go on with it: two descriptors and a few words.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::mount::Mounted;
use super::mountinfo::MountEntry;
use super::mountpoint::MOUNT_KIND;
use super::negotiate::Negotiated;
use super::options::Mode;
use crate::error::{Error, ErrorKind, Result};

const VERSION: u32 = 1;
const MOST_BYTES: usize = 64 << 10;

/// Holds no credentials.
#[derive(Debug)]
pub struct KeptMount {
    /// JSON; for the next daemon, and nobody else, to understand.
    pub words: String,
    /// The `/dev/fuse` of the connection.
    pub connection: OwnedFd,
    /// The memory that outlives the daemon.
    pub ledger: OwnedFd,
    /// A pair of packet sockets to a supervisor that sends invalidations; what `keep` returns has none.
    pub relay: Option<OwnedFd>,
}

#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    version: u32,
    minor: u32,
    flags: u64,
    mode: Mode,
    /// Bytes, since a path need not be text.
    path: Vec<u8>,
    mount_id: u64,
    device: String,
    source: String,
    by_helper: bool,
}

/// The words that describe a mount.
pub fn describe(negotiated: Negotiated, mounted: &Mounted) -> Result<String> {
    let (entry, by_helper) = mounted.identity();
    let words = Words {
        version: VERSION,
        minor: negotiated.minor,
        flags: negotiated.flags,
        mode: negotiated.mode,
        path: mounted.path().as_os_str().as_bytes().to_vec(),
        mount_id: entry.id,
        device: entry.device.clone(),
        source: entry.source.clone(),
        by_helper,
    };
    serde_json::to_string(&words).map_err(|error| foreign(&error.to_string()))
}

/// The mount that `words` describe.
pub fn understand(words: &str) -> Result<(Negotiated, Mounted)> {
    if words.len() > MOST_BYTES {
        return Err(foreign("it is too long"));
    }
    let words: Words = serde_json::from_str(words).map_err(|error| foreign(&error.to_string()))?;
    if words.version != VERSION {
        return Err(foreign(&format!("it is of version {}", words.version)));
    }
    let path = PathBuf::from(OsString::from_vec(words.path));
    let entry = MountEntry {
        id: words.mount_id,
        device: words.device,
        path: path.clone(),
        kind: MOUNT_KIND.to_owned(),
        source: words.source,
    };
    let negotiated = Negotiated { minor: words.minor, flags: words.flags, mode: words.mode };
    Ok((negotiated, Mounted::again(path, entry, words.by_helper)))
}

fn foreign(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the description of the running mount cannot be understood: {why}"))
        .with_hint("end the mount and mount again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_understood_by_the_next() {
        let path = PathBuf::from(OsString::from_vec(b"/mnt/\xff".to_vec()));
        let entry = MountEntry {
            id: 7,
            device: "0:5".into(),
            path: path.clone(),
            kind: MOUNT_KIND.into(),
            source: "s3://b".into(),
        };
        let negotiated = Negotiated { minor: 45, flags: 1 << 39, mode: Mode::Elide };
        let words = describe(negotiated, &Mounted::again(path.clone(), entry.clone(), true)).expect("words");
        let (again, mounted) = understand(&words).expect("understood");
        assert_eq!(again, negotiated);
        assert_eq!((mounted.path(), mounted.identity()), (path.as_path(), (&entry, true)));
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        for words in ["", "{}", "[1]", &"x".repeat(MOST_BYTES + 1)] {
            assert_eq!(understand(words).expect_err("refused").kind(), ErrorKind::Unsupported);
        }
    }
}
