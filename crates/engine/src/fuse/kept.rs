//! The state that a supervisor keeps of a mount, so that another daemon can go on with it: its descriptors and a few
//! words.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use super::ledger::Ledger;
use super::mount::Mounted;
use super::mountinfo::{MOUNT_KIND, MountEntry};
use super::negotiate::Negotiated;
use super::options::Mode;
use super::tickets::Tickets;
use super::view::VIEW_KIND;
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
    /// Of a view: where the content of further lists can be mounted from.
    pub apart: Option<OwnedFd>,
    /// A pair of packet sockets to a supervisor that sends invalidations; what `keep` returns has none.
    pub relay: Option<OwnedFd>,
}

impl KeptMount {
    /// For a view: the identities of the snapshots that programs have in use.
    pub fn shown(&self) -> Result<Option<BTreeSet<u64>>> {
        let (negotiated, _) = understand(&self.words)?;
        if negotiated.mode != Mode::View {
            return Ok(None);
        }
        let memory = self.ledger.try_clone().map_err(|error| foreign(&error.to_string()))?;
        let tickets = Tickets::new(Arc::new(Ledger::open(memory)?));
        Ok(Some(tickets.live().map(|record| record.inode).collect()))
    }
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
    /// Of a view: the device of its connection. A supervisor looks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connection: Option<String>,
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
        connection: mounted.apart().map(str::to_owned),
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
        parent: 0,
        device: words.device,
        path: path.clone(),
        kind: if words.mode == Mode::View { VIEW_KIND } else { MOUNT_KIND }.to_owned(),
        source: words.source,
    };
    let negotiated = Negotiated { minor: words.minor, flags: words.flags, mode: words.mode };
    Ok((negotiated, Mounted::again(path, entry, words.by_helper, words.connection)))
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
            parent: 0,
            device: "0:5".into(),
            path: path.clone(),
            kind: MOUNT_KIND.into(),
            source: "s3://b".into(),
        };
        let negotiated = Negotiated { minor: 45, flags: 1 << 39, mode: Mode::Elide };
        let words = describe(negotiated, &Mounted::again(path.clone(), entry.clone(), true, None)).expect("words");
        let (again, mounted) = understand(&words).expect("understood");
        assert_eq!(again, negotiated);
        assert_eq!((mounted.path(), mounted.identity()), (path.as_path(), (entry, true)));
    }

    #[test]
    fn a_view_is_understood_as_one_with_its_connection() {
        let (path, kind, source) = (PathBuf::from("/mnt"), VIEW_KIND.into(), "/state/headrace.erofs".into());
        let entry = MountEntry { id: 7, parent: 0, device: "0:5".into(), path: path.clone(), kind, source };
        let negotiated = Negotiated { minor: 45, flags: 0, mode: Mode::View };
        let words =
            describe(negotiated, &Mounted::again(path, entry.clone(), false, Some("0:9".into()))).expect("words");
        let (again, mounted) = understand(&words).expect("understood");
        assert_eq!((again.mode, mounted.apart()), (Mode::View, Some("0:9")));
        assert!(mounted.identity().0.is_view());
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        for words in ["", "{}", "[1]", &"x".repeat(MOST_BYTES + 1)] {
            assert_eq!(understand(words).expect_err("refused").kind(), ErrorKind::Unsupported);
        }
    }
}
