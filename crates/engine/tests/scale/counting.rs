//! An allocator that counts: what a thread asks for, and how much all of them hold at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

static HELD: AtomicI64 = AtomicI64::new(0);
static MOST: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

fn note(change: i64) {
    let held = HELD.fetch_add(change, Ordering::Relaxed) + change;
    MOST.fetch_max(held, Ordering::Relaxed);
    let _ = ASKED.try_with(|asked| asked.set(asked.get() + change.max(0) as u64));
}

// SAFETY: all is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// How many bytes this thread asked for in `work`.
pub fn asked_bytes<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ASKED.get();
    let outcome = work();
    (ASKED.get() - before, outcome)
}

/// Held by each test: what the process holds is counted for all its threads together.
pub static ALONE: Mutex<()> = Mutex::new(());

/// How many bytes the process held at most in `work`, beyond what it held before.
pub fn most_held_bytes<T>(work: impl FnOnce() -> T) -> (i64, T) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let outcome = work();
    (MOST.load(Ordering::Relaxed) - before, outcome)
}
