//! The one HTTP client under every remote protocol: OpenDAL builds and signs requests, the wire sends them.
//!
//! It keeps what OpenDAL would flatten (status, headers, the raw page of a listing) and turns every failure into a
//! typed `Fault` before anything can print a body or a URL. It knows nothing of keys, buckets or objects.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderMap, Request, Response, StatusCode};
use opendal::raw::Operation;
use opendal::{Buffer, HttpBody, HttpTransport, HttpTransporter, OperationContext};
use tokio_rustls::rustls::crypto::ring;

use crate::error::{Error, Result};
use crate::origin::checksum_mode::{ChecksumMode, may_refuse_header};
use crate::origin::endpoint::Endpoint;
use crate::origin::fault::{Cause, Fault};
use crate::origin::key_encoding::KeyEncoding;
use crate::origin::machine_addresses::{Lookup, is_of_machines};
use crate::origin::proxies::Proxies;
use crate::origin::redirects::Redirects;
use crate::origin::spelling::as_signed;
use crate::sync::Mutex;

/// No page of a listing is larger; what is larger is no page.
const MAX_PAGE_BYTES: usize = 64 << 20;
/// Error bodies are read this far, for their code alone.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
/// A credential service that does not answer by then is taken to be absent.
const CREDENTIAL_TIMEOUT: Duration = Duration::from_secs(4);
/// The metadata address of a cloud answers at once or not at all.
const METADATA_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// Status and headers of an answer, and its body where the whole of it was asked for.
#[derive(Debug, Clone)]
pub(super) struct HttpAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The answer came from an address that ends with a slash: where a file was asked for, it is a folder.
    pub is_folder: bool,
}

impl HttpAnswer {
    /// The header's text, when it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// What is to be kept of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Status and headers; the body streams on to the caller.
    Head,
    /// Everything; OpenDAL sees `Cause::Captured` instead of a body it would misread.
    Whole,
}

/// Sends requests and takes answers for one origin.
#[derive(Clone)]
pub(super) struct Wire {
    client: reqwest::Client,
    proxies: Proxies,
    /// Longest wait for headers, and for the next bytes of a page.
    pub silence: Duration,
    /// Set for buckets, whose requests are spelled as they are signed.
    encoding: Option<KeyEncoding>,
}

