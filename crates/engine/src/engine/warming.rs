//! A transfer's warm-up as a `Job`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::job::{Job, JobState, Progress};
use crate::transfer::{WarmJob, WarmState};

impl Job for WarmJob {
    fn progress(&self) -> Progress {
        let told = WarmJob::progress(self);
        Progress {
            state: match told.state {
                WarmState::Fetching | WarmState::Verifying => JobState::Running,
                WarmState::Complete => JobState::Done,
                WarmState::Incomplete => JobState::Failed,
                WarmState::Cancelled => JobState::Cancelled,
            },
            done_bytes: told.done_bytes,
            total_bytes: told.total_bytes,
            done_files: told.done_files,
            total_files: told.total_files,
            origin_bytes: told.origin_bytes,
            did_not_fit_bytes: told.did_not_fit_bytes,
            errors: told.errors,
            message: told.message,
            cached_by_worker: BTreeMap::new(),
        }
    }

    fn cancel(&self) {
        WarmJob::cancel(self);
    }

    fn wait(&self, timeout: Duration) -> bool {
        WarmJob::wait(self, timeout)
    }
}
