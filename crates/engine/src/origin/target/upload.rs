//! One file on its way into a bucket: OpenDAL's writer builds and signs the requests, and this transport sends them.
//!
//! The transport is where an upload outlives its process: it tells `Notes` of the upload's id and of each part that the
//! bucket has taken, before the next request; and when an upload is gone on with, it answers OpenDAL's requests for what
//! was done before by itself, from the notes, so that no byte is sent twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use opendal::raw::Operation;
use opendal::{Buffer, HttpBody, HttpTransport, HttpTransporter, OperationContext};

use super::{Begun, Notes};
use crate::origin::fault::{Cause, Fault, Refusal};
use crate::origin::version::bare_tag;
use crate::origin::wire::Wire;
use crate::sync::Mutex;

/// An answer to a write is a small document.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// A link slower than this is taken to be broken while a part is sent.
const SLOWEST_BYTES_PER_S: u64 = 128 << 10;

/// What is known of one upload.
pub(super) struct Upload {
    known: Mutex<Begun>,
    /// Parts that were there before this process began.
    before: usize,
    notes: Arc<dyn Notes>,
}

impl Upload {
    pub fn new(begun: Begun, notes: Arc<dyn Notes>) -> Arc<Self> {
        Arc::new(Upload { before: begun.parts.len(), known: Mutex::new(begun), notes })
    }

    /// The same upload with what is known of it by now, for a writer that begins anew.
    pub fn gone_on_with(&self) -> Arc<Self> {
        Self::new(self.known.lock().clone(), self.notes.clone())
    }

    /// How many parts need not be sent again.
    pub fn before(&self) -> usize {
        self.before
    }

    /// How many parts the bucket has taken, now and before.
    pub fn taken(&self) -> usize {
        self.known.lock().parts.len()
    }

    /// A context for OpenDAL's writer whose requests go through this upload.
    pub fn context(self: &Arc<Self>, wire: &Wire) -> OperationContext {
        let transport = Transport { wire: wire.clone(), upload: self.clone() };
        OperationContext::new().with_http_transport(HttpTransporter::new(transport))
    }

    /// The answer to a request for something that was done before.
    fn known_answer(&self, step: Step) -> Option<Response<HttpBody>> {
        let known = self.known.lock();
        match step {
            Step::Begin if !known.token.is_empty() => Some(begin_answer(&known.token)),
            Step::Part(number) if number < self.before => part_answer(known.parts.get(number)?),
            _ => None,
        }
    }

    /// Notes what an answer tells.
    fn note(&self, step: Step, answer: &Response<Bytes>) -> Result<(), Fault> {
        let garbled = || Fault::from(Cause::Garbled);
        match step {
            Step::Begin => {
                let token = upload_id(answer.body()).ok_or_else(garbled)?;
                self.notes.begun(&token);
                self.known.lock().token = token;
            }
            Step::Part(number) => {
                let tag = answer.headers().get(http::header::ETAG).ok_or_else(garbled)?;
                let tag = String::from_utf8(bare_tag(tag.as_bytes()).into()).map_err(|_| garbled())?;
                self.notes.kept(number as u32, &tag);
                let mut known = self.known.lock();
                known.parts.truncate(number);
                known.parts.push(tag);
            }
            Step::Finish | Step::Other => {}
        }
        Ok(())
    }
}

/// What a request of OpenDAL's writer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    /// Counted from 0.
    Part(usize),
    Finish,
    /// A whole file at once, or the end of an upload.
    Other,
}

impl Step {
    fn of(request: &Request<Buffer>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let begins = query.split('&').any(|pair| pair == "uploads" || pair == "uploads=");
        match *request.method() {
            Method::POST if begins => Step::Begin,
            Method::POST if value("uploadId").is_some() => Step::Finish,
            Method::PUT => match value("partNumber").and_then(|number| number.parse::<usize>().ok()) {
                Some(number) if number > 0 => Step::Part(number - 1),
                _ => Step::Other,
            },
            _ => Step::Other,
        }
    }
}

struct Transport {
    wire: Wire,
    upload: Arc<Upload>,
}

