//! Alibaba Cloud OSS by its own protocol and signature (header signature, HMAC-SHA1), as OpenDAL's service speaks it.

use std::sync::Arc;

use opendal::Builder;
use opendal::raw::Servicer;
use opendal::services::Oss;

use crate::checksum::Checksum;
use crate::config::OriginConfig;
use crate::error::{Error, Result};
use crate::origin::bucket::{Bucket, Told, folder_prefix};
use crate::origin::endpoint::Endpoint;
use crate::origin::key_encoding::KeyEncoding;
use crate::origin::pace::Pace;
use crate::origin::place::OriginNames;
use crate::origin::redirects::Redirects;
use crate::origin::remote::Remote;
use crate::origin::service::Service;
use crate::origin::unsaid_scheme::UnsaidScheme;
use crate::origin::wire::Wire;
use crate::origin::{both_keys, build_error};

const KEY_NAMES: &str = "fs.oss.accessKeyId and fs.oss.accessKeySecret (or ALIBABA_CLOUD_ACCESS_KEY_ID and \
                         ALIBABA_CLOUD_ACCESS_KEY_SECRET)";

pub(super) fn build(config: &OriginConfig, pace: Pace) -> Result<Bucket> {
    let (remote, prefix) = connect(config, &pace)?;
    let ignored = matches!(config, OriginConfig::Oss { ignore_checksums: true, .. });
    Ok(Bucket::new(remote, &prefix, pace, (!ignored).then_some(Told { by: Checksum::of_oss, mode: None })))
}

/// The service that the configuration describes, and the prefix that it names.
pub(super) fn connect(config: &OriginConfig, pace: &Pace) -> Result<(Remote, String)> {
    let OriginConfig::Oss { bucket, prefix, endpoint, .. } = config else {
        return Err(Error::config("not the configuration of an OSS origin"));
    };
    if bucket.is_empty() {
        return Err(Error::config("the OSS origin has no bucket").with_hint("write oss://BUCKET/PREFIX"));
    }
    let parsed = Endpoint::parse(endpoint)?;
    let place = OriginNames {
        name: format!("oss://{bucket}/{}@{}", folder_prefix(prefix).trim_end_matches('/'), parsed.host()).into(),
        endpoint: parsed.shown(endpoint),
        bucket: Some(bucket.clone()),
        credential_hint: KEY_NAMES,
        denied_hint: None,
    };
    let wire = Wire::new(&parsed, Redirects::OwnHost, pace.concurrency, pace.silence)?.of_bucket(KeyEncoding::of_oss());
    let (named, scheme) = (place.clone(), UnsaidScheme::of(endpoint, &place));
    let service = Service::new(config, scheme, move |config| make(config, &named))?;
    Ok((Remote { service, wire, place }, prefix.clone()))
}

fn make(config: &OriginConfig, place: &OriginNames) -> Result<Servicer> {
    let OriginConfig::Oss { bucket, endpoint, path_style, anonymous, .. } = config else {
        return Err(Error::config("not the configuration of an OSS origin"));
    };
    let builder = Oss::default()
        .root("/")
        .bucket(bucket)
        .endpoint(Endpoint::parse(endpoint)?.as_str())
        .addressing_style(if *path_style { "path" } else { "virtual" });
    let builder = if *anonymous { builder.skip_signature() } else { with_credentials(builder, config)? };
    Ok(Arc::new(builder.build().map_err(|error| build_error(place, &error))?))
}

fn with_credentials(builder: Oss, config: &OriginConfig) -> Result<Oss> {
    let OriginConfig::Oss { access_key_id, access_key_secret, security_token, .. } = config else { return Ok(builder) };
    let Some((key, secret)) = both_keys(access_key_id, access_key_secret)? else { return Ok(builder) };
    let builder = builder.access_key_id(key.expose()).access_key_secret(secret.expose());
    Ok(match security_token {
        Some(token) => builder.security_token(token.expose()),
        None => builder,
    })
}
