//! How far ahead of a reader to fetch. Decisions only: no I/O, no clock.
//!
//! A reader that finds its bytes at hand leaves room on the link: fetching further ahead of it costs nobody anything, and
//! outlasts a slow answer. One that waits is served faster by more requests at once as long as it is the storage's
//! distance that it waits for, or a limit of each connection. Once the link is full they only bring what is wanted later
//! at the cost of what is waited for, by this reader and all others. The distance is known; whether connections are
//! limited is tried now and then.

use std::time::Duration;

/// What is on its way to a reader that waits: as much as it gets in this many answer times, at least.
const ANSWER_TIMES: f64 = 4.0;

/// And as much as it gets in this time.
const LEAST: Duration = Duration::from_millis(125);

/// A window twice as large has paid when it made a reader so much faster.
const GAIN: f64 = 1.4;

/// Shorter ones say little: what several requests bring arrives in bursts.
const TRIAL_WINDOWS: u32 = 3;

/// Windows until a larger one is tried, and tried again after it has not paid: more each time.
const FIRST_PATIENCE: u32 = 8;
const MOST_PATIENCE: u32 = 64;

/// A window that a reader has come to the end of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) bytes: u64,
    pub(super) block_bytes: u64,
    /// No window is larger.
    pub(super) most_bytes: u64,
    /// Whether it had to wait for a part of it.
    pub(super) waited: bool,
}

/// How fast a reader that waits gets what it reads.
#[derive(Debug)]
pub(super) struct Pace {
    /// Since when, and from where, it has waited in windows of this size.
    since: Duration,
    from: u64,
    /// Since the window was doubled to see whether that pays.
    trial: Option<Trial>,
    /// A window that has paid.
    least: u64,
    /// Windows since one was larger than the one before it.
    unchanged: u32,
    patience: u32,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    /// Bytes a second before.
    earlier: f64,
    /// Windows until it is judged.
    left: u32,
}

impl Pace {
    /// For a reader that begins at `from` now.
    pub(super) fn new(from: u64, now: Duration) -> Self {
        Pace { since: now, from, trial: None, least: 0, unchanged: 0, patience: FIRST_PATIENCE }
    }

    /// The next window of a reader that has come to the end of one, at `reached`. The storage begins to answer after
    /// `answer_time`. Whole blocks; none when the reads themselves ask for enough.
    pub(super) fn next_window(&mut self, before: Window, reached: u64, now: Duration, answer_time: Duration) -> u64 {
        let doubled = (before.bytes * 2).max(before.block_bytes).min(before.most_bytes);
        if !before.waited {
            *self = Pace::new(reached, now);
            return doubled;
        }
        let elapsed_s = now.saturating_sub(self.since).as_secs_f64().max(1e-9);
        let rate = reached.saturating_sub(self.from) as f64 / elapsed_s;
        let next = match self.trial.take() {
            Some(trial) if trial.left > 1 => self.go_on(trial, before.bytes),
            Some(trial) if rate >= trial.earlier * GAIN => self.try_from(before.bytes, rate, doubled),
            Some(_) => self.give_up(before.bytes / 2 / before.block_bytes * before.block_bytes),
            None => self.follow(rate, answer_time, before, doubled),
        };
        if next > before.bytes {
            // How fast it was with the smaller one says nothing of the larger.
            (self.since, self.from, self.unchanged) = (now, reached, 0);
        }
        next
    }

    fn follow(&mut self, rate: f64, answer_time: Duration, before: Window, doubled: u64) -> u64 {
        let bytes = rate * (ANSWER_TIMES * answer_time.as_secs_f64()).max(LEAST.as_secs_f64());
        let wanted = (bytes as u64 / before.block_bytes * before.block_bytes).clamp(self.least.min(doubled), doubled);
        self.unchanged += 1;
        if wanted <= before.bytes && before.bytes < doubled && self.unchanged >= self.patience {
            return self.try_from(self.least, rate, doubled);
        }
        wanted
    }

    /// Doubles the window, to see whether the reader becomes faster than `rate`.
    fn try_from(&mut self, least: u64, rate: f64, doubled: u64) -> u64 {
        (self.least, self.trial) = (least, Some(Trial { earlier: rate, left: TRIAL_WINDOWS }));
        doubled
    }

