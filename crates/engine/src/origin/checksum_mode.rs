//! Checksums that S3 tells only when it is asked: by the header `x-amz-checksum-mode`, which must be signed.
//!
//! OpenDAL's service cannot be given a header, and signs before the wire gets the request. So the request is signed once
//! more, by the keys that the service signs with: they are seen as they go by. Knows nothing of keys and buckets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{AUTHORIZATION, HOST, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode};
use opendal::Buffer;
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::{Context, ProvideCredential, ProvideCredentialChain, SignRequest};

use crate::sync::Mutex;

const MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");
const ENABLED: HeaderValue = HeaderValue::from_static("ENABLED");
/// What a signature brings along, and is made anew with it.
const SIGNED_ALONG: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-amz-date"), HeaderName::from_static("x-amz-security-token")];

/// How one origin is asked for checksums.
#[derive(Clone)]
pub(super) struct ChecksumMode(Arc<State>);

struct State {
    /// `None`: requests are not signed.
    signing: Option<(RequestSigner, Keys)>,
    refused: AtomicBool,
}

/// The keys that a service last loaded, wherever they come from.
#[derive(Clone, Default)]
pub(super) struct Keys(Arc<Mutex<Option<Credential>>>);

impl ChecksumMode {
    pub fn anonymous() -> Self {
        ChecksumMode(Arc::new(State { signing: None, refused: AtomicBool::new(false) }))
    }

    pub fn signed(region: &str, keys: Keys) -> Self {
        let signer = RequestSigner::new("s3", region);
        ChecksumMode(Arc::new(State { signing: Some((signer, keys)), refused: AtomicBool::new(false) }))
    }

    /// The request with the question in it; `None` where it is not to be asked, or cannot be signed.
    pub async fn ask(&self, request: &Request<Buffer>) -> Option<Request<Buffer>> {
        if self.0.refused.load(Ordering::Relaxed) {
            return None;
        }
        let (mut parts, body) = request.clone().into_parts();
        parts.headers.insert(MODE, ENABLED);
        if let Some((signer, keys)) = &self.0.signing {
            sign(&mut parts, signer, &keys.last()?).await?;
        }
        Some(Request::from_parts(parts, body))
    }

    /// The storage refused the question and answered the same request without it: it is not asked again.
    pub fn give_up(&self) {
        if !self.0.refused.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "the storage refuses to be asked for checksums (x-amz-checksum-mode); it is not asked any more"
            );
        }
    }
}

/// True for answers that may be about the header, and not about the object or the load.
pub(super) fn may_refuse_header(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 401 | 403 | 405 | 501)
}

async fn sign(parts: &mut Parts, signer: &RequestSigner, keys: &Credential) -> Option<()> {
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

    fn last(&self) -> Option<Credential> {
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
