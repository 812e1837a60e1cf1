//! The checksums of answers as they arrive. The MD5s of those that arrive at the same time are computed together: eight of
//! them cost little more than one (`checksum::md5_lanes`).
//!
//! Arrived bytes wait until they are enough, or their answer is complete. The thread that computes then takes all that
//! wait, of all answers: the busier the machine, the more of them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::faults::closing_error;
use crate::checksum::md5_lanes::{LANES, Md5Lane, advance};
use crate::checksum::{Checksum, Digest, Kind};
use crate::error::Result;
use crate::sync::Mutex;

/// An answer waits for its last bytes to be computed: 2 ms if it is alone.
const ENOUGH_BYTES: usize = 1 << 20;

/// Threads that compute at the same time: each has the pace of 20 Gbit/s.
const MOST_THREADS: usize = 4;

/// Computes checksums of answers.
#[derive(Debug)]
pub(super) struct Sums {
    together: Arc<Mutex<Together>>,
    runtime: Handle,
}

/// The checksum of an answer that arrives.
pub(super) enum Sum {
    Alone(Digest),
    Together(Md5OfAnswer),
}

/// The MD5 of an answer; forgotten when this is dropped.
pub(super) struct Md5OfAnswer {
    number: u64,
    together: Arc<Mutex<Together>>,
    runtime: Handle,
}

#[derive(Debug, Default)]
struct Together {
    answers: HashMap<u64, Answer>,
    last_number: u64,
    threads: usize,
}

#[derive(Debug)]
struct Answer {
    /// Away while a thread computes it.
    lane: Option<Md5Lane>,
    /// What came meanwhile.
    arrived: Vec<Bytes>,
    /// Who waits for the end: all has arrived.
    waiting: Option<oneshot::Sender<[u8; 16]>>,
}

impl Sums {
    pub(super) fn new(runtime: Handle) -> Self {
        Sums { together: Arc::default(), runtime }
    }

    /// Begins the checksum of an answer.
    pub(super) fn begin(&self, kind: Kind) -> Sum {
        if kind != Kind::Md5 {
            return Sum::Alone(kind.digest());
        }
        let number = self.together.lock().begin();
        Sum::Together(Md5OfAnswer { number, together: self.together.clone(), runtime: self.runtime.clone() })
    }
}

impl Sum {
    /// More of the answer.
    pub(super) fn update(&mut self, piece: &Bytes) {
        match self {
            Sum::Alone(digest) => digest.update(piece),
            Sum::Together(answer) => answer.change(|one| one.push(piece.clone())),
        }
    }

    /// The checksum of all of it; `Cancelled` when the engine is stopping.
    pub(super) async fn finish(self) -> Result<Checksum> {
        match self {
            Sum::Alone(digest) => Ok(digest.finish()),
            Sum::Together(answer) => {
                let (sender, receiver) = oneshot::channel();
                answer.change(|one| one.end(sender));
                receiver.await.map(Checksum::of_md5).map_err(|_| closing_error())
            }
        }
    }
}

impl Md5OfAnswer {
    /// Changes the answer, and sees to it that somebody computes when it is time.
    fn change(&self, change: impl FnOnce(&mut Answer)) {
        let mut together = self.together.lock();
        together.answers.get_mut(&self.number).map(change);
        if together.needs_thread() {
            together.threads += 1;
            let shared = self.together.clone();
            drop(self.runtime.spawn_blocking(move || compute(&shared)));
        }
    }
}

impl Drop for Md5OfAnswer {
    fn drop(&mut self) {
        self.together.lock().answers.remove(&self.number);
    }
}

/// Computes what waits, until nothing is due.
fn compute(shared: &Mutex<Together>) {
    loop {
        let round = shared.lock().take_round();
        let Some((numbers, mut lanes)) = round else { return };
        advance(&mut lanes);
        shared.lock().put_back(numbers, lanes);
    }
}

impl Together {
    fn begin(&mut self) -> u64 {
        self.last_number += 1;
        let answer = Answer { lane: Some(Md5Lane::default()), arrived: Vec::new(), waiting: None };
        self.answers.insert(self.last_number, answer);
        self.last_number
    }

    /// One thread computes as soon as something is due, another one when it cannot keep up.
    fn needs_thread(&self) -> bool {
        let due = self.answers.values().filter(|answer| answer.is_due()).count();
        due > 0 && (self.threads == 0 || due >= LANES && self.threads < MOST_THREADS)
    }

