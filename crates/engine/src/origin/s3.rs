//! S3 and everything that speaks its protocol: OpenDAL's service with our options, and where its credentials come from.

use std::sync::Arc;

use opendal::Builder;
use opendal::services::S3;

use crate::checksum::Checksum;
use crate::config::OriginConfig;
use crate::error::{Error, Result};
use crate::origin::bucket::{Bucket, folder_prefix};
use crate::origin::endpoint::Endpoint;
use crate::origin::pace::Pace;
use crate::origin::place::Place;
use crate::origin::remote::Remote;
use crate::origin::wire::Wire;
use crate::origin::{both_keys, build_error};

const AWS: &str = "https://s3.amazonaws.com";
/// What the names of directory buckets (S3 Express One Zone) end with.
const DIRECTORY_BUCKET: &str = "--x-s3";
const DEFAULT_REGION: &str = "us-east-1";
const KEY_NAMES: &str = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the options for access key and secret key)";

pub(super) fn build(config: &OriginConfig, pace: Pace) -> Result<Bucket> {
    let (remote, prefix) = connect(config, &pace)?;
    let directory = remote.place.bucket.as_ref().is_some_and(|bucket| bucket.ends_with(DIRECTORY_BUCKET));
    let told = if directory { Checksum::of_directory_bucket } else { Checksum::of_s3 };
    let ignored = matches!(config, OriginConfig::S3 { ignore_checksums: true, .. });
    Ok(Bucket::new(remote, &prefix, pace, (!ignored).then_some(told)))
}

/// The service that the configuration describes, and the prefix that it names.
pub(super) fn connect(config: &OriginConfig, pace: &Pace) -> Result<(Remote, String)> {
    let OriginConfig::S3 { bucket, prefix, endpoint, region, path_style, anonymous, .. } = config else {
        return Err(Error::config("not the configuration of an S3 origin"));
    };
    if bucket.is_empty() {
        return Err(Error::config("the S3 origin has no bucket").with_hint("write s3://BUCKET/PREFIX"));
    }
    let endpoint = Endpoint::parse(endpoint.as_deref().unwrap_or(AWS))?;
    let mut builder = S3::default()
        .root("/")
        .bucket(bucket)
        .endpoint(endpoint.as_str())
        .region(region.as_deref().filter(|region| !region.is_empty()).unwrap_or(DEFAULT_REGION));
    if !path_style {
        builder = builder.enable_virtual_host_style();
    }
    builder = if *anonymous { builder.skip_signature() } else { with_credentials(builder, config)? };
    let place = Place {
        name: format!("s3://{bucket}/{}@{}", folder_prefix(prefix).trim_end_matches('/'), endpoint.host()).into(),
        endpoint: endpoint.as_str().to_owned(),
        bucket: Some(bucket.clone()),
        credential_hint: KEY_NAMES,
    };
    let service = builder.build().map_err(|error| build_error(&place, &error))?;
    let wire = Wire::new(endpoint.url(), pace.concurrency, pace.silence)?;
    Ok((Remote { service: Arc::new(service), wire, place }, prefix.clone()))
}

fn with_credentials(builder: S3, config: &OriginConfig) -> Result<S3> {
    let OriginConfig::S3 { access_key_id, secret_access_key, session_token, .. } = config else { return Ok(builder) };
    let Some((key, secret)) = both_keys(access_key_id, secret_access_key)? else {
        // Anywhere but on EC2 nothing answers at the metadata address, and each try would cost a second.
        return Ok(if runs_on_ec2() { builder } else { builder.disable_ec2_metadata() });
    };
    let builder = builder.access_key_id(key.expose()).secret_access_key(secret.expose());
    let builder = builder.disable_config_load().disable_ec2_metadata();
    Ok(match session_token {
        Some(token) => builder.session_token(token.expose()),
        None => builder,
    })
}

/// What the machine's firmware says of itself.
fn runs_on_ec2() -> bool {
    let reads = |path: &str| std::fs::read_to_string(path).unwrap_or_default().to_lowercase();
    reads("/sys/class/dmi/id/sys_vendor").starts_with("amazon")
        || reads("/sys/class/dmi/id/bios_vendor").starts_with("amazon")
        || reads("/sys/hypervisor/uuid").starts_with("ec2")
}
