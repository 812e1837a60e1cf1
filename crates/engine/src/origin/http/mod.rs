//! A web server whose folders answer with an index page: names from the pages, sizes and versions from HEAD requests.

mod index;
mod to_do;
mod walk;

use std::sync::Arc;

use async_trait::async_trait;
use opendal::Builder;
use opendal::raw::Servicer;
use opendal::services::Http;
use tokio::sync::mpsc;

use crate::config::OriginConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::origin::bucket::folder_prefix;
use crate::origin::endpoint::Endpoint;
use crate::origin::pace::Pace;
use crate::origin::place::OriginNames;
use crate::origin::redirects::Redirects;
use crate::origin::remote::{Remote, condition, demand_validator, key_text};
use crate::origin::service::Service;
use crate::origin::wire::Wire;
use crate::origin::{
    ByteStream, Capability, Checksums, Exclusion, ListedObject, ObjectVersion, Origin, build_error, promptly,
};

#[derive(Clone)]
pub(super) struct Web {
    remote: Remote,
    /// `http(s)://host[:port]`, and the path of the endpoint if it has one.
    endpoint: Endpoint,
    /// Empty, or the folder without a leading and with a trailing slash.
    folder: String,
    pace: Pace,
}

pub(super) fn build(config: &OriginConfig, pace: Pace) -> Result<Web> {
    let OriginConfig::Http { endpoint, directory, .. } = config else { return Err(not_http()) };
    let endpoint = Endpoint::parse(endpoint)?;
    let folder = folder_prefix(directory);
    let place = OriginNames {
        name: format!("{}/{}", endpoint.as_str(), folder.trim_end_matches('/')).into(),
        endpoint: endpoint.as_str().to_owned(),
        bucket: None,
        credential_hint: "user and password, or the token",
        denied_hint: None,
    };
    let wire = Wire::new(&endpoint, Redirects::AnyHost, pace.concurrency, pace.silence)?;
    let named = place.clone();
    let service = Service::new(config, None, move |config| make(config, &named))?;
    Ok(Web { remote: Remote { service, wire, place }, endpoint, folder, pace })
}

fn make(config: &OriginConfig, place: &OriginNames) -> Result<Servicer> {
    let OriginConfig::Http { endpoint, username, password, token, .. } = config else { return Err(not_http()) };
    let mut builder = Http::default().root("/").endpoint(Endpoint::parse(endpoint)?.as_str());
    if let Some(username) = username {
        builder = builder.username(username);
    }
    if let Some(password) = password {
        builder = builder.password(password.expose());
    }
    if let Some(token) = token {
        builder = builder.token(token.expose());
    }
    Ok(Arc::new(builder.build().map_err(|error| build_error(place, &error))?))
}

fn not_http() -> Error {
    Error::config("not the configuration of an HTTP origin")
}

#[async_trait]
impl Origin for Web {
    fn name(&self) -> &str {
        &self.remote.place.name
    }

    fn capability(&self) -> Capability {
        Capability {
            conditional_read: true,
            list_from_key: false,
            etags: true,
            symlinks: false,
            checksums: Checksums::Never,
        }
    }

    async fn check(&self) -> Result<()> {
        let place = &self.remote.place;
        let names = promptly(place, &self.pace, || self.index("")).await;
        match names {
            Ok(names) if names.is_empty() => {
                Err(Error::new(ErrorKind::NotFound, format!("nothing below {}", place.name))
                    .with_hint("the folder must answer with an index page that links to its files"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::new(ErrorKind::NotFound, format!("there is no folder {}", place.name))
                    .with_hint("check the address"))
            }
            other => other.map(|_| ()),
        }
    }

    async fn list(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        self.walk(excluded, sink).await
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let path = format!("{}{}", self.folder, key_text(&object.key)?);
        let body = self.remote.open(&path, range, condition(&object.version)).await?;
        demand_validator(&body.answer, &path, &object.version)?;
        body.exactly(object, range)
    }
}