impl Wire {
    /// A wire with its own pool of connections. `silence`: longest wait for headers, and for the next bytes of a page.
    /// `redirects`: which hosts the server may send us on to.
    pub fn new(endpoint: &Endpoint, redirects: Redirects, connections: usize, silence: Duration) -> Result<Self> {
        // The cryptography of TLS between workers, too: a second library would double the time of a clean build. Who comes
        // first installs it, for all of this library.
        let _ = ring::default_provider().install_default();
        if endpoint.address().is_some_and(is_of_machines) {
            return Err(Error::config(format!(
                "{} is an address at which machines are told their keys",
                endpoint.host()
            ))
            .with_hint("write the endpoint of a storage server"));
        }
        let mut builder = reqwest::Client::builder()
            .dns_resolver(Arc::new(Lookup))
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT.min(silence))
            .pool_max_idle_per_host(connections.max(1))
            .redirect(redirects.policy(endpoint))
            .referer(false)
            .user_agent(concat!("headrace/", env!("CARGO_PKG_VERSION")));
        let mut proxies = Proxies::of_environment();
        if endpoint.is_loopback() {
            (builder, proxies) = (builder.no_proxy(), Proxies::none());
        }
        let client = builder
            .build()
            .map_err(|_| Error::config("cannot set up TLS: this machine has no usable root certificates"))?;
        Ok(Wire { client, proxies, silence, encoding: None })
    }

    /// The same for the requests of a bucket, whose listings are asked to encode their keys so.
    pub fn of_bucket(self, encoding: KeyEncoding) -> Self {
        Wire { encoding: Some(encoding), ..self }
    }

    /// Where keys are told encoded, the place to go on is, too.
    pub fn encodes_tokens(&self) -> bool {
        self.encoding.as_ref().is_some_and(KeyEncoding::encodes_tokens)
    }

    /// A context for one operation of an OpenDAL service, and the place where its answer will lie afterwards.
    /// `mode`: the answer is asked to tell the object's checksum.
    pub fn context(&self, keep: Keep, mode: Option<ChecksumMode>) -> (OperationContext, AnswerSlot) {
        let slot = AnswerSlot::default();
        let transport = Transport::new(self.clone(), keep, slot.clone(), Extra::of_checksum(mode));
        (OperationContext::new().with_http_transport(HttpTransporter::new(transport)), slot)
    }

    /// A context for one page of a listing, which goes on from `token` if there is one: OpenDAL's listers take no token,
    /// so the first page that they ask for is answered here, and names it.
    pub fn listing_context(&self, token: Option<&str>) -> (OperationContext, AnswerSlot) {
        let slot = AnswerSlot::default();
        let extra = self.encoding.clone().map_or(Extra::Nothing, Extra::KeyEncoding);
        let transport = Transport::new(self.clone(), Keep::Whole, slot.clone(), extra);
        *transport.answered_here.lock() = token.map(page_before);
        (OperationContext::new().with_http_transport(HttpTransporter::new(transport)), slot)
    }

    /// Sends one request; the answer's head must come within `patience`.
    pub async fn send(
        &self,
        request: Request<Buffer>,
        patience: Duration,
    ) -> std::result::Result<reqwest::Response, Fault> {
        let (parts, body) = request.into_parts();
        let address = if self.encoding.is_some() { as_signed(&parts.uri) } else { parts.uri.to_string() };
        let url = reqwest::Url::parse(&address).map_err(|_| Fault::from(Cause::Garbled))?;
        let mut headers = parts.headers;
        headers.entry(http::header::ACCEPT_ENCODING).or_insert(http::HeaderValue::from_static("identity"));
        let request = self.client.request(parts.method, url).headers(headers).body(body.to_bytes());
        let outcome = match tokio::time::timeout(patience, request.send()).await {
            Ok(answer) => answer.map_err(|error| Fault::of_transport(&error)),
            Err(_) => Err(Cause::Silent.into()),
        };
        outcome.map_err(|fault| fault.through(self.proxies.of(&parts.uri)))
    }

    /// The answer's body, which must not be longer than `limit`.
    pub async fn whole_body(&self, answer: reqwest::Response, limit: usize) -> std::result::Result<Bytes, Fault> {
        let mut body = BytesMut::new();
        let mut stream = answer.bytes_stream();
        loop {
            match tokio::time::timeout(self.silence, stream.next()).await {
                Err(_) => return Err(Cause::Silent.into()),
                Ok(None) => return Ok(body.freeze()),
                Ok(Some(Err(error))) => return Err(Fault::of_transport(&error)),
                Ok(Some(Ok(piece))) if body.len() + piece.len() > limit => return Err(Cause::TooLarge.into()),
                Ok(Some(Ok(piece))) => body.extend_from_slice(&piece),
            }
        }
    }

    /// The fault that an answer other than success means.
    pub async fn refusal(&self, answer: reqwest::Response) -> Fault {
        let (status, headers) = (answer.status(), answer.headers().clone());
        let proxy = answer.url().as_str().parse().ok().and_then(|uri| self.proxies.of(&uri));
        let body = self.whole_body(answer, MAX_REFUSAL_BYTES).await.unwrap_or_default();
        Fault::of_refusal(status, &headers, &body).through(proxy)
    }

    /// Asks a credential service (STS, metadata of a cloud) for an operation that needs a signature.
    pub async fn credential(&self, request: Request<Buffer>) -> std::result::Result<Response<HttpBody>, Fault> {
        let metadata = matches!(request.uri().host(), Some("169.254.169.254" | "169.254.170.2" | "100.100.100.200"));
        let patience = if metadata { METADATA_TIMEOUT } else { CREDENTIAL_TIMEOUT };
        self.send(request, patience).await.map(response)
    }
}

