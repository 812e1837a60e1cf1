//! Listing a bucket completely, in parallel, and with distrust: what a page says (`page`), where to cut the key space
//! (`split`), and who asks for which part (`ranges`).

pub(super) mod page;
pub(super) mod ranges;
mod split;
