//! Placement: which workers hold which part of which file, computed alike by everybody who has the same view.
//!
//! A [`View`] lists the workers; a [`Ring`] made of it ranks them for each [`StripeId`] by weighted rendezvous hashing.
//! Pure: no I/O, no clock, no randomness. It must not know how a view was agreed on or how a worker is asked. The hash is
//! part of the protocol and is described in `docs/format/placement.md`.

mod address;
mod hash;
mod placement;
mod table;
mod view;

pub use hash::{STRIPE_BYTES, StripeId, stripe_of};
pub use placement::Ring;
pub use view::{MAX_MEMBERS, MAX_VIEW_BYTES, Member, MemberId, MemberState, View};
