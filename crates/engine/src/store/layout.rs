//! The layout of a cache folder. Pure names; the only place that knows them.

use std::path::{Path, PathBuf};

use crate::ids::FileId;

pub const LOG: &str = "index.log";
pub const NEW_LOG: &str = "index.log.new";
pub const DATA: &str = "data";

/// `data/ab/abcdef…` of a file version.
pub fn data_file(folder: &Path, id: &FileId) -> PathBuf {
    let name = id.to_string();
    folder.join(DATA).join(&name[..2]).join(&name)
}

/// The file version whose data file is called `name`, when it is such a name.
pub fn parse_data_file(name: &std::ffi::OsStr) -> Option<FileId> {
    let name = name.to_str().filter(|name| name.len() == 32)?;
    let mut id = [0; 16];
    for (index, byte) in id.iter_mut().enumerate() {
        let digits = name.get(2 * index..2 * index + 2)?;
        let lower = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        *byte = u8::from_str_radix(digits, 16).ok().filter(|_| lower)?;
    }
    Some(FileId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_file_name_reads_back() {
        let id = FileId([0xab; 16]);
        let path = data_file(Path::new("/c"), &id);
        assert_eq!(path.to_str(), Some("/c/data/ab/abababababababababababababababab"));
        assert_eq!(path.file_name().and_then(parse_data_file), Some(id));
    }

    #[test]
    fn foreign_names_are_not_ours() {
        for name in ["", "notes.txt", "ABABABABABABABABABABABABABABABAB", "zzababababababababababababababab", "ab"] {
            assert_eq!(parse_data_file(name.as_ref()), None, "{name}");
        }
    }
}