    fn go_on(&mut self, trial: Trial, window: u64) -> u64 {
        self.trial = Some(Trial { left: trial.left - 1, ..trial });
        window
    }

    fn give_up(&mut self, window: u64) -> u64 {
        (self.unchanged, self.patience) = (0, (self.patience * 2).min(MOST_PATIENCE));
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;
    const BLOCK: u64 = 4 << 20;

    fn waited(bytes: u64) -> Window {
        Window { bytes, block_bytes: BLOCK, most_bytes: 128 << 20, waited: true }
    }

    /// The windows, in MiB, of a reader that waits and gets `rate(window)` MiB a second.
    fn windows(answer_time_s: f64, rate: impl Fn(f64) -> f64) -> Vec<f64> {
        let (mut window, mut reached, mut now) = (BLOCK, 0.0, 0.0);
        let mut pace = Pace::new(0, Duration::ZERO);
        let mut seen = Vec::new();
        for _ in 0..40 {
            let length = window.max(BLOCK) as f64;
            seen.push(window as f64 / MIB);
            reached += length;
            now += length / MIB / rate(window as f64 / MIB);
            let (at, answer_time) = (Duration::from_secs_f64(now), Duration::from_secs_f64(answer_time_s));
            window = pace.next_window(waited(window), reached as u64, at, answer_time);
        }
        seen
    }

    #[test]
    fn a_share_of_a_full_link_needs_nothing_ahead_and_more_is_tried_less_and_less() {
        let seen = windows(0.001, |_| 30.0);
        let tried: Vec<_> = (1..seen.len()).filter(|index| seen[*index] > 0.0).collect();
        assert_eq!(tried, [8, 9, 10, 27, 28, 29], "{seen:?}");
    }

    #[test]
    fn a_fast_link_near_by_gets_what_it_carries_in_an_eighth_of_a_second() {
        assert_eq!(windows(0.001, |_| 130.0)[..4], [4.0, 8.0, 16.0, 16.0]);
    }

    #[test]
    fn a_far_storage_gets_requests_until_its_link_is_full() {
        let seen = windows(0.1, |window| ((window + 4.0) / 0.1).min(400.0));
        assert_eq!(seen[..7], [4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 128.0]);
    }

    #[test]
    fn the_largest_window_is_not_given_up_for_one_that_is_not_allowed() {
        let seen = windows(0.1, |window| (window + 4.0) / 0.1);
        assert!(seen[5..].iter().all(|window| *window == 128.0), "{seen:?}");
    }

    #[test]
    fn a_storage_that_limits_each_connection_is_read_over_several() {
        // What the reads themselves ask for takes one, and a window at most four.
        let connections = |window: f64| 1.0 + (window / 4.0).min(4.0);
        let seen = windows(0.001, |window| connections(window) * 10.0);
        assert!(seen[20..].iter().all(|window| *window >= 8.0), "{seen:?}");
    }

    #[test]
    fn a_reader_that_finds_all_at_hand_gets_more_whatever_its_speed() {
        let mut pace = Pace::new(0, Duration::ZERO);
        let at_hand = |bytes| Window { waited: false, ..waited(bytes) };
        assert_eq!(pace.next_window(at_hand(0), BLOCK, Duration::from_secs(9), Duration::ZERO), BLOCK);
        assert_eq!(pace.next_window(at_hand(BLOCK), 2 * BLOCK, Duration::from_secs(20), Duration::ZERO), 2 * BLOCK);
    }

    #[test]
    fn how_fast_it_was_while_all_was_at_hand_does_not_count() {
        let mut pace = Pace::new(0, Duration::ZERO);
        let at_hand = Window { waited: false, ..waited(BLOCK) };
        assert_eq!(pace.next_window(at_hand, 100 * BLOCK, Duration::from_secs(1), Duration::ZERO), 2 * BLOCK);
        assert_eq!(pace.next_window(waited(2 * BLOCK), 102 * BLOCK, Duration::from_secs(2), Duration::ZERO), 0);
    }
}
