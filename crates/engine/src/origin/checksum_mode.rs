//! Facts that S3 tells only when it is asked: checksums, by the header `x-amz-checksum-mode`, and the parts that an
//! object was uploaded in, by the parameter `partNumber`. Either must be signed.
//!
//! OpenDAL's service cannot be given a header, and signs before the wire gets the request. So the request is signed once
//! more, by the keys that the service signs with: they are seen as they go by. Knows nothing of keys and buckets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{AUTHORIZATION, HOST, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode, Uri};
use opendal::Buffer;
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::{Context, ProvideCredential, ProvideCredentialChain, SignRequest};

use crate::sync::Mutex;

const MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");
const ENABLED: HeaderValue = HeaderValue::from_static("ENABLED");
/// What a signature brings along, and is made anew with it.
const SIGNED_ALONG: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-amz-date"), HeaderName::from_static("x-amz-security-token")];

/// How one origin is asked for checksums, or for one part.
#[derive(Clone)]
pub(super) struct ChecksumMode {
    state: Arc<State>,
    /// The part that is asked for; `None`: the checksum is.
    part: Option<u32>,
}

struct State {
    /// `None`: requests are not signed.
    signing: Option<(RequestSigner, Keys)>,
    refused: AtomicBool,
    /// The storage tells nothing of parts.
    partless: AtomicBool,
}

/// The keys that a service last loaded, wherever they come from.
#[derive(Clone, Default)]
pub(super) struct Keys(Arc<Mutex<Option<Credential>>>);

impl ChecksumMode {
    pub fn anonymous() -> Self {
        Self::of(None)
    }

    pub fn signed(region: &str, keys: Keys) -> Self {
        Self::of(Some((RequestSigner::new("s3", region), keys)))
    }

    fn of(signing: Option<(RequestSigner, Keys)>) -> Self {
        let (refused, partless) = (AtomicBool::new(false), AtomicBool::new(false));
        ChecksumMode { state: Arc::new(State { signing, refused, partless }), part: None }
    }

    /// The question for part `number` in place of that for the checksum; `None` where it is not to be asked.
    pub fn of_part(&self, number: u32) -> Option<Self> {
        let mode = ChecksumMode { state: self.state.clone(), part: Some(number) };
        (!mode.is_refused()).then_some(mode)
    }

    /// The storage has been found not to answer the question.
    fn is_refused(&self) -> bool {
        self.flag().load(Ordering::Relaxed)
    }

    /// The request with the question in it; `None` where it is not to be asked, or cannot be signed.
    pub async fn ask(&self, request: &Request<Buffer>) -> Option<Request<Buffer>> {
        if self.is_refused() {
            return None;
        }
        let (mut parts, body) = request.clone().into_parts();
        match self.part {
            None => drop(parts.headers.insert(MODE, ENABLED)),
            Some(number) => parts.uri = with_part_number(&parts.uri, number)?,
        }
        if let Some((signer, keys)) = &self.state.signing {
            sign(&mut parts, signer, &keys.last()?).await?;
        }
        Some(Request::from_parts(parts, body))
    }

    /// The storage refused the question and answered the same request without it, or answered as if it had not been asked:
    /// it is not asked again.
    pub fn give_up(&self) {
        if self.flag().swap(true, Ordering::Relaxed) {
            return;
        }
        match self.part {
            None => tracing::info!(
                "the storage refuses to be asked for checksums (x-amz-checksum-mode); it is not asked any more"
            ),
            Some(_) => {
                tracing::info!("the storage does not tell the parts of objects (partNumber); it is not asked any more");
            }
        }
    }

    fn flag(&self) -> &AtomicBool {
        if self.part.is_some() { &self.state.partless } else { &self.state.refused }
    }
}

fn with_part_number(uri: &Uri, number: u32) -> Option<Uri> {
    let join = if uri.query().is_some() { '&' } else { '?' };
    format!("{uri}{join}partNumber={number}").parse().ok()
}

/// True for answers that may be about the question, and not about the object or the load.
pub(super) fn may_refuse_header(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 401 | 403 | 405 | 501)
}

/// Signs the request anew, with all that it has now.
pub(super) async fn sign(parts: &mut Parts, signer: &RequestSigner, keys: &Credential) -> Option<()> {
    for name in SIGNED_ALONG {
        parts.headers.remove(name);
    }
    signer.sign_request(&Context::new(), parts, Some(keys), None).await.ok()?;
    // The client writes it, as it does for the service's own requests.
    parts.headers.remove(HOST);
    Some(())
}

impl Keys {
    /// `chain`, whose keys are remembered here.
    pub fn of(&self, chain: ProvideCredentialChain<Credential>) -> ProvideCredentialChain<Credential> {
        ProvideCredentialChain::new().push(Watched { chain, keys: self.clone() })
    }

    pub(super) fn last(&self) -> Option<Credential> {
        self.0.lock().clone()
    }
}

struct Watched {
    chain: ProvideCredentialChain<Credential>,
    keys: Keys,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl ProvideCredential for Watched {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> reqsign_core::Result<Option<Credential>> {
        let found = self.chain.provide_credential(context).await?;
        self.keys.0.lock().clone_from(&found);
        Ok(found)
    }
}
