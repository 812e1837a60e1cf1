//! Marks on the worker's data files that were told of: each is news once.

use std::collections::HashMap;

use crate::ids::FileId;
use crate::store::{TellWrong, WrongContent, WrongFile, WrongMark};
use crate::sync::Mutex;

/// Files remembered; they are forgotten all at once, and told of once more then.
const MAX_REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub struct Marks {
    told: Mutex<HashMap<FileId, WrongMark>>,
    wrong: WrongContent,
}

impl Marks {
    pub fn listen(&self, tell: TellWrong) {
        self.wrong.listen(tell);
    }

    /// The data file of `file` was seen with `mark`.
    pub fn note(&self, file: WrongFile, mark: WrongMark) {
        let mut told = self.told.lock();
        if told.len() >= MAX_REMEMBERED {
            told.clear();
        }
        let is_news = told.insert(file.id, mark) != Some(mark);
        drop(told);
        if is_news {
            self.wrong.tell(file);
        }
    }
}
