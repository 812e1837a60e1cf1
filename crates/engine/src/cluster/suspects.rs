//! Members that did not answer, until they do.

use std::collections::HashSet;

use crate::ring::MemberId;
use crate::sync::Mutex;

#[derive(Debug, Default)]
pub(super) struct Suspects(Mutex<HashSet<MemberId>>);

impl Suspects {
    /// True when it was not suspected before.
    pub(super) fn add(&self, member: &MemberId) -> bool {
        self.0.lock().insert(member.clone())
    }

    pub(super) fn remove(&self, member: &MemberId) {
        self.0.lock().remove(member);
    }

    pub(super) fn contains(&self, member: &MemberId) -> bool {
        self.0.lock().contains(member)
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    pub(super) fn keep_only(&self, is_known: impl Fn(&MemberId) -> bool) {
        self.0.lock().retain(|member| is_known(member));
    }
}
