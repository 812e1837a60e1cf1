//! A real NFS server, nfs-ganesha, once for all tests of a process: on a machine of its own, which is a network namespace
//! behind a veth pair. It ends with the process, and the namespace with it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/headrace/testing/ganesha.sh");
/// The server keeps attributes and names for a minute by default; tests change files behind its back.
const CONFIGURATION: &str = r#"
NFS_CORE_PARAM {
    Protocols = 3;
    MNT_Port = 20048;
    Enable_NLM = false;
    Enable_RQUOTA = false;
}
NFSv4 { Graceless = true; }
MDCACHE { Dir_Chunk = 0; }
EXPORT {
    Export_Id = 1;
    Path = "EXPORT_PATH";
    Pseudo = "EXPORT_PATH";
    Protocols = 3;
    Transports = TCP;
    Access_Type = RO;
    Squash = no_root_squash;
    SecType = sys;
    PrivilegedPort = true;
    Attr_Expiration_Time = 0;
    FSAL { Name = VFS; }
}
"#;

pub struct Ganesha {
    pub address: String,
    pub export: PathBuf,
}

/// The server; `None`, with a line that says why, where it cannot run.
pub fn ganesha() -> Option<&'static Ganesha> {
    static SERVER: OnceLock<Option<Ganesha>> = OnceLock::new();
    SERVER.get_or_init(start).as_ref()
}

fn start() -> Option<Ganesha> {
    let installed =
        |program: &str| ["/usr/bin", "/usr/sbin", "/sbin"].iter().any(|at| Path::new(at).join(program).exists());
    if !nix::unistd::geteuid().is_root() || !installed("ganesha.nfsd") || !installed("rpcbind") {
        eprintln!("skipped: a real NFS server needs root, nfs-ganesha, nfs-ganesha-vfs and rpcbind");
        return None;
    }
    let folder = fresh_folder();
    let export = folder.join("export");
    std::fs::create_dir(&export).unwrap();
    let configuration = folder.join("ganesha.conf");
    std::fs::write(&configuration, CONFIGURATION.replace("EXPORT_PATH", export.to_str().unwrap())).unwrap();
    let process = spawn(&configuration, &folder);
    let address = connect(process);
    let deadline = Instant::now() + Duration::from_secs(120);
    while !listens(&address) {
        assert!(Instant::now() < deadline, "nfs-ganesha does not answer: see {}", folder.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(Ganesha { address, export })
}

/// A folder of this process; those of processes that ended are removed.
fn fresh_folder() -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in std::fs::read_dir(all).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let stale = name.strip_prefix("ganesha-").is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if stale {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let folder = all.join(format!("ganesha-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
}

/// Starts the server in namespaces of its own, and gives the process that holds them. It is started by a thread that
/// never ends, since the kernel ends it with that thread.
fn spawn(configuration: &Path, folder: &Path) -> u32 {
    let log = std::fs::File::create(folder.join("server.log")).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", SCRIPT])
        .args([configuration, folder])
        .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    // SAFETY: prctl is a plain system call, which may be made between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut child = command.spawn().unwrap();
        sender.send(child.id()).unwrap();
        let _ = child.wait();
        loop {
            std::thread::park();
        }
    });
    receiver.recv().unwrap()
}

/// Lays a link into the namespace of `process`, and gives the address at its far end.
fn connect(process: u32) -> String {
    let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
    while std::fs::read_link(format!("/proc/{process}/ns/net")).is_ok_and(|theirs| theirs == ours) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Four addresses of 198.19.128.0/17 for each process.
    let number = (process % (1 << 13)) * 4;
    let address = |offset: u32| format!("198.19.{}.{}", 128 + (number + offset) / 256, (number + offset) % 256);
    let (near, far, device) = (address(1), address(2), format!("hrg{process}"));
    let process = process.to_string();
    run(&["ip", "link", "add", &device, "type", "veth", "peer", "name", "far", "netns", &process]);
    run(&["ip", "address", "add", &format!("{near}/30"), "dev", &device]);
    run(&["ip", "link", "set", &device, "up"]);
    run(&["nsenter", "-t", &process, "-n", "ip", "address", "add", &format!("{far}/30"), "dev", "far"]);
    run(&["nsenter", "-t", &process, "-n", "ip", "link", "set", "far", "up"]);
    far
}

fn run(command: &[&str]) {
    let done = Command::new(command[0]).args(&command[1..]).output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn listens(address: &str) -> bool {
    [2049, 20048].into_iter().all(|port| {
        let socket = format!("{address}:{port}").parse().unwrap();
        std::net::TcpStream::connect_timeout(&socket, Duration::from_millis(500)).is_ok()
    })
}
