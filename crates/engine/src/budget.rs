//! The process-wide limits on memory, file descriptors and inodes, each set once at start.
//!
//! A reader that finds a budget spent waits for it; nothing is ever allocated past it. `Permit`s give back on drop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How large one unit of a memory budget is, in bytes. Tokio's semaphore counts to 2^29 units on 32-bit targets.
const MEMORY_UNIT_BYTES: u64 = 4096;

/// A limit on something countable, with admission control and gauges.
#[derive(Debug, Clone)]
pub struct Budget {
    shared: Arc<BudgetState>,
}

#[derive(Debug)]
struct BudgetState {
    name: &'static str,
    units: Arc<Semaphore>,
    unit: u64,
    limit: u64,
    used: AtomicU64,
    waits: AtomicU64,
}

/// A share of a budget; dropping it gives the share back.
#[derive(Debug)]
pub struct Permit {
    amount: u64,
    shared: Arc<BudgetState>,
    _units: OwnedSemaphorePermit,
}

impl Budget {
    /// A budget of `limit_bytes` of memory.
    pub fn memory(limit_bytes: u64) -> Self {
        Self::with_unit("memory", limit_bytes, MEMORY_UNIT_BYTES)
    }

    /// A budget of `limit` countable things (file descriptors, inodes).
    pub fn count(name: &'static str, limit: u64) -> Self {
        Self::with_unit(name, limit, 1)
    }

    fn with_unit(name: &'static str, limit: u64, unit: u64) -> Self {
        let units = (limit / unit).clamp(1, Semaphore::MAX_PERMITS as u64 >> 1) as usize;
        Budget {
            shared: Arc::new(BudgetState {
                name,
                units: Arc::new(Semaphore::new(units)),
                unit,
                limit: units as u64 * unit,
                used: AtomicU64::new(0),
                waits: AtomicU64::new(0),
            }),
        }
    }

    /// Waits until `amount` is free. An amount over the whole limit is taken as the whole limit, so that one oversized
    /// request runs alone rather than never.
    pub async fn acquire(&self, amount: u64) -> Permit {
        if let Some(permit) = self.try_acquire(amount) {
            return permit;
        }
        self.shared.waits.fetch_add(1, Ordering::Relaxed);
        match self.shared.units.clone().acquire_many_owned(self.units_of(amount)).await {
            Ok(units) => self.permit(amount, units),
            // The semaphore is never closed; a closed one would mean a fault of ours.
            Err(_) => unreachable!("budget {} was closed", self.shared.name),
        }
    }

    /// The same without waiting: `None` when `amount` is not free now.
    pub fn try_acquire(&self, amount: u64) -> Option<Permit> {
        let units = self.shared.units.clone().try_acquire_many_owned(self.units_of(amount)).ok()?;
        Some(self.permit(amount, units))
    }

    fn permit(&self, amount: u64, units: OwnedSemaphorePermit) -> Permit {
        self.shared.used.fetch_add(amount, Ordering::Relaxed);
        Permit { amount, shared: self.shared.clone(), _units: units }
    }

    fn units_of(&self, amount: u64) -> u32 {
        let whole = self.shared.limit / self.shared.unit;
        amount.div_ceil(self.shared.unit).clamp(1, whole).min(u64::from(u32::MAX)) as u32
    }

    /// The limit, in the budget's own unit (bytes or things).
    pub fn limit(&self) -> u64 {
        self.shared.limit
    }

    /// What is taken now.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// What is free now.
    pub fn free(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    /// How often somebody had to wait since the start.
    pub fn waits(&self) -> u64 {
        self.shared.waits.load(Ordering::Relaxed)
    }
}

impl Permit {
    /// What this permit holds.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

/// All budgets of one process.
#[derive(Debug, Clone)]
pub struct Budgets {
    /// Bytes of block buffers in flight: fills, read-ahead, prefetch.
    pub memory: Budget,
    /// Open cache files.
    pub descriptors: Budget,
    /// Inodes and handles that the kernel holds.
    pub inodes: Budget,
}
