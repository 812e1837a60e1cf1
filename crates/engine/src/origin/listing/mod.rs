//! Listing a bucket completely, in parallel, and with distrust: what a page says (`page`), whether it can be so (`check`),
//! where to cut the key space (`split`), what to ask next (`plan`), and who asks it (`ranges`); and page after page where
//! keys do not come in the order of their bytes (`sequence`).

mod check;
pub(super) mod decode;
pub(super) mod page;
mod plan;
pub(super) mod ranges;
pub(super) mod sequence;
mod split;

pub(super) use check::is_disorder;

/// Where a page begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start<'a> {
    Beginning,
    /// After this key.
    After(&'a str),
    /// Where the page before said that the server would go on.
    Token(&'a str),
}

impl<'a> Start<'a> {
    pub fn key(self) -> Option<&'a str> {
        if let Start::After(key) = self { Some(key) } else { None }
    }

    pub fn token(self) -> Option<&'a str> {
        if let Start::Token(token) = self { Some(token) } else { None }
    }
}
