//! Keys in listings that XML cannot hold: control characters, and what a server's own writer of XML fails on. They come
//! when a listing is asked for with `encoding-type=url`.
//!
//! OpenDAL's services cannot be given a parameter. S3 signs all of them, so the request is signed once more, as for
//! checksums (`checksum_mode`); OSS signs this one not. Knows nothing of pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Uri};
use opendal::Buffer;
use reqsign_aws_v4::RequestSigner;

use crate::origin::checksum_mode::{Keys, sign};

const PARAMETER: &str = "encoding-type=url";

/// How one bucket is asked to encode the keys that it lists.
#[derive(Clone)]
pub(super) struct KeyEncoding(Arc<State>);

struct State {
    signing: Signing,
    /// Where to go on is told encoded, too.
    encodes_tokens: bool,
    refused: AtomicBool,
}

enum Signing {
    /// Signed in a way that cannot be repeated: the bucket is not asked.
    Foreign,
    /// The parameter is no part of what is signed.
    Apart,
    Anew(RequestSigner, Keys),
}

impl KeyEncoding {
    /// Not to be asked for.
    pub fn never() -> Self {
        Self::new(Signing::Foreign, false)
    }

    /// Of a bucket of S3 that is asked without a signature.
    pub fn anonymous() -> Self {
        Self::new(Signing::Apart, false)
    }

    pub fn of_s3(region: &str, keys: Keys) -> Self {
        Self::new(Signing::Anew(RequestSigner::new("s3", region), keys), false)
    }

    pub fn of_oss() -> Self {
        Self::new(Signing::Apart, true)
    }

    fn new(signing: Signing, encodes_tokens: bool) -> Self {
        KeyEncoding(Arc::new(State { signing, encodes_tokens, refused: AtomicBool::new(false) }))
    }

    /// Where keys are encoded, so is the place where the listing goes on.
    pub fn encodes_tokens(&self) -> bool {
        self.0.encodes_tokens
    }

    /// The request with the parameter; `None` where it is not to be asked for, or cannot be signed.
    pub async fn ask(&self, request: &Request<Buffer>) -> Option<Request<Buffer>> {
        if self.0.refused.load(Ordering::Relaxed) {
            return None;
        }
        let (mut parts, body) = request.clone().into_parts();
        parts.uri = with_parameter(&parts.uri)?;
        match &self.0.signing {
            Signing::Foreign => return None,
            Signing::Apart => {}
            Signing::Anew(signer, keys) => sign(&mut parts, signer, &keys.last()?).await?,
        }
        Some(Request::from_parts(parts, body))
    }

    /// The storage refused the parameter and answered the same request without it: it is not asked again.
    pub fn give_up(&self) {
        if !self.0.refused.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "the storage refuses to encode the keys that it lists (encoding-type); they are taken as told"
            );
        }
    }
}

fn with_parameter(address: &Uri) -> Option<Uri> {
    let joint = if address.query().is_some() { '&' } else { '?' };
    format!("{address}{joint}{PARAMETER}").parse().ok()
}