/// What a credential service answered, or why it did not, where that gave no keys.
#[derive(Debug, Clone)]
pub(super) struct NoKeys {
    pub host: String,
    pub fault: Fault,
}

/// Where the answer of one operation lies.
#[derive(Clone, Default)]
pub(super) struct AnswerSlot {
    answer: Arc<Mutex<Option<HttpAnswer>>>,
    no_keys: Arc<Mutex<Option<NoKeys>>>,
}

impl AnswerSlot {
    pub fn take(&self) -> Option<HttpAnswer> {
        self.answer.lock().take()
    }

    /// Why the last credential service that was asked gave no keys.
    pub fn no_keys(&self) -> Option<NoKeys> {
        self.no_keys.lock().clone()
    }
}

struct Transport {
    wire: Wire,
    keep: Keep,
    slot: AnswerSlot,
    extra: Extra,
    /// The body that answers the first request, which is not sent.
    answered_here: Mutex<Option<Bytes>>,
}

/// What a request asks for beyond what OpenDAL can be told.
enum Extra {
    Nothing,
    Checksum(ChecksumMode),
    KeyEncoding(KeyEncoding),
}

impl Extra {
    fn of_checksum(mode: Option<ChecksumMode>) -> Self {
        mode.map_or(Extra::Nothing, Extra::Checksum)
    }

    /// The request that asks for it, if it is to be asked for.
    async fn ask(&self, request: &Request<Buffer>) -> Option<Request<Buffer>> {
        match self {
            Extra::Nothing => None,
            Extra::Checksum(mode) => mode.ask(request).await,
            Extra::KeyEncoding(encoding) => encoding.ask(request).await,
        }
    }

    fn give_up(&self) {
        match self {
            Extra::Nothing => {}
            Extra::Checksum(mode) => mode.give_up(),
            Extra::KeyEncoding(encoding) => encoding.give_up(),
        }
    }
}

impl HttpTransport for Transport {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        if let Some(body) = self.page_for(&request) {
            return Ok(Response::new(HttpBody::new(futures::stream::iter([Ok(Buffer::from(body))]), None)));
        }
        // Requests of an operation carry its name; those for credentials (STS, metadata services) do not. WebHDFS
        // names only some of its operations, but signs nothing, so nothing else can be under way there.
        let named = request.extensions().get::<Operation>().is_some();
        if named || request.uri().path().contains("/webhdfs/v1/") {
            self.operation(request).await.map_err(Fault::into_opendal)
        } else {
            self.credential(request).await.map_err(Fault::into_opendal)
        }
    }
}

impl Transport {
    fn new(wire: Wire, keep: Keep, slot: AnswerSlot, extra: Extra) -> Self {
        Transport { wire, keep, slot, extra, answered_here: Mutex::default() }
    }

    /// What is answered here of a listing; requests for credentials go their way.
    fn page_for(&self, request: &Request<Buffer>) -> Option<Bytes> {
        request.extensions().get::<Operation>()?;
        self.answered_here.lock().take()
    }

