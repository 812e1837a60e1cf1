//! S3 as far as Headrace asks for it: listing version 2, GET and HEAD, each only with a right signature (version 4).

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::wire::{Reply, Request};
use super::{ACCESS_KEY, BUCKET, SECRET_KEY, World, list_page, object_reply, writing, xml_error};

pub fn handle(world: &World, request: &Request) -> Reply {
    if let Err(code) = verify(request) {
        return xml_error(403, code);
    }
    handle_unsigned(world, request)
}

/// The same without asking for a signature.
pub fn handle_unsigned(world: &World, request: &Request) -> Reply {
    let path = request.decoded_path();
    let (bucket, key) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    if bucket != BUCKET {
        return xml_error(404, "NoSuchBucket");
    }
    if key.is_empty() {
        return list_page(world, request);
    }
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return writing::handle(world, key, request);
    }
    match world.get(key) {
        Some(stored) => object_reply(request, &stored, true),
        None => xml_error(404, "NoSuchKey"),
    }
}

/// Whether the request is signed rightly; the protocol's error code if not.
pub fn verify(request: &Request) -> Result<(), &'static str> {
    let authorization = request.header("authorization").ok_or("AccessDenied")?;
    let field = |name: &str| {
        let start = authorization.find(&format!("{name}=")).ok_or("AccessDenied")? + name.len() + 1;
        Ok::<_, &'static str>(authorization[start..].split([',', ' ']).next().unwrap_or_default().to_owned())
    };
    let credential = field("Credential")?;
    let mut scope = credential.split('/');
    if scope.next() != Some(ACCESS_KEY) {
        return Err("InvalidAccessKeyId");
    }
    let scope: Vec<&str> = scope.collect();
    let signed_headers = field("SignedHeaders")?;
    let is_signed = |name: &str| !name.starts_with("x-amz-") || signed_headers.split(';').any(|signed| signed == name);
    if !request.headers.iter().all(|(name, _)| is_signed(name)) {
        // What S3 says of headers of its own that are not signed.
        return Err("AccessDenied");
    }
    let canonical = canonical_request(request, &signed_headers);
    let date = request.header("x-amz-date").ok_or("AccessDenied")?;
    let hash = hex(&Sha256::digest(canonical.as_bytes()));
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{}\n{hash}", scope.join("/"));
    let mut key = format!("AWS4{SECRET_KEY}").into_bytes();
    for part in &scope {
        key = hmac(&key, part.as_bytes());
    }
    if hex(&hmac(&key, to_sign.as_bytes())) == field("Signature")? { Ok(()) } else { Err("SignatureDoesNotMatch") }
}

/// From the request line as it came: a client may not sign another spelling than it sends.
fn canonical_request(request: &Request, signed_headers: &str) -> String {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let with_value = |pair: &str| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") };
    let mut query: Vec<String> = query.split('&').filter(|pair| !pair.is_empty()).map(with_value).collect();
    query.sort();
    let mut headers = String::new();
    for name in signed_headers.split(';') {
        headers += &format!("{name}:{}\n", request.header(name).unwrap_or_default());
    }
    let payload = request.header("x-amz-content-sha256").unwrap_or("UNSIGNED-PAYLOAD");
    format!("{}\n{path}\n{}\n{headers}\n{signed_headers}\n{payload}", request.method, query.join("&"))
}

fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
