//! Measures the mount modes against the local file system, on files of a local folder.
//!
//! `fuse_speed table FOLDER`: fills FOLDER with test files, then measures the folder itself and a mount of it in each
//! mode (reader and server in processes of their own), and prints a table. Needs root and fio.
//! `fuse_speed serve FOLDER MOUNTPOINT MODE [READAHEAD_KIB [THREADS]]`: mounts until standard input ends.
//! `fuse_speed small|stat|names|long FOLDER`: one measurement, in operations a second.

#[path = "../tests/fuse/support.rs"]
mod fuse_support;
#[path = "../tests/fuse/tree.rs"]
mod tree;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use fuse_support::{Tree, budgets, runtime};
use headrace_engine::fuse::{Mode, MountOptions, mount};
use headrace_engine::metrics::Metrics;

const SMALL_FILES: usize = 4000;
const SMALL_BYTES: usize = 110 << 10;
const LARGE_BYTES: usize = 1 << 30;
const NAMES: usize = 100_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["table", folder, ref modes @ ..] => table(Path::new(folder), modes),
        ["serve", folder, mountpoint, mode, ref rest @ ..] => serve(folder, mountpoint, mode, rest),
        ["small", folder] => report(small(Path::new(folder))),
        ["stat", folder] => report(stat(Path::new(folder))),
        ["names", folder] => report(names(Path::new(folder))),
        ["long", folder] => report(long(Path::new(folder))),
        _ => eprintln!("see the head of examples/fuse_speed.rs"),
    }
}

fn report(rate: f64) {
    println!("{rate:.0}");
}

fn mode_of(word: &str) -> Mode {
    match word {
        "passthrough" => Mode::Passthrough,
        "elide" => Mode::Elide,
        "classic" => Mode::Classic,
        _ => Mode::Auto,
    }
}

fn serve(folder: &str, mountpoint: &str, mode: &str, rest: &[&str]) {
    let mut options = MountOptions { mode: mode_of(mode), ..MountOptions::default() };
    if let Some(kib) = rest.first() {
        options.max_readahead_bytes = kib.parse::<u32>().expect("a number of KiB") << 10;
    }
    options.threads = rest.get(1).map(|threads| threads.parse().expect("a number of threads"));
    let tree = Arc::new(Tree::of_folder(Path::new(folder)));
    let runtime = runtime();
    let path = Path::new(mountpoint);
    let handle = mount(tree, path, options, runtime.handle().clone(), Metrics::new(), budgets());
    let handle = handle.unwrap_or_else(|error| panic!("{error:?}"));
    println!("{:?}", handle.mode());
    let _ = std::io::stdin().read(&mut [0]);
}

/// The files of `folder` in an order that no read-ahead guesses.
fn shuffled(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort_by_key(|path| {
        let text = path.to_string_lossy();
        text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    });
    paths
}

fn small(folder: &Path) -> f64 {
    let paths = shuffled(folder);
    let mut buffer = vec![0; SMALL_BYTES + 1];
    let start = Instant::now();
    for path in &paths {
        let mut file = std::fs::File::open(path).expect("openable");
        let mut total = 0;
        while let count @ 1.. = file.read(&mut buffer[total..]).expect("readable") {
            total += count;
        }
        assert_eq!(total, SMALL_BYTES);
    }
    paths.len() as f64 / start.elapsed().as_secs_f64()
}

fn stat(folder: &Path) -> f64 {
    let paths = shuffled(folder);
    let start = Instant::now();
    for path in &paths {
        assert!(std::fs::symlink_metadata(path).expect("there").is_file());
    }
    paths.len() as f64 / start.elapsed().as_secs_f64()
}

fn names(folder: &Path) -> f64 {
    list(folder, |entry| !entry.file_name().is_empty())
}

fn long(folder: &Path) -> f64 {
    list(folder, |entry| entry.metadata().expect("there").is_file())
}

