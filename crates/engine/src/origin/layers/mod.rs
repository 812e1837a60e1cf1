//! What every origin gets around it, one file each: from the outside in retry, limit, silence, measure.
//!
//! A layer is an origin around an origin. Layers act on reads; listings and checks go through unchanged, because they
//! consist of many requests, to each of which their protocol applies the same pace itself.

mod limit;
mod measure;
mod retry;
mod silence;

use std::sync::Arc;

use super::Origin;
use super::pace::Pace;

/// The origin inside all layers.
pub(super) fn wrap(origin: Arc<dyn Origin>, pace: &Pace) -> Arc<dyn Origin> {
    let origin = Arc::new(measure::Measured::new(origin, pace.metrics.clone()));
    let origin = Arc::new(silence::Watched::new(origin, pace.silence));
    let origin = Arc::new(limit::Limited::new(origin, pace.clone()));
    Arc::new(retry::Retried::new(origin, pace.clone()))
}
