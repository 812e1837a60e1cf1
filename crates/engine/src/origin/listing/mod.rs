//! Listing a bucket completely, in parallel, and with distrust: what a page says (`page`), whether it can be so (`check`),
//! where to cut the key space (`split`), what to ask next (`plan`), and who asks it (`ranges`).

mod check;
pub(super) mod page;
mod plan;
pub(super) mod ranges;
mod split;