fn list(folder: &Path, look: impl Fn(&std::fs::DirEntry) -> bool) -> f64 {
    let start = Instant::now();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        count += usize::from(look(&entry.expect("an entry")));
    }
    count as f64 / start.elapsed().as_secs_f64()
}

fn prepare(folder: &Path) {
    let content: Vec<u8> = (0..LARGE_BYTES / 8).flat_map(|word| (word as u64).to_ne_bytes()).collect();
    if !folder.join("large/file").exists() {
        std::fs::create_dir_all(folder.join("large")).expect("created");
        std::fs::write(folder.join("large/file"), &content).expect("written");
    }
    for (name, count, size) in [("small", SMALL_FILES, SMALL_BYTES), ("many", NAMES, 0)] {
        if !folder.join(name).exists() {
            std::fs::create_dir_all(folder.join(name)).expect("created");
            for number in 0..count {
                std::fs::write(folder.join(name).join(format!("{number:07}.jpg")), &content[..size]).expect("written");
            }
        }
    }
}

fn table(folder: &Path, modes: &[&str]) {
    prepare(folder);
    let modes = if modes.is_empty() { &["native", "classic", "elide", "passthrough"][..] } else { modes };
    let head = [
        "mode",
        "seq 1M first",
        "seq 1M again",
        "rand 4K first",
        "rand 4K again",
        "small first",
        "small again",
        "stat first",
        "stat again",
        "names first",
        "names again",
        "ls -l first",
        "ls -l again",
    ];
    println!("| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
    for mode in modes {
        println!("| {mode} | {} |", row(folder, mode).join(" | "));
    }
}

/// MiB/s, IOPS, then operations a second; "first" on a fresh mount each.
fn row(folder: &Path, mode: &str) -> Vec<String> {
    let mut cells = Vec::new();
    for rw in ["read", "randread"] {
        let served = Served::start(folder, mode);
        cells.push(fio(&served.path.join("large/file"), rw, true));
        cells.push(fio(&served.path.join("large/file"), rw, false));
    }
    for (what, place) in [("small", "small"), ("stat", "many"), ("names", "many"), ("long", "many")] {
        let served = Served::start(folder, mode);
        cells.push(in_child(what, &served.path.join(place)));
        let mut again: Vec<u64> =
            (0..3).map(|_| in_child(what, &served.path.join(place)).parse().expect("a rate")).collect();
        again.sort_unstable();
        cells.push(again[1].to_string());
    }
    cells
}

fn in_child(what: &str, folder: &Path) -> String {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).arg(what).arg(folder).output().expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn fio(file: &Path, rw: &str, cold: bool) -> String {
    let block = if rw == "read" { "1M" } else { "4k" };
    let limit = if rw == "read" { "--loops=1" } else { "--runtime=3" };
    let output = Command::new("fio")
        .args(["--name=x", "--readonly", "--ioengine=psync", "--minimal", limit])
        .args([format!("--rw={rw}"), format!("--bs={block}"), format!("--invalidate={}", u8::from(cold))])
        .arg(format!("--filename={}", file.display()))
        .output()
        .expect("fio");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let fields: Vec<&str> = text.trim().split(';').collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(f64::NAN);
    if rw == "read" { format!("{:.0}", number(6) / 1024.0) } else { format!("{:.0}", number(7)) }
}

/// A mount in a process of its own, or the folder itself.
struct Served {
    path: PathBuf,
    child: Option<(Child, tempfile::TempDir)>,
}

impl Served {
    fn start(folder: &Path, mode: &str) -> Served {
        if mode == "native" {
            return Served { path: folder.to_owned(), child: None };
        }
        let place = tempfile::tempdir().expect("a temporary folder");
        let words: Vec<&str> = mode.split(':').collect();
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .arg("serve")
            .args([folder, place.path()])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut ready = [0; 1];
        child.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("mounted");
        Served { path: place.path().to_owned(), child: Some((child, place)) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some((mut child, _place)) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