    async fn credential(&self, request: Request<Buffer>) -> std::result::Result<Response<HttpBody>, Fault> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let outcome = self.wire.credential(request).await;
        let refused = |answer: &Response<HttpBody>| {
            (!answer.status().is_success()).then(|| Fault::of_refusal(answer.status(), answer.headers(), &[]))
        };
        let fault = match &outcome {
            Ok(answer) => refused(answer),
            Err(fault) => Some(fault.clone()),
        };
        *self.slot.no_keys.lock() = fault.map(|fault| NoKeys { host, fault });
        outcome
    }

    async fn operation(&self, request: Request<Buffer>) -> std::result::Result<Response<HttpBody>, Fault> {
        // Whatever a service may want to do of its own accord: origins are only ever read.
        if !matches!(*request.method(), http::Method::GET | http::Method::HEAD) {
            return Err(Cause::Garbled.into());
        }
        let answer = self.exchange(request).await?;
        if !answer.status().is_success() {
            return Err(self.wire.refusal(answer).await);
        }
        let (status, headers) = (answer.status(), answer.headers().clone());
        let is_folder = answer.url().path().ends_with('/');
        let head = HttpAnswer { status, headers, body: Bytes::new(), is_folder };
        if self.keep == Keep::Whole {
            let body = self.wire.whole_body(answer, MAX_PAGE_BYTES).await?;
            *self.slot.answer.lock() = Some(HttpAnswer { body, ..head });
            return Err(Cause::Captured.into());
        }
        *self.slot.answer.lock() = Some(head);
        Ok(response(answer))
    }

    /// Sends the request with what it is to ask for beyond; without it where the storage refuses that.
    async fn exchange(&self, request: Request<Buffer>) -> std::result::Result<reqwest::Response, Fault> {
        let Some(asking) = self.extra.ask(&request).await else {
            return self.wire.send(request, self.wire.silence).await;
        };
        let answer = self.wire.send(asking, self.wire.silence).await?;
        if !may_refuse_header(answer.status()) {
            return Ok(answer);
        }
        let plain = self.wire.send(request, self.wire.silence).await?;
        if plain.status().is_success() {
            self.extra.give_up();
        }
        Ok(plain)
    }
}

/// An empty page that is followed by the one at `token`.
fn page_before(token: &str) -> Bytes {
    let token = quick_xml::escape::escape(token);
    let text = format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>");
    Bytes::from(format!("<ListBucketResult>{text}</ListBucketResult>"))
}

/// The answer as OpenDAL wants it. The length is not handed on: the reader above counts the bytes itself.
fn response(answer: reqwest::Response) -> Response<HttpBody> {
    let mut converted = Response::new(());
    *converted.status_mut() = answer.status();
    *converted.headers_mut() = answer.headers().clone();
    let body =
        answer.bytes_stream().filter(|piece| std::future::ready(!matches!(piece, Ok(bytes) if bytes.is_empty())));
    let body = body.map(|piece| match piece {
        Ok(bytes) => Ok(Buffer::from(bytes)),
        Err(error) => Err(Fault::of_transport(&error).into_opendal()),
    });
    converted.map(|()| HttpBody::new(body, None))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::SocketAddr;

    use reqwest::dns::{Addrs, Name, Resolve, Resolving};

    use super::*;
    use crate::origin::machine_addresses::of_origins;

    #[test]
    fn an_endpoint_that_is_such_an_address_is_refused_before_anything_is_asked() {
        for text in
            ["http://169.254.169.254", "https://[fd00:ec2::254]:8443", "http://2852039166/latest", "[fe80::1]:80"]
        {
            let endpoint = Endpoint::parse(text).unwrap();
            let refused = Wire::new(&endpoint, Redirects::AnyHost, 1, Duration::from_secs(1)).err().unwrap();
            assert!(refused.to_string().contains("machines are told their keys"), "{text}: {refused}");
        }
        let endpoint = Endpoint::parse("http://127.0.0.1:9000").unwrap();
        assert!(Wire::new(&endpoint, Redirects::AnyHost, 1, Duration::from_secs(1)).is_ok());
    }

    struct ToMetadata;

    impl Resolve for ToMetadata {
        fn resolve(&self, _: Name) -> Resolving {
            Box::pin(async {
                Ok(Box::new(of_origins([SocketAddr::from(([169, 254, 169, 254], 0))].into_iter())?.into_iter())
                    as Addrs)
            })
        }
    }

    #[tokio::test]
    async fn the_client_tells_why_it_connected_to_nobody() {
        let _ = ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().dns_resolver(Arc::new(ToMetadata)).build().unwrap();
        let error = client.get("http://data.example/latest/meta-data/").send().await.unwrap_err();
        assert_eq!(Fault::of_transport(&error).cause, Cause::MachineAddress);
    }
}
