//! The choice of the block, or the file, that a folder lets go first.

use super::Folder;
use crate::ids::FileId;
use crate::store::eviction::{self, Mark, Tick};

/// A block, or with `index: None` a whole file version, that may go.
#[derive(Debug, Clone, Copy)]
pub struct Victim {
    pub id: FileId,
    pub index: Option<u32>,
    pub score: u64,
    pub mark: Mark,
}

/// The block that should give way first among some drawn at random, by the policy or, when `forced`, by age alone.
pub fn victim(folder: &Folder, now: Tick, forced: bool) -> Option<Victim> {
    let now_s = folder.place.now_s();
    let best = |_| {
        folder.contents.index.pick(|part, index| {
            let small = part.present > 1 && folder.room.is_small(part.size);
            let whole = small || part.is_lent() || !folder.files.punches();
            let mark = if whole { part.mark() } else { part.slot(index).mark() };
            let score = if forced { Some(mark.idle(now)) } else { folder.place.shared.policy.surrender(mark, now) };
            // A small file goes from under another process that holds it: that room is soon free.
            let takeable = !part.is_pinned() && part.busy == 0 && (small || part.held_until_s <= now_s);
            score.filter(|_| takeable).map(|score| Victim {
                id: part.id,
                index: (!whole).then_some(index),
                score,
                mark,
            })
        })?
    };
    (0..eviction::CANDIDATES).filter_map(best).max_by_key(|victim| victim.score)
}
