//! Alibaba OSS as far as Headrace asks for it, each request only with a right signature (version 1, HMAC-SHA1).

use base64::Engine;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::wire::{Reply, Request};
use super::{ACCESS_KEY, SECRET_KEY, World, s3, xml_error};

/// The parts of a query that are signed; the others (prefix, max-keys) are not.
const SIGNED_QUERY: &[&str] = &[
    "continuation-token",
    "start-after",
    "list-type",
    "acl",
    "uploads",
    "versionId",
    "symlink",
    "uploadId",
    "partNumber",
];

pub fn handle(world: &World, request: &Request) -> Reply {
    match verify(request) {
        Ok(()) => s3::handle_unsigned(world, request),
        Err(code) => xml_error(403, code),
    }
}

/// Whether the request is signed rightly; the protocol's error code if not.
pub fn verify(request: &Request) -> Result<(), &'static str> {
    let authorization =
        request.header("authorization").and_then(|text| text.strip_prefix("OSS ")).ok_or("AccessDenied")?;
    let (key, signature) = authorization.split_once(':').ok_or("InvalidArgument")?;
    if key != ACCESS_KEY {
        return Err("InvalidAccessKeyId");
    }
    // Which query names belong to the resource differs between descriptions of the protocol; a client that signs any
    // of the documented choices with the right key is let in, none with a wrong key.
    let choices = [&[][..], &["continuation-token"][..], SIGNED_QUERY];
    let signed = choices.iter().any(|names| sign(&string_to_sign(request, names)) == signature);
    if signed { Ok(()) } else { Err("SignatureDoesNotMatch") }
}

fn string_to_sign(request: &Request, signed_query: &[&str]) -> String {
    let header = |name: &str| request.header(name).unwrap_or_default();
    let mut oss_headers: Vec<String> = request
        .headers
        .iter()
        .filter(|(name, _)| name.starts_with("x-oss-"))
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();
    oss_headers.sort();
    let mut query: Vec<(String, String)> =
        request.query().into_iter().filter(|(key, _)| signed_query.contains(&key.as_str())).collect();
    query.sort();
    let query: Vec<String> = query
        .iter()
        .map(|(key, value)| if value.is_empty() { key.clone() } else { format!("{key}={value}") })
        .collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    format!(
        "{}\n{}\n{}\n{}\n{}{}{query}",
        request.method,
        header("content-md5"),
        header("content-type"),
        header("date"),
        oss_headers.concat(),
        request.decoded_path(),
    )
}

fn sign(text: &str) -> String {
    let mut mac = Hmac::<Sha1>::new_from_slice(SECRET_KEY.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes())
}
