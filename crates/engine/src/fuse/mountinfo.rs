//! The mounts of this machine, as `/proc/self/mountinfo` tells it: without touching a mount, so a dead one cannot hang
//! us.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::view::{IMAGE_NAME, VIEW_KIND};
use crate::error::{Error, Result};

/// The type that our mounts show in `/proc/mounts`, but for views.
pub const MOUNT_KIND: &str = "fuse.headrace";

const MOUNTS: &str = "/proc/self/mountinfo";

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    pub id: u64,
    /// The mount that it is on.
    pub parent: u64,
    /// `major:minor`, which is also the name of its backing device information in `/sys/class/bdi`.
    pub device: String,
    pub path: PathBuf,
    pub kind: String,
    pub source: String,
}

impl MountEntry {
    /// Whether Headrace made it, this process or another.
    pub fn is_ours(&self) -> bool {
        self.kind == MOUNT_KIND || self.is_view()
    }

    /// Whether it is a view of ours.
    pub fn is_view(&self) -> bool {
        self.kind == VIEW_KIND && Path::new(&self.source).file_name().is_some_and(|name| name == IMAGE_NAME)
    }
}

/// The mount that is on top at `path`, if `path` is a mountpoint.
pub fn topmost_at(path: &Path) -> Result<Option<MountEntry>> {
    let table = std::fs::read(MOUNTS).map_err(|error| Error::from_io("read", Path::new(MOUNTS), error))?;
    Ok(find_topmost(&table, path))
}

/// The mount that `path` lies in, by its words alone: links on the way are not followed.
pub fn around(path: &Path) -> Result<Option<MountEntry>> {
    let table = std::fs::read(MOUNTS).map_err(|error| Error::from_io("read", Path::new(MOUNTS), error))?;
    Ok(path.ancestors().find_map(|folder| find_topmost(&table, folder)))
}

/// All mounts at `path`, in the order of the table, which may be any.
pub fn all_at(path: &Path) -> Result<Vec<MountEntry>> {
    let table = std::fs::read(MOUNTS).map_err(|error| Error::from_io("read", Path::new(MOUNTS), error))?;
    Ok(find_all(&table, path))
}

fn find_all(table: &[u8], path: &Path) -> Vec<MountEntry> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line).filter(|entry| entry.path == path).collect()
}

/// What nothing else at the path is on; of several (below mounts that are covered themselves) the latest.
fn find_topmost(table: &[u8], path: &Path) -> Option<MountEntry> {
    let all = find_all(table, path);
    all.iter().rfind(|entry| !all.iter().any(|other| other.parent == entry.id)).cloned()
}

/// `36 35 98:0 /root /mnt options [tags…] - type source super-options`
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut words = line.split(|byte| *byte == b' ');
    let id = text(words.next()?).parse().ok()?;
    let parent = text(words.next()?).parse().ok()?;
    let device = text(words.next()?);
    let path = PathBuf::from(OsString::from_vec(unescape(words.nth(1)?)));
    let mut words = words.skip_while(|word| *word != b"-").skip(1);
    let kind = text(words.next()?);
    let source = text(&unescape(words.next()?));
    Some(MountEntry { id, parent, device, path, kind, source })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The kernel writes blank, tab, newline and backslash as `\` and three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, tail)) = rest.split_first() {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(first);
                rest = tail;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 0:20 / /proc rw shared:5 - proc proc rw\n\
        40 1 0:41 / /mnt/two\\040words ro,nosuid - fuse.headrace s3://b\\134x ro,user_id=0\n\
        41 40 0:42 / /mnt/two\\040words ro - fuse.other top ro\n\
        broken line\n";

    #[test]
    fn the_topmost_mount_is_found_with_its_blanks() {
        let found = find_topmost(TABLE, Path::new("/mnt/two words")).expect("listed");
        assert_eq!((found.kind.as_str(), found.device.as_str(), found.id), ("fuse.other", "0:42", 41));
    }

    #[test]
    fn what_was_put_beneath_is_not_on_top() {
        let table = b"50 1 0:41 / /mnt ro - erofs old ro\n61 1 0:40 / /other ro - erofs other ro\n";
        assert_eq!(find_topmost(table, Path::new("/mnt")).expect("listed").id, 50);
        let table = b"50 60 0:41 / /mnt ro - erofs old ro\n60 1 0:43 / /mnt ro - erofs new ro\n";
        assert_eq!(find_topmost(table, Path::new("/mnt")).expect("listed").id, 50);
        assert_eq!(find_all(table, Path::new("/mnt")).len(), 2);
    }

    #[test]
    fn a_path_lies_in_the_nearest_mount_above_it() {
        let kind =
            |path| Path::new(path).ancestors().find_map(|folder| find_topmost(TABLE, folder)).map(|entry| entry.kind);
        assert_eq!(kind("/mnt/two words/a/b").as_deref(), Some("fuse.other"));
        assert_eq!(kind("/proc/1").as_deref(), Some("proc"));
        assert_eq!(kind("/mnt/two"), None);
        assert!(around(Path::new("/proc/1/fd")).expect("read").is_some_and(|entry| entry.kind == "proc"));
    }

    #[test]
    fn views_are_told_from_other_images() {
        let entry = |line: &str| parse_line(line.as_bytes()).expect("a mount");
        let view = entry("40 1 0:41 / /mnt/data ro,nosuid - erofs /var/lib/headrace/data/headrace.erofs ro");
        assert!(view.is_ours() && view.is_view());
        assert!(!entry("40 1 0:41 / /mnt/data ro - erofs /images/system.erofs ro").is_ours());
        assert!(!entry("40 1 0:41 / /mnt/data ro - ext4 /images/headrace.erofs ro").is_ours());
        let mount = entry("40 1 0:41 / /mnt/data ro - fuse.headrace s3://b ro");
        assert!(mount.is_ours() && !mount.is_view());
    }

    #[test]
    fn a_plain_folder_is_no_mount() {
        assert_eq!(find_topmost(TABLE, Path::new("/mnt")), None);
    }

    #[test]
    fn sources_are_unescaped() {
        let line = TABLE.split(|byte| *byte == b'\n').nth(1).expect("second line");
        assert_eq!(parse_line(line).expect("a mount").source, "s3://b\\x");
    }
}
