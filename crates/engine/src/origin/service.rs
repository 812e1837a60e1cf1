//! The OpenDAL service of one remote place: made from its configuration, and made anew when its keys are renewed, or when
//! the place turns out not to speak TLS.

use std::ops::Deref;
use std::sync::Arc;

use opendal::raw::Servicer;
use tokio::sync::OnceCell;

use crate::config::OriginConfig;
use crate::error::{Error, Result};
use crate::origin::renewal::{Renewal, refused_with};
use crate::origin::unsaid_scheme::UnsaidScheme;
use crate::origin::wire::Wire;
use crate::sync::Mutex;

type Make = Box<dyn Fn(&OriginConfig) -> Result<Servicer> + Send + Sync>;

/// Clones share the service.
#[derive(Clone)]
pub(super) struct Service(Arc<Inner>);

struct Inner {
    make: Make,
    renewal: Option<Renewal>,
    made: Mutex<Made>,
    scheme: Option<UnsaidScheme>,
    /// Whether it is asked without TLS; only where the endpoint names no scheme.
    plain: OnceCell<bool>,
}

#[derive(Clone)]
struct Made {
    service: Servicer,
    config: OriginConfig,
    generation: u64,
}

/// The service for one request.
pub(super) struct Current {
    service: Servicer,
    generation: u64,
}

impl Service {
    /// What `make` makes of `config`, and of any that comes after it. `scheme`: the endpoint names none.
    pub fn new(
        config: &OriginConfig,
        scheme: Option<UnsaidScheme>,
        make: impl Fn(&OriginConfig) -> Result<Servicer> + Send + Sync + 'static,
    ) -> Result<Self> {
        let made = Made { service: make(config)?, config: config.clone(), generation: 0 };
        let (renewal, made, make) = (Renewal::of(config), Mutex::new(made), Box::new(make));
        Ok(Service(Arc::new(Inner { make, renewal, made, scheme, plain: OnceCell::new() })))
    }

    /// The service with the newest keys, once it is known by which scheme the place is asked.
    pub async fn ready(&self, action: &str, wire: &Wire) -> Result<Current> {
        if let Some(scheme) = &self.0.scheme {
            let plain = || async { scheme.is_plain(action, &self.config(), wire).await };
            if *self.0.plain.get_or_try_init(plain).await? {
                self.0.made.lock().ask_plainly(scheme, &self.0.make)?;
            }
        }
        Ok(self.current())
    }

    /// The service with the newest keys, by the scheme that is known.
    pub fn current(&self) -> Current {
        let mut made = self.0.made.lock();
        if let Some((generation, config)) = self.0.renewal.as_ref().and_then(|renewal| self.newer(renewal, &made)) {
            made.generation = generation;
            match (self.0.make)(&config) {
                Ok(service) => (made.service, made.config) = (service, config),
                Err(error) => tracing::warn!("renewed keys are not used: {error}"),
            }
        }
        Current { service: made.service.clone(), generation: made.generation }
    }

    /// The configuration with the newest keys.
    pub fn config(&self) -> OriginConfig {
        self.current();
        self.0.made.lock().config.clone()
    }

    fn newer(&self, renewal: &Renewal, made: &Made) -> Option<(u64, OriginConfig)> {
        if renewal.generation() == made.generation {
            return None;
        }
        let (generation, config) = renewal.newest()?;
        let Some(scheme) = self.0.scheme.as_ref().filter(|_| self.0.plain.get() == Some(&true)) else {
            return Some((generation, config));
        };
        if let Err(error) = scheme.may_be_plain(&config) {
            tracing::warn!("renewed keys are not used: {error}");
            return None;
        }
        Some((generation, scheme.plainly(config)))
    }
}

impl Made {
    fn ask_plainly(&mut self, scheme: &UnsaidScheme, make: &Make) -> Result<()> {
        let config = scheme.plainly(self.config.clone());
        if config.endpoint() != self.config.endpoint() {
            (self.service, self.config) = (make(&config)?, config);
        }
        Ok(())
    }
}

impl Current {
    /// Whether its keys are those of `other`.
    pub fn has_keys_of(&self, other: &Current) -> bool {
        self.generation == other.generation
    }

    /// The error, as one that newer keys may mend.
    pub fn refused(&self, error: Error) -> Error {
        refused_with(self.generation, error)
    }
}

impl Deref for Current {
    type Target = Servicer;

    fn deref(&self) -> &Servicer {
        &self.service
    }
}
