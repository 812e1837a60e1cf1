//! Writing to a bucket as S3 and OSS have it: whole files, uploads in parts, and their ends.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::wire::{Reply, Request};
use super::{World, xml_error};

/// An upload under way: for which key, and its parts with their tags.
#[derive(Clone, Debug, Default)]
pub struct Upload {
    pub key: String,
    pub parts: BTreeMap<u32, (Vec<u8>, String)>,
}

pub fn handle(world: &World, key: &str, request: &Request) -> Reply {
    let query = request.query();
    let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    match (request.method.as_str(), value("uploads"), value("uploadId")) {
        ("PUT", None, None) => put(world, key, request),
        ("POST", Some(_), None) => begin(world, key),
        ("PUT", None, Some(id)) => part(world, id, value("partNumber").unwrap().parse().unwrap(), request),
        ("POST", None, Some(id)) => finish(world, id, &String::from_utf8_lossy(&request.body)),
        ("DELETE", None, Some(id)) => match world.uploads.lock().remove(id) {
            Some(_) => Reply::status(204),
            None => xml_error(404, "NoSuchUpload"),
        },
        _ => xml_error(405, "MethodNotAllowed"),
    }
}

fn put(world: &World, key: &str, request: &Request) -> Reply {
    world.received.fetch_add(request.body.len() as u64, Ordering::SeqCst);
    world.put(key, &request.body);
    Reply::status(200).with("etag", &format!("\"{}\"", world.get(key).unwrap().etag))
}

fn begin(world: &World, key: &str) -> Reply {
    let mut uploads = world.uploads.lock();
    let id = format!("upload-{}-{}", uploads.len(), world.requests.load(Ordering::SeqCst));
    uploads.insert(id.clone(), Upload { key: key.to_owned(), parts: BTreeMap::new() });
    let body = format!(
        "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
    );
    Reply::status(200).body(body.as_bytes())
}

fn part(world: &World, id: &str, number: u32, request: &Request) -> Reply {
    let mut uploads = world.uploads.lock();
    let Some(upload) = uploads.get_mut(id) else { return xml_error(404, "NoSuchUpload") };
    world.received.fetch_add(request.body.len() as u64, Ordering::SeqCst);
    let tag = format!("part-{number}-{}", request.body.len());
    upload.parts.insert(number, (request.body.clone(), tag.clone()));
    Reply::status(200).with("etag", &format!("\"{tag}\""))
}

/// Puts the parts that the request names, by number and tag, together.
fn finish(world: &World, id: &str, request: &str) -> Reply {
    let Some(upload) = world.uploads.lock().get(id).cloned() else { return xml_error(404, "NoSuchUpload") };
    let mut body = Vec::new();
    for (number, (bytes, tag)) in &upload.parts {
        let number = format!("<PartNumber>{number}</PartNumber>");
        if !request.contains(&number) || !request.contains(tag.as_str()) {
            return xml_error(400, "InvalidPart");
        }
        body.extend_from_slice(bytes);
    }
    if request.matches("<PartNumber>").count() != upload.parts.len() {
        return xml_error(400, "InvalidPart");
    }
    world.uploads.lock().remove(id);
    world.put(&upload.key, &body);
    let etag = world.get(&upload.key).unwrap().etag;
    let answer =
        format!("<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag></CompleteMultipartUploadResult>");
    Reply::status(200).with("etag", &format!("\"{etag}\"")).body(answer.as_bytes())
}