    /// All that waits, if any of it is due; otherwise whoever asks is no longer needed.
    fn take_round(&mut self) -> Option<(Vec<u64>, Vec<Md5Lane>)> {
        if !self.answers.values().any(Answer::is_due) {
            self.threads -= 1;
            return None;
        }
        let waiting = self.answers.iter_mut().filter(|(_, answer)| answer.is_due() || answer.pending_bytes() > 0);
        Some(waiting.filter_map(|(number, answer)| Some((*number, answer.lane.take()?))).unzip())
    }

    fn put_back(&mut self, numbers: Vec<u64>, lanes: Vec<Md5Lane>) {
        for (number, lane) in numbers.into_iter().zip(lanes) {
            // Nobody may want it any more.
            let Some(answer) = self.answers.get_mut(&number) else { continue };
            answer.put_back(lane);
            if answer.is_done()
                && let Some((lane, waiting)) = self.answers.remove(&number).and_then(Answer::into_parts)
            {
                let _ = waiting.send(lane.value());
            }
        }
    }
}

impl Answer {
    fn pending_bytes(&self) -> usize {
        self.lane.as_ref().map_or(0, Md5Lane::pending_bytes)
    }

    fn is_due(&self) -> bool {
        self.lane.is_some() && (self.waiting.is_some() || self.pending_bytes() >= ENOUGH_BYTES)
    }

    fn is_done(&self) -> bool {
        self.lane.is_some() && self.waiting.is_some() && self.pending_bytes() == 0
    }

    fn push(&mut self, piece: Bytes) {
        match &mut self.lane {
            Some(lane) => lane.push(piece),
            None => self.arrived.push(piece),
        }
    }

    fn end(&mut self, waiting: oneshot::Sender<[u8; 16]>) {
        self.waiting = Some(waiting);
        self.lane.as_mut().map(Md5Lane::close);
    }

    fn put_back(&mut self, mut lane: Md5Lane) {
        let late = self.waiting.is_some() && !lane.is_closed();
        self.arrived.drain(..).for_each(|piece| lane.push(piece));
        if late {
            lane.close();
        }
        self.lane = Some(lane);
    }

    fn into_parts(self) -> Option<(Md5Lane, oneshot::Sender<[u8; 16]>)> {
        self.lane.zip(self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(seed: usize, length: usize) -> Bytes {
        (0..length).map(|n| (n * (2 * seed + 1) / 8) as u8).collect()
    }

    async fn sum(sums: &Sums, content: Bytes, piece_bytes: usize) -> Checksum {
        let mut sum = sums.begin(Kind::Md5);
        for from in (0..content.len()).step_by(piece_bytes) {
            sum.update(&content.slice(from..content.len().min(from + piece_bytes)));
            tokio::task::yield_now().await;
        }
        sum.finish().await.expect("nothing stops")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn answers_at_the_same_time_have_each_its_own() {
        let sums = Arc::new(Sums::new(Handle::current()));
        let lengths = (0..40).map(|n| [0, 1, 55, 56, 64, 100_000 + n, (3 << 20) + n][n % 7]);
        let tasks = lengths.enumerate().map(|(seed, length)| {
            let sums = sums.clone();
            tokio::spawn(async move {
                let content = content(seed, length);
                let computed = sum(&sums, content.clone(), 1000 + 777 * seed).await;
                assert!(computed == Checksum::of(Kind::Md5, &content), "{length}");
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("right");
        }
        assert!(sums.together.lock().answers.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_answer_that_breaks_off_is_forgotten() {
        let sums = Sums::new(Handle::current());
        let mut broken = sums.begin(Kind::Md5);
        broken.update(&content(1, 5 << 20));
        drop(broken);
        let whole = content(2, 70_000);
        assert!(sum(&sums, whole.clone(), 4096).await == Checksum::of(Kind::Md5, &whole));
        assert!(sums.together.lock().answers.is_empty());
    }

    #[test]
    fn what_came_while_it_was_computed_counts_and_so_does_the_end() {
        let (mut together, content) = (Together { threads: 1, ..Together::default() }, content(3, 200));
        let (sender, mut receiver) = oneshot::channel();
        let number = together.begin();
        let answer = together.answers.get_mut(&number).expect("begun");
        answer.push(content.slice(..150));
        let mut away = vec![answer.lane.take().expect("not computed yet")];
        answer.push(content.slice(150..));
        answer.end(sender);
        advance(&mut away);
        together.put_back(vec![number], away);
        assert!(receiver.try_recv().is_err(), "the rest is not computed yet");
        let (numbers, mut lanes) = together.take_round().expect("the rest is due");
        advance(&mut lanes);
        together.put_back(numbers, lanes);
        assert!(receiver.try_recv().map(Checksum::of_md5) == Ok(Checksum::of(Kind::Md5, &content)));
        assert!(together.take_round().is_none() && together.threads == 0);
    }
}
