//! What only a local folder has: links, devices, names that are no text, and neighbours who must stay unseen.
#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::servers::fixture::{Fixture, Protocol, fixture, pattern, settings, version_of};
use futures::StreamExt;
use headrace_engine::config::OriginConfig;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::{ByteRange, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{LeftOut, ListedObject, ObjectKind, ObjectVersion, Permissions, open};

fn root(fixture: &Fixture) -> &Path {
    fixture.folder.as_ref().unwrap().path()
}

#[tokio::test]
async fn links_are_listed_with_their_text_and_never_followed() {
    let fixture = fixture(Protocol::Local).await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    fixture.put("real/file", b"inside");
    symlink(outside.path(), root(&fixture).join("out")).unwrap();
    symlink("real/file", root(&fixture).join("link")).unwrap();
    symlink("nowhere", root(&fixture).join("dangling")).unwrap();
    symlink(".", root(&fixture).join("loop")).unwrap();
    let mut links: Vec<(String, Vec<u8>)> = Vec::new();
    for object in fixture.list().await.unwrap() {
        assert!(!object.key.starts_with(b"out/") && !object.key.starts_with(b"loop/"), "{object:?}");
        if let ObjectKind::Symlink(text) = object.kind {
            links.push((String::from_utf8(object.key.into_vec()).unwrap(), text.into_vec()));
        }
    }
    links.sort();
    let names: Vec<&str> = links.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["dangling", "link", "loop", "out"]);
    assert_eq!(links[1].1, b"real/file");
}

#[tokio::test]
async fn owners_and_modes_are_listed_also_of_the_top_folder() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let fixture = fixture(Protocol::Local).await;
    fixture.put("run.sh", b"x");
    let chmod = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    chmod(&root(&fixture).join("run.sh"), 0o4751);
    chmod(root(&fixture), 0o710);
    let owner = std::fs::metadata(root(&fixture)).unwrap();
    for (key, mode) in [("", 0o710), ("run.sh", 0o751)] {
        let listed = fixture.list_with_top().await.unwrap();
        let found = listed.iter().find(|object| &*object.key == key.as_bytes()).unwrap();
        assert_eq!(found.permissions, Some(Permissions { mode, uid: owner.uid(), gid: owner.gid() }), "{key:?}");
    }
}

#[tokio::test]
async fn no_key_leads_out_of_the_folder() {
    let fixture = fixture(Protocol::Local).await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    symlink(outside.path(), root(&fixture).join("out")).unwrap();
    symlink(outside.path().join("secret"), root(&fixture).join("link")).unwrap();
    let metadata = std::fs::metadata(outside.path().join("secret")).unwrap();
    use std::os::unix::fs::MetadataExt;
    let version = Version::ModifiedNs(metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec());
    let absolute = outside.path().join("secret");
    let up = format!("../{}/secret", outside.path().file_name().unwrap().to_str().unwrap());
    for key in ["out/secret", "link", up.as_str(), absolute.to_str().unwrap(), "out/../out/secret", "", ".", "a\0b"] {
        let object = ObjectVersion { key: key.as_bytes().into(), size: 6, version: version.clone() };
        let outcome = fixture.read(&object, ByteRange::new(0, 6)).await;
        assert!(outcome.is_err(), "{key:?} was read");
    }
}

#[tokio::test]
async fn a_folder_swapped_for_a_link_after_the_listing_is_stale() {
    let fixture = fixture(Protocol::Local).await;
    fixture.put("dir/file", b"inside");
    let object = fixture.version("dir/file").await;
    std::fs::rename(root(&fixture).join("dir"), root(&fixture).join("moved")).unwrap();
    symlink("moved", root(&fixture).join("dir")).unwrap();
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
}

#[tokio::test]
async fn names_are_bytes() {
    let fixture = fixture(Protocol::Local).await;
    let name = b"\xff\xfe not text \x01";
    std::fs::write(root(&fixture).join(OsStr::from_bytes(name)), "content").unwrap();
    let listed = fixture.list().await.unwrap();
    assert_eq!(&*listed[0].key, name);
    assert_eq!(fixture.read_all(&version_of(&listed[0])).await.unwrap(), b"content");
}

