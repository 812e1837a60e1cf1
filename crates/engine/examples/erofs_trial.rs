//! The trial behind `docs/decisions/0002-snapshot-format.md`: one listing as a snapshot and as an EROFS image; bytes a
//! file, time to write, and names and attributes asked of the mapped snapshot and of the kernel.
//!
//! As root: `cargo run --release --example erofs_trial -- FILES FOLDERS DIRECTORY [BLOB]`. BLOB is the device behind the
//! image (for example a file on a FUSE mount); without it a sparse file in DIRECTORY is made. The same names as empty
//! files of DIRECTORY's own file system are asked the same questions, unless BLOB is given.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use headrace_engine::error::{Error, Result};
use headrace_engine::origin::{ListedObject, ObjectKind};
use headrace_engine::snapshot::{NodeIndex, Snapshot, SnapshotBuilder, erofs};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

const LOOKUPS: u64 = 1_000_000;
const READS: u64 = 20_000;
const FILE_BYTES: u64 = 110_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    let (Some(files), Some(folders), Some(directory)) = (number(0), number(1), arguments.get(2).map(PathBuf::from))
    else {
        return Err(Error::config("usage: erofs_trial FILES FOLDERS DIRECTORY [BLOB]"));
    };
    let snapshot = build(files, folders, &directory)?;
    let image = directory.join("trial.erofs");
    let layout = timed("write the EROFS image", files, || {
        let defaults = erofs::Defaults { uid: 0, gid: 0, file_mode: 0o444, directory_mode: 0o555 };
        erofs::write_image(&snapshot, defaults, &image)
    })?;
    let per_file = |bytes: u64| bytes as f64 / files as f64;
    println!(
        "snapshot {:.1}, image {:.1} bytes/file",
        per_file(snapshot.mapped_bytes()),
        per_file(layout.image_bytes())
    );
    let blob = match arguments.get(3) {
        Some(blob) => PathBuf::from(blob),
        None => sparse_file(&directory.join("trial.blob"), layout.blob_bytes())?,
    };
    println!("blob of {} GiB", layout.blob_bytes() >> 30);
    let paths: Vec<PathBuf> = (0..LOOKUPS.min(files))
        .map(|step| PathBuf::from(key(step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % files, files, folders)))
        .collect();
    ask_snapshot(&snapshot, &paths);
    drop(snapshot);
    let place = directory.join("trial.mount");
    std::fs::create_dir_all(&place).map_err(|error| Error::from_io("create", &place, error))?;
    ask_erofs(&image, &blob, &place, &paths, files)?;
    if arguments.get(3).is_none() {
        let plain = directory.join("trial.plain");
        timed("plain files: make", files, || make_plain(&plain, files, folders))?;
        ask_names("plain files", &plain, &paths, files);
    }
    Ok(())
}

fn make_plain(directory: &Path, files: u64, folders: u64) -> Result<()> {
    for number in 0..files {
        let path = directory.join(key(number, files, folders));
        if number % files.div_ceil(folders) == 0 {
            let folder = path.parent().unwrap_or(directory);
            std::fs::create_dir_all(folder).map_err(|error| Error::from_io("create", folder, error))?;
        }
        File::create(&path).map_err(|error| Error::from_io("create", &path, error))?;
    }
    Ok(())
}

fn key(number: u64, files: u64, folders: u64) -> String {
    format!("n{:05}/ILSVRC2012_val_{number:08}.JPEG", number / files.div_ceil(folders))
}

fn build(files: u64, folders: u64, directory: &Path) -> Result<Snapshot> {
    let mut builder = SnapshotBuilder::new(&[String::new()])?;
    for number in 0..files {
        let etag = format!("{:032x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        builder.add(
            0,
            ListedObject {
                key: key(number, files, folders).into_bytes().into(),
                kind: ObjectKind::File,
                size: FILE_BYTES,
                mtime_ns: 1_700_000_000_000_000_000,
                etag: Some(etag.into_bytes().into()),
                stamp: None,
                permissions: None,
            },
        );
    }
    timed("write the snapshot", files, || builder.finish(&directory.join("trial.snapshot"), None)).map(|built| built.0)
}

