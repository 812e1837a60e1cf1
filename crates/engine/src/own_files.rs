//! Opening files that this process made, or is about to make, in folders of its own. Knows nothing of what they hold.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

/// Options by which a file is opened that is no link, and made for this user alone. What a link leads to is never opened,
/// emptied or made: whoever could put one there would have us do that to a file of another.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}
