//! A web server with index pages, in the manner of nginx.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::wire::{Reply, Request};
use super::{World, object_reply};

pub fn handle(world: &World, request: &Request) -> Reply {
    let path = request.decoded_path();
    let key = &path[1..];
    if key.is_empty() || key.ends_with('/') {
        return index(world, key);
    }
    match world.get(key) {
        Some(stored) => object_reply(request, &stored, true),
        None => Reply::status(404).body(b"<html>Not Found hunter2</html>"),
    }
}

/// The same with links to folders that lack their slash, which are redirected.
pub fn handle_without_slashes(world: &World, request: &Request) -> Reply {
    let path = request.decoded_path();
    let is_folder = world.objects.lock().keys().any(|key| key.starts_with(&format!("{}/", &path[1..])));
    if !path.ends_with('/') && is_folder {
        return Reply::status(301).with("location", &format!("{}/", request.path()));
    }
    let reply = handle(world, request);
    let html = String::from_utf8_lossy(&reply.body).replace("/\">", "\">");
    if path.ends_with('/') { reply.body(html.replace("\"..\"", "\"../\"").as_bytes()) } else { reply }
}

/// The same for a server without ranges, entity tags and conditions, as Python's own is.
pub fn handle_plainly(world: &World, request: &Request) -> Reply {
    let mut request = request.clone();
    request.headers.retain(|(name, _)| name != "range" && name != "if-match");
    let mut reply = handle(world, &request);
    reply.headers.retain(|(name, _)| name != "etag");
    reply
}

fn index(world: &World, folder: &str) -> Reply {
    let objects = world.objects.lock();
    let mut links: Vec<String> = objects
        .keys()
        .filter_map(|key| key.strip_prefix(folder))
        .map(|rest| match rest.split_once('/') {
            Some((name, _)) => format!("{}/", utf8_percent_encode(name, NON_ALPHANUMERIC)),
            None => utf8_percent_encode(rest, NON_ALPHANUMERIC).to_string(),
        })
        .collect();
    links.dedup();
    if links.is_empty() && !folder.is_empty() {
        return Reply::status(404);
    }
    let mut html = String::from("<html><h1>Index</h1><hr><pre><a href=\"../\">../</a>\n<a href=\"?C=M\">by time</a>");
    for link in links {
        html += &format!("<a href=\"{link}\">{link}</a>  01-Jan-2026 00:00  12\n");
    }
    Reply::status(200).with("content-type", "text/html").body(html.as_bytes())
}
