//! The FUSE session over the kernel protocol: a `FileSystem` becomes a folder that any program can read.
//!
//! Knows no origin, no cache and no Python. Why there is a session of our own: `docs/decisions/0004-own-fuse-session.md`;
//! which mode does what: `docs/decisions/0005-mount-modes.md`.

mod abi;
mod changes;
mod counts;
mod device;
mod directory;
mod disk_reads;
mod dispatch;
mod fusermount;
#[cfg(test)]
mod fuzz;
mod handle;
mod interrupt;
mod kept;
mod ledger;
mod mount;
mod mountinfo;
mod mountpoint;
mod negotiate;
mod neighbourhood;
mod notify;
mod open_modes;
mod options;
mod patience;
mod pipe;
mod reads;
mod relay;
mod reply;
mod request;
mod session;
mod state;
mod threads;
mod tickets;
mod unanswered;
mod view;

pub use handle::{ListImage, MountHandle, mount, mount_view, resume};
pub use kept::KeptMount;
pub use mount::unmount_path;
pub use mountinfo::MOUNT_KIND;
pub use negotiate::Negotiated;
pub use notify::{Delivered, Delivery};
pub use options::{Mode, MountOptions};
pub use view::IMAGE_NAME;
