//! WebHDFS: a namenode that lists and redirects, and a datanode that sends bytes, both at one address.

use serde_json::json;

use super::wire::{Reply, Request};
use super::{Stored, World};

const BASE: &str = "/webhdfs/v1/";

pub fn handle(world: &World, request: &Request) -> Reply {
    let path = request.decoded_path();
    let query = request.query();
    let find = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let Some(key) = path.strip_prefix(BASE) else { return Reply::status(404) };
    match find("op") {
        Some("LISTSTATUS") => list(world, key.trim_end_matches('/')),
        Some("GETFILECHECKSUM") => checksum(world, key),
        Some("OPEN") if find("datanode").is_none() => {
            let location = format!("http://{}{}&datanode=1", request.header("host").unwrap(), request.target);
            Reply::status(307).with("location", &location)
        }
        Some("OPEN") => {
            let number = |name: &str| find(name).and_then(|text| text.parse::<usize>().ok());
            open(world, key, number("offset").unwrap_or(0), number("length"))
        }
        _ => Reply::status(400),
    }
}

fn list(world: &World, directory: &str) -> Reply {
    if let Some(stored) = world.get(directory) {
        return statuses(vec![file("", &stored)]);
    }
    let base = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let objects = world.objects.lock();
    let (mut found, mut last_directory) = (Vec::new(), String::new());
    for (key, stored) in objects.iter().filter(|(key, _)| key.starts_with(&base)) {
        match key[base.len()..].split_once('/') {
            None => found.push(file(&key[base.len()..], stored)),
            Some((name, _)) if name != last_directory => {
                last_directory = name.to_owned();
                found.push(json!({"pathSuffix": name, "type": "DIRECTORY", "length": 0, "modificationTime": 1}));
            }
            Some(_) => {}
        }
    }
    if found.is_empty() && !directory.is_empty() { not_found() } else { statuses(found) }
}

fn file(name: &str, stored: &Stored) -> serde_json::Value {
    let (length, time) = (stored.body.len(), stored.mtime_s * 1000);
    json!({"pathSuffix": name, "type": "FILE", "length": length, "modificationTime": time, "fileId": stored.number()})
}

fn statuses(found: Vec<serde_json::Value>) -> Reply {
    let body = json!({"FileStatuses": {"FileStatus": found}}).to_string();
    Reply::status(200).with("content-type", "application/json").body(body.as_bytes())
}

fn open(world: &World, key: &str, offset: usize, length: Option<usize>) -> Reply {
    let Some(stored) = world.get(key) else { return not_found() };
    if offset > stored.body.len() {
        return exception(403, "IOException");
    }
    let end = length.map_or(stored.body.len(), |length| (offset + length).min(stored.body.len()));
    Reply::status(200).body(&stored.body[offset..end])
}

/// As a cluster with `dfs.checksum.combine.mode=COMPOSITE_CRC` answers.
fn checksum(world: &World, key: &str) -> Reply {
    let Some(stored) = world.get(key) else { return not_found() };
    let bytes = format!("{:08x}", crc32c::crc32c(&stored.body));
    let body = json!({"FileChecksum": {"algorithm": "COMPOSITE-CRC32C", "bytes": bytes, "length": 4}}).to_string();
    Reply::status(200).with("content-type", "application/json").body(body.as_bytes())
}

fn not_found() -> Reply {
    exception(404, "FileNotFoundException")
}

fn exception(status: u16, name: &str) -> Reply {
    let body = json!({"RemoteException": {"exception": name, "message": "hunter2"}}).to_string();
    Reply::status(status).body(body.as_bytes())
}
