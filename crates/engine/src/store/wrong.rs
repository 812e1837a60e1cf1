//! The listeners for content that turned out to be wrong after somebody may have read it.

use std::sync::{Arc, OnceLock};

use crate::ids::FileId;

/// A file version of which something was dropped because it is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WrongFile {
    pub id: FileId,
    pub size: u64,
}

/// Called when what is wrong is out of sight, once or more; on any thread, which must not be held up.
pub type TellWrong = Arc<dyn Fn(WrongFile) + Send + Sync>;

/// Tells one listener, once there is one.
#[derive(Default)]
pub struct WrongContent(OnceLock<TellWrong>);

impl WrongContent {
    /// The first listener stays.
    pub fn listen(&self, tell: TellWrong) {
        let _ = self.0.set(tell);
    }

    pub fn tell(&self, file: WrongFile) {
        if let Some(tell) = self.0.get() {
            tell(file);
        }
    }
}

impl std::fmt::Debug for WrongContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "WrongContent(heard)" } else { "WrongContent(unheard)" })
    }
}
