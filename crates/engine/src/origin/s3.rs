//! S3 and everything that speaks its protocol: OpenDAL's service with our options, and where its credentials come from.

use std::sync::Arc;

use opendal::Builder;
use opendal::raw::Servicer;
use opendal::services::S3;
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, StaticCredentialProvider};
use reqsign_core::ProvideCredentialChain;

use crate::checksum::Checksum;
use crate::config::OriginConfig;
use crate::error::{Error, Result};
use crate::origin::bucket::{Bucket, Told, folder_prefix};
use crate::origin::checksum_mode::{ChecksumMode, Keys};
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

const AWS: &str = "https://s3.amazonaws.com";
/// What the names of directory buckets (S3 Express One Zone) end with.
const DIRECTORY_BUCKET: &str = "--x-s3";
const DEFAULT_REGION: &str = "us-east-1";
const PAYS: &str = "if whoever asks is to pay for it, say so by the option requester-pays";
const KEY_NAMES: &str = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the options for access key and secret key)";

pub(super) fn build(config: &OriginConfig, pace: Pace) -> Result<Bucket> {
    let keys = Keys::default();
    let (remote, prefix) = connect(config, &pace, &keys)?;
    let directory = remote.place.bucket.as_deref().is_some_and(is_directory_bucket);
    let told = if directory {
        Told { by: Checksum::of_directory_bucket, mode: None }
    } else {
        Told { by: Checksum::of_s3, mode: Some(mode(config, keys)) }
    };
    let ignored = matches!(config, OriginConfig::S3 { ignore_checksums: true, .. });
    Ok(Bucket::new(remote, &prefix, pace, (!ignored).then_some(told)))
}

/// Requests to those are signed by keys of a session, which the service keeps to itself.
fn is_directory_bucket(bucket: &str) -> bool {
    bucket.ends_with(DIRECTORY_BUCKET)
}

fn mode(config: &OriginConfig, keys: Keys) -> ChecksumMode {
    match config {
        OriginConfig::S3 { anonymous: false, region, .. } => ChecksumMode::signed(region_or_default(region), keys),
        _ => ChecksumMode::anonymous(),
    }
}

fn region_or_default(region: &Option<String>) -> &str {
    region.as_deref().filter(|region| !region.is_empty()).unwrap_or(DEFAULT_REGION)
}

/// The service that the configuration describes, and the prefix that it names. What it signs with will be in `keys`.
pub(super) fn connect(config: &OriginConfig, pace: &Pace, keys: &Keys) -> Result<(Remote, String)> {
    connect_as(config, pace, keys, false)
}

/// The same to write by, whose uploads carry checksums that the storage compares.
pub(super) fn connect_to_write(config: &OriginConfig, pace: &Pace) -> Result<(Remote, String)> {
    connect_as(config, pace, &Keys::default(), true)
}

fn connect_as(config: &OriginConfig, pace: &Pace, keys: &Keys, sums: bool) -> Result<(Remote, String)> {
    let OriginConfig::S3 { bucket, prefix, endpoint, region, anonymous, requester_pays, .. } = config else {
        return Err(Error::config("not the configuration of an S3 origin"));
    };
    if bucket.is_empty() {
        return Err(Error::config("the S3 origin has no bucket").with_hint("write s3://BUCKET/PREFIX"));
    }
    let written = endpoint.as_deref().unwrap_or(AWS);
    let endpoint = Endpoint::parse(written)?;
    let place = OriginNames {
        name: format!("s3://{bucket}/{}@{}", folder_prefix(prefix).trim_end_matches('/'), endpoint.host()).into(),
        endpoint: endpoint.shown(written),
        bucket: Some(bucket.clone()),
        credential_hint: KEY_NAMES,
        denied_hint: (!requester_pays).then_some(PAYS),
    };
    let encoding = if is_directory_bucket(bucket) {
        KeyEncoding::never()
    } else if *anonymous {
        KeyEncoding::anonymous()
    } else {
        KeyEncoding::of_s3(region_or_default(region), keys.clone())
    };
    let wire = Wire::new(&endpoint, Redirects::OwnHost, pace.concurrency, pace.silence)?.of_bucket(encoding);
    let (named, keys, scheme) = (place.clone(), keys.clone(), UnsaidScheme::of(written, &place));
    let service = Service::new(config, scheme, move |config| make(config, &named, &keys, sums))?;
    Ok((Remote { service, wire, place }, prefix.clone()))
}

fn make(config: &OriginConfig, place: &OriginNames, keys: &Keys, sums: bool) -> Result<Servicer> {
    let OriginConfig::S3 { bucket, endpoint, region, path_style, anonymous, requester_pays, .. } = config else {
        return Err(Error::config("not the configuration of an S3 origin"));
    };
    let endpoint = Endpoint::parse(endpoint.as_deref().unwrap_or(AWS))?;
    let mut builder =
        S3::default().root("/").bucket(bucket).endpoint(endpoint.as_str()).region(region_or_default(region));
    if !path_style {
        builder = builder.enable_virtual_host_style();
    }
    if *requester_pays {
        builder = builder.enable_request_payer();
    }
    if sums {
        // The one of those that every version of the protocol knows for whole files and for parts.
        builder = builder.checksum_algorithm("crc32c");
    }
    builder = if *anonymous {
        builder.skip_signature()
    } else {
        builder.credential_provider_chain(keys.of(credentials(config)?))
    };
    Ok(Arc::new(builder.build().map_err(|error| build_error(place, &error))?))
}

/// Where the keys come from: the configuration, or else whatever AWS knows (environment, files, roles of the machine).
fn credentials(config: &OriginConfig) -> Result<ProvideCredentialChain<Credential>> {
    let chain = ProvideCredentialChain::new();
    let OriginConfig::S3 { access_key_id, secret_access_key, session_token, .. } = config else { return Ok(chain) };
    let Some((key, secret)) = both_keys(access_key_id, secret_access_key)? else {
        let found = DefaultCredentialProvider::builder();
        // Anywhere but on EC2 nothing answers at the metadata address, and each try would cost a second.
        return Ok(chain.push(if runs_on_ec2() { found } else { found.no_imds() }.build()));
    };
    let given = StaticCredentialProvider::new(key.expose(), secret.expose());
    Ok(chain.push(match session_token {
        Some(token) => given.with_session_token(token.expose()),
        None => given,
    }))
}

/// What the machine's firmware says of itself.
fn runs_on_ec2() -> bool {
    let reads = |path: &str| std::fs::read_to_string(path).unwrap_or_default().to_lowercase();
    reads("/sys/class/dmi/id/sys_vendor").starts_with("amazon")
        || reads("/sys/class/dmi/id/bios_vendor").starts_with("amazon")
        || reads("/sys/hypervisor/uuid").starts_with("ec2")
}