impl HttpTransport for Transport {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        if request.extensions().get::<Operation>().is_none() {
            return self.wire.credential(request).await.map_err(Fault::into_opendal);
        }
        self.operation(request).await.map_err(Fault::into_opendal)
    }
}

impl Transport {
    async fn operation(&self, request: Request<Buffer>) -> Result<Response<HttpBody>, Fault> {
        let step = Step::of(&request);
        if let Some(answer) = self.upload.known_answer(step) {
            return Ok(answer);
        }
        let patience = self.wire.silence + Duration::from_secs(request.body().len() as u64 / SLOWEST_BYTES_PER_S);
        let answer = self.wire.send(request, patience).await?;
        if !answer.status().is_success() {
            return Err(self.wire.refusal(answer).await);
        }
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = self.wire.whole_body(answer, MAX_ANSWER_BYTES).await?;
        if step == Step::Finish && says_error(&body) {
            // S3 begins its answer before it has put the parts together, and tells a failure in the body.
            let fault = Fault::of_refusal(StatusCode::INTERNAL_SERVER_ERROR, &headers, &body);
            return Err(gone_if_so(fault));
        }
        let mut whole = Response::new(body);
        *whole.status_mut() = status;
        *whole.headers_mut() = headers;
        self.upload.note(step, &whole)?;
        Ok(whole.map(body_of))
    }
}

/// A refusal by its code, where the status was that of success.
fn gone_if_so(fault: Fault) -> Fault {
    match fault.cause {
        Cause::Refused(refusal) if refusal.code == "NoSuchUpload" => {
            Cause::Refused(Refusal { status: 404, ..refusal }).into()
        }
        cause => cause.into(),
    }
}

fn says_error(body: &[u8]) -> bool {
    body.windows(6).any(|window| window == b"<Error")
}

/// The text of `<UploadId>`: an opaque word without markup.
fn upload_id(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("<UploadId>")?;
    let (id, _) = rest.split_once("</UploadId>")?;
    let id = id.trim();
    let plain = !id.is_empty() && id.len() <= 1024 && id.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    (plain && !id.contains(['<', '&'])).then(|| id.to_owned())
}

fn begin_answer(token: &str) -> Response<HttpBody> {
    let body = format!(
        "<InitiateMultipartUploadResult><Bucket/><Key/><UploadId>{token}</UploadId></InitiateMultipartUploadResult>"
    );
    Response::new(body_of(Bytes::from(body)))
}

fn part_answer(tag: &str) -> Option<Response<HttpBody>> {
    let mut answer = Response::new(body_of(Bytes::new()));
    answer.headers_mut().insert(http::header::ETAG, HeaderValue::from_str(&format!("\"{tag}\"")).ok()?);
    Some(answer)
}

fn body_of(bytes: Bytes) -> HttpBody {
    let pieces = if bytes.is_empty() { Vec::new() } else { vec![Ok(Buffer::from(bytes))] };
    HttpBody::new(futures::stream::iter(pieces), None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn step(method: Method, uri: &str) -> Step {
        Step::of(&Request::builder().method(method).uri(uri).body(Buffer::new()).unwrap())
    }

    #[test]
    fn requests_are_known_by_their_query() {
        assert_eq!(step(Method::POST, "http://h/b/k?uploads"), Step::Begin);
        assert_eq!(step(Method::PUT, "http://h/b/k?partNumber=3&uploadId=x"), Step::Part(2));
        assert_eq!(step(Method::POST, "http://h/b/k?uploadId=x"), Step::Finish);
        assert_eq!(step(Method::PUT, "http://h/b/k"), Step::Other);
        assert_eq!(step(Method::DELETE, "http://h/b/k?uploadId=x"), Step::Other);
    }

    #[test]
    fn an_upload_id_is_one_plain_word() {
        assert_eq!(upload_id(b"<R><UploadId>a-b</UploadId></R>").as_deref(), Some("a-b"));
        for bad in [
            &b"<UploadId></UploadId>"[..],
            b"<UploadId>a b</UploadId>",
            b"<UploadId>a",
            b"\xff",
            b"<UploadId>&amp;</UploadId>",
        ] {
            assert_eq!(upload_id(bad), None);
        }
    }
}
