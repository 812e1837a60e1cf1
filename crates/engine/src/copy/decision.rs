//! The decision for one file: a pure function of what the source has, what the ledger says and what the target holds.

use crate::ids::FileId;
use crate::origin::Mark;

/// A file that was compared after it was written: this version of the source was this content of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub source: FileId,
    pub target: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is there and was compared.
    Skip,
    /// It may be there: only its bytes can tell.
    Compare,
    Copy,
}

/// `held`: size and mark of what the target has under the name. No time is looked at: what was compared is known by the
/// marks of both sides, and anything else by its bytes.
pub fn decide(source: FileId, size: u64, done: Option<Done>, held: Option<(u64, Mark)>) -> Decision {
    match held {
        Some((there, mark)) if there == size => {
            if done == Some(Done { source, target: mark }) {
                Decision::Skip
            } else {
                Decision::Compare
            }
        }
        _ => Decision::Copy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: FileId = FileId([1; 16]);
    const MARK: Mark = Mark([2; 16]);

    #[test]
    fn only_what_the_ledger_knows_of_both_sides_is_skipped() {
        let done = Some(Done { source: SOURCE, target: MARK });
        let table = [
            (None, None, Decision::Copy),
            (done, None, Decision::Copy),
            (done, Some((9, MARK)), Decision::Copy),
            (done, Some((8, MARK)), Decision::Skip),
            (None, Some((8, MARK)), Decision::Compare),
            (done, Some((8, Mark([3; 16]))), Decision::Compare),
            (Some(Done { source: FileId([9; 16]), target: MARK }), Some((8, MARK)), Decision::Compare),
        ];
        for (done, held, decision) in table {
            assert_eq!(decide(SOURCE, 8, done, held), decision, "{done:?} {held:?}");
        }
    }
}
