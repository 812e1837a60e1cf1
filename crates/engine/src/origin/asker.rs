//! For whom bytes are asked of an origin: readers, or a load that somebody ordered. The task that asks knows it, so that no
//! layer between has to hand it on; where a hit ratio follows from the origin's bytes, those of loads are left out.

tokio::task_local! {
    static ASKER: Asker;
}

/// For whom a task asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A program that reads, or will probably read next.
    Reader,
    /// A load or a warm-up.
    Load,
}

impl Asker {
    /// That of this task; a reader unless `ask` says otherwise.
    pub fn current() -> Self {
        ASKER.try_with(|asker| *asker).unwrap_or(Asker::Reader)
    }

    /// The future, asking for this one. What it spawns asks for readers again.
    pub fn ask<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        ASKER.scope(self, future)
    }
}