fn sparse_file(path: &Path, bytes: u64) -> Result<PathBuf> {
    let made = File::create(path).and_then(|file| file.set_len(bytes));
    made.map_err(|error| Error::from_io("make", path, error)).map(|()| path.to_owned())
}

fn ask_snapshot(snapshot: &Snapshot, paths: &[PathBuf]) {
    let found = timed("snapshot: look-up by path with attributes, random", paths.len() as u64, || {
        let found = |path: &&PathBuf| {
            let index = snapshot.find_path(path.as_os_str().as_encoded_bytes());
            index.and_then(|index| snapshot.node(index)).is_some()
        };
        paths.iter().filter(found).count()
    });
    assert_eq!(found, paths.len());
    let bytes = timed("snapshot: walk with attributes", u64::from(snapshot.nodes()), || {
        let mut bytes = 0;
        snapshot.walk(NodeIndex::ROOT, &mut |index, _| {
            bytes += snapshot.node(index).map_or(0, |node| node.size);
            true
        });
        bytes
    });
    assert_eq!(bytes, snapshot.total_bytes());
}

fn ask_erofs(image: &Path, blob: &Path, place: &Path, paths: &[PathBuf], files: u64) -> Result<()> {
    let option = format!("device={}", blob.display());
    timed("erofs: mount", 1, || mount(Some(image), place, Some("erofs"), MsFlags::MS_RDONLY, Some(option.as_str())))
        .map_err(|error| Error::from_io("mount the image at", place, error.into()))?;
    ask_names("erofs", place, paths, files);
    for pass in ["first touch", "again"] {
        let read = timed(&format!("erofs: open+read+close, {pass}"), READS, || {
            paths.iter().take(READS as usize).filter_map(|path| read_whole(&place.join(path))).sum::<u64>()
        });
        println!("   {} MiB", read >> 20);
    }
    umount2(place, MntFlags::MNT_DETACH).map_err(|error| Error::from_io("unmount", place, error.into()))
}

fn ask_names(who: &str, place: &Path, paths: &[PathBuf], files: u64) {
    for pass in ["first", "again"] {
        let shell = |what: &str, words: &[&str]| {
            timed(&format!("{who}: {what}, {pass}"), files, || {
                let status = Command::new(words[0]).args(&words[1..]).current_dir(place).stdout(Stdio::null()).status();
                assert!(status.is_ok_and(|status| status.success()), "{what} failed");
            });
        };
        shell("ls -UR", &["ls", "-UR"]);
        shell("find -printf '%s %T@'", &["find", ".", "-printf", "%s %T@ %p\\n"]);
        shell("ls -lR", &["ls", "-lR", "--time-style=+%s"]);
        let found = timed(&format!("{who}: stat by path, random, {pass}"), paths.len() as u64, || {
            paths.iter().filter(|path| std::fs::symlink_metadata(place.join(path)).is_ok()).count()
        });
        assert_eq!(found, paths.len());
    }
}

fn read_whole(path: &Path) -> Option<u64> {
    let mut buffer = [0; 128 << 10];
    File::open(path).ok()?.read_at(&mut buffer, 0).ok().map(|length| length as u64)
}

/// Prints time passed and processor time used (on a shared machine only the second compares).
fn timed<T>(what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    let (start, used) = (Instant::now(), processor_s());
    let result = work();
    let (passed, used) = (start.elapsed().as_secs_f64(), processor_s() - used);
    println!("{what}: {passed:.3} s passed, {used:.3} s used, {:.0} a second used", count as f64 / used.max(1e-6));
    result
}

/// Processor time of this process and of the programs that it ran.
fn processor_s() -> f64 {
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].into_iter().filter_map(|who| getrusage(who).ok()).fold(
        0.0,
        |sum, usage| {
            let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
            sum + seconds(usage.user_time()) + seconds(usage.system_time())
        },
    )
}