#[tokio::test]
async fn pipes_and_sockets_are_told_as_left_out_and_not_waited_for() {
    let fixture = fixture(Protocol::Local).await;
    fixture.put("file", b"x");
    let pipe = root(&fixture).join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root(&fixture).join("socket")).unwrap();
    assert_eq!(fixture.files().await, ["file"]);
    let mut special = fixture.list().await.unwrap();
    special.retain(|object| object.kind == ObjectKind::LeftOut(LeftOut::Special));
    special.sort_by(|left, right| left.key.cmp(&right.key));
    assert_eq!(special.iter().map(|object| &*object.key).collect::<Vec<_>>(), [&b"pipe"[..], b"socket"]);
    let object = ObjectVersion { key: b"pipe"[..].into(), size: 0, version: Version::ModifiedNs(0) };
    let read = ObjectVersion { size: 10, ..object };
    assert_eq!(fixture.read_all(&read).await.unwrap_err().kind(), ErrorKind::Stale);
}

#[tokio::test]
async fn times_have_nanoseconds_and_empty_folders_are_listed() {
    let fixture = fixture(Protocol::Local).await;
    fixture.put("file", b"x");
    std::fs::create_dir_all(root(&fixture).join("empty/inner")).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_600_000_000, 123_456_789);
    std::fs::File::options().write(true).open(root(&fixture).join("file")).unwrap().set_modified(time).unwrap();
    let listed = fixture.list().await.unwrap();
    let file = listed.iter().find(|object| object.kind == ObjectKind::File).unwrap();
    assert_eq!(file.mtime_ns, 1_600_000_000_123_456_789);
    let mut folders: Vec<&[u8]> =
        listed.iter().filter(|object| object.kind == ObjectKind::Directory).map(|object| &*object.key).collect();
    folders.sort();
    assert_eq!(folders, [&b"empty"[..], b"empty/inner"]);
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_ends_the_read() {
    let fixture = fixture(Protocol::Local).await;
    fixture.put("file", &pattern(5 << 20));
    let object = fixture.version("file").await;
    let mut body = fixture.origin.read(&object, ByteRange::new(0, object.size)).await.unwrap();
    let first = body.next().await.unwrap().unwrap();
    assert!(pattern(5 << 20).starts_with(&first));
    fixture.put("file", &vec![7; 5 << 20]);
    let rest: Vec<_> = body.collect().await;
    let error = rest.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale, "{error:?}");
}

/// A time that was set back after a change would look like the old version but for the change time.
#[tokio::test]
async fn a_change_that_hides_its_time_is_noticed_within_a_read() {
    let fixture = fixture(Protocol::Local).await;
    fixture.put("file", &pattern(3 << 20));
    let object = fixture.version("file").await;
    let path = root(&fixture).join("file");
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut body = fixture.origin.read(&object, ByteRange::new(0, object.size)).await.unwrap();
    body.next().await.unwrap().unwrap();
    fixture.put("file", &vec![7; 3 << 20]);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    let rest: Vec<_> = body.collect().await;
    assert_eq!(rest.last().unwrap().as_ref().unwrap_err().kind(), ErrorKind::Stale);
}

/// Copies of a folder on several nodes differ in inodes and change times, and so do lists that an earlier version kept.
#[tokio::test]
async fn without_change_times_only_size_and_modification_time_count() {
    let fixture = fixture(Protocol::Local).await;
    fixture.put("file", b"first");
    let config = OriginConfig::Local { directory: root(&fixture).to_owned(), ignore_change_times: true };
    let plain = Fixture { origin: open(&config, &settings(), &Metrics::new()).unwrap(), ..fixture };
    let object = plain.version("file").await;
    assert!(matches!(object.version, Version::ModifiedNs(_)), "{object:?}");
    plain.replace("file", b"again");
    assert_eq!(plain.version("file").await, object);
    assert_eq!(plain.read_all(&object).await.unwrap(), b"again");
    plain.put("file", b"other");
    assert_eq!(plain.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
}

/// Only meaningful without the right to read everything.
#[tokio::test]
async fn a_folder_that_may_not_be_read_is_left_out_but_not_the_top() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    let fixture = fixture(Protocol::Local).await;
    fixture.put("closed/file", b"x");
    let closed = root(&fixture).join("closed");
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let listed = fixture.list().await.unwrap();
    assert_eq!(listed, [ListedObject::left_out(b"closed", LeftOut::Unreadable)]);
    std::fs::set_permissions(root(&fixture), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let error = fixture.list().await.unwrap_err();
    std::fs::set_permissions(root(&fixture), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}
