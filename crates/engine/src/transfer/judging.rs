//! How a file in the store compares with what its origin tells of it.
//!
//! The checksum of all of a file decides. The checksum of its parts' checksums decides once it is known where the parts
//! begin, which no answer about the whole object tells. So sizes that tools upload with are tried first: one that fits
//! proves the bytes, and none that does not fit says anything. Only where none fits, the storage is asked for the first
//! part, and for all of them where that is worth it. A block that all of them contradict is wrong.

use futures::{StreamExt, TryStreamExt, stream};

use super::sums_here::FileHere;
use crate::checksum::Checksum;
use crate::checksum::parts::{GRID_BYTES, Pieces, common_guesses, guesses};
use crate::error::Result;

/// So many parts are asked for without a person's wish, whatever the first one is like.
const FEW_PARTS: u32 = 64;
/// Parts that are asked for at the same time.
const AT_A_TIME: usize = 8;
/// Sizes that are tried where each costs a pass of a dear checksum over the file.
const DEAR_GUESSES: usize = 4;

/// What is worth computing and asking now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// What costs next to nothing.
    Cheap,
    Any,
}

/// How a file compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
    /// Nothing that the origin tells can be compared with it.
    Incomparable,
    /// It would take more questions than nobody's wish is worth.
    Later,
    /// Something of it went meanwhile.
    Gone,
}

impl FileHere {
    pub async fn judge(&self, told: Checksum, effort: Effort) -> Result<Verdict> {
        match told.parts() {
            None => Ok(verdict(self.sum(told.kind()).await, told)),
            Some(1) => Ok(self.judge_lengths(told, vec![self.source.size()]).await),
            Some(count) => self.judge_parts(told, count, effort).await,
        }
    }

    async fn judge_parts(&self, told: Checksum, count: u32, effort: Effort) -> Result<Verdict> {
        if told.kind().is_cheap() && self.some_guess_fits(told, count).await {
            return Ok(Verdict::Right);
        }
        let Some(first) = self.part_length(1, count).await? else {
            return Ok(self.judge_without_parts(told, count).await);
        };
        let uniform = self.equal_lengths(first, count);
        if let Some(lengths) = &uniform {
            let found = self.judge_lengths(told, lengths.clone()).await;
            if matches!(found, Verdict::Right | Verdict::Gone) {
                return Ok(found);
            }
        }
        let few = effort == Effort::Any || count <= FEW_PARTS;
        if !few && !self.ends_as(uniform.as_deref(), count).await? {
            return Ok(Verdict::Later);
        }
        match self.part_lengths(first, count).await? {
            None => Ok(Verdict::Incomparable),
            Some(lengths) if uniform.as_ref() == Some(&lengths) => Ok(contradiction(told)),
            Some(lengths) => Ok(self.judge_lengths(told, lengths).await),
        }
    }

    async fn judge_lengths(&self, told: Checksum, lengths: Vec<u64>) -> Verdict {
        verdict(self.sum_of_parts(told.kind(), lengths).await, told)
    }

    /// Tries what sizes the parts may well have, without a question and with at most one pass over the file.
    async fn some_guess_fits(&self, told: Checksum, count: u32) -> bool {
        let size = self.source.size();
        let fits = |pieces: &Pieces, grid_bytes| {
            guesses(size, count, grid_bytes).into_iter().any(|part_bytes| pieces.in_parts_of(part_bytes) == told)
        };
        let blocks = self.block_pieces(told.kind());
        if blocks.is_some_and(|pieces| fits(&pieces, u64::from(self.block_size.bytes()))) {
            return true;
        }
        self.grid_pieces(told.kind()).await.is_some_and(|pieces| fits(&pieces, GRID_BYTES))
    }

    /// Where the storage does not tell parts: the commonest sizes, unless they were tried before.
    async fn judge_without_parts(&self, told: Checksum, count: u32) -> Verdict {
        let guesses = if told.kind().is_cheap() { Vec::new() } else { common_guesses(self.source.size(), count) };
        for part_bytes in guesses.into_iter().take(DEAR_GUESSES) {
            let Some(lengths) = self.equal_lengths(part_bytes, count) else { continue };
            let found = self.judge_lengths(told, lengths).await;
            if matches!(found, Verdict::Right | Verdict::Gone) {
                return found;
            }
        }
        Verdict::Incomparable
    }

    /// Lengths of `count` parts of `part_bytes`, of which the last one may be shorter; `None` where these are not the file.
    fn equal_lengths(&self, part_bytes: u64, count: u32) -> Option<Vec<u64>> {
        let size = self.source.size();
        let fits = part_bytes > 0 && size.div_ceil(part_bytes) == u64::from(count);
        let start = |number: u32| u64::from(number) * part_bytes;
        fits.then(|| (0..count).map(|number| part_bytes.min(size - start(number))).collect())
    }

    /// True when the last part is as long as these have it: then it is most likely not they that are wrong.
    async fn ends_as(&self, lengths: Option<&[u64]>, count: u32) -> Result<bool> {
        let Some(last) = lengths.and_then(|lengths| lengths.last()) else { return Ok(false) };
        Ok(self.part_length(count, count).await? == Some(*last))
    }

    /// The lengths of all parts, if the storage tells them and they make up the file.
    async fn part_lengths(&self, first: u64, count: u32) -> Result<Option<Vec<u64>>> {
        let others = stream::iter(2..=count).map(|number| self.part_length(number, count)).buffered(AT_A_TIME);
        let told = stream::iter([Ok(Some(first))]).chain(others);
        let told: Vec<Option<u64>> = told.try_collect().await?;
        let lengths = told.into_iter().collect::<Option<Vec<u64>>>();
        let sum = |lengths: &Vec<u64>| lengths.iter().fold(0u64, |sum, length| sum.saturating_add(*length));
        Ok(lengths.filter(|lengths| sum(lengths) == self.source.size()))
    }

    /// How long the part is, if the storage tells it of a file of `count` parts.
    async fn part_length(&self, number: u32, count: u32) -> Result<Option<u64>> {
        let part = self.source.origin().part(self.source.object(), number).await?;
        Ok(part.filter(|part| part.count == count && part.length > 0).map(|part| part.length))
    }
}

fn verdict(computed: Option<Checksum>, told: Checksum) -> Verdict {
    match computed {
        None => Verdict::Gone,
        Some(computed) if computed == told => Verdict::Right,
        Some(_) => contradiction(told),
    }
}

fn contradiction(told: Checksum) -> Verdict {
    if told.can_accuse() { Verdict::Wrong } else { Verdict::Incomparable }
}
