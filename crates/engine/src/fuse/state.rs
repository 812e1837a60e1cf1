//! The parts of a session that all its threads share.

use std::sync::Arc;

use super::counts::{Counts, Lookups};
use super::device::Device;
use super::disk_reads::DiskReads;
use super::interrupt::InFlight;
use super::negotiate::Negotiated;
use super::neighbourhood::Neighbourhood;
use super::open_modes::OpenModes;
use super::reply::{Pending, Presentation};
use super::threads::RequestThreads;
use super::unanswered::Unanswered;
use crate::vfs::{FileSystem, Writable};

/// What all threads of a session share.
pub struct SessionState {
    pub device: Arc<Device>,
    pub filesystem: Arc<dyn FileSystem>,
    /// The same, where programs may write.
    pub writable: Option<Arc<dyn Writable>>,
    pub negotiated: Negotiated,
    pub shown: Presentation,
    pub runtime: tokio::runtime::Handle,
    pub in_flight: Arc<InFlight>,
    pub opens: OpenModes,
    pub unanswered: Arc<Unanswered>,
    pub disk_reads: DiskReads,
    pub threads: RequestThreads,
    pub neighbourhood: Arc<Neighbourhood>,
    pub counts: Counts,
    pub lookups: Lookups,
}

impl SessionState {
    pub fn pending(&self, unique: u64) -> Pending {
        Pending::new(self.device.clone(), unique)
    }
}
