//! Lanes, turns, credit and memory, without a socket.

use super::*;
use crate::budget::Budget;
use bytes::Bytes;
use futures::FutureExt;

const PATIENCE: Duration = Duration::from_secs(3600);

fn outbox(queued: UnsignedGauge) -> Arc<Outbox> {
    Outbox::new(queued, Arc::new(AnswerMemory::new(Budget::memory(1 << 20))), PATIENCE)
}

async fn push(outbox: &Outbox, lane: &Lane, last: bool) -> bool {
    let place = outbox.place(lane).now_or_never().flatten().expect("room");
    let part = Part::Memory { bytes: Bytes::from_static(b"x"), crc: 0 };
    outbox.push(lane, Item::Data { part, last, _place: place })
}

fn order(outbox: &Outbox) -> Vec<u32> {
    std::iter::from_fn(|| outbox.next().now_or_never())
        .map(|next| match next {
            Next::Control(_) => 0,
            Next::Item(lane, _) => lane.id,
        })
        .collect()
}

#[tokio::test]
async fn lanes_take_turns_and_control_frames_go_first() {
    let gauge = UnsignedGauge::default();
    let outbox = outbox(gauge.clone());
    let [a, b] =
        [1, 2].map(|id| outbox.open(id, Priority::Content, 9, CancellationToken::new()).expect("a free number"));
    assert!(outbox.open(1, Priority::Content, 9, CancellationToken::new()).is_none());
    for last in [false, false, true] {
        assert!(push(&outbox, &a, last).await);
    }
    assert!(push(&outbox, &b, true).await);
    assert!(outbox.place(&a).now_or_never().is_none(), "a lane has three slots");
    assert!(outbox.push_control(b"ping"));
    assert_eq!(order(&outbox), [0, 1, 1, 2, 1], "the second, which begins, waits for one frame of the first");
    assert!(!outbox.is_busy() && gauge.get() == 0);
    assert!(!push(&outbox, &b, true).await, "the lane is closed");
}

#[tokio::test]
async fn an_answer_that_begins_waits_for_one_frame_of_those_that_have_begun() {
    let outbox = outbox(UnsignedGauge::default());
    let lane = |id| outbox.open(id, Priority::Content, 9, CancellationToken::new()).expect("a free number");
    let large = [1, 2, 3].map(lane);
    for content in &large {
        push(&outbox, content, false).await;
    }
    assert_eq!(order(&outbox), [1, 2, 3]);
    for content in &large {
        push(&outbox, content, false).await;
        push(&outbox, content, false).await;
    }
    for small in [4, 5, 6].map(lane) {
        push(&outbox, &small, true).await;
    }
    assert_eq!(order(&outbox), [4, 1, 5, 2, 6, 3, 1, 2, 3], "and neither keeps the other waiting");
}

#[tokio::test]
async fn an_answer_to_a_command_waits_neither_behind_content_nor_for_room() {
    let outbox = outbox(UnsignedGauge::default());
    let lane = |id, priority| outbox.open(id, priority, 9, CancellationToken::new()).expect("a free number");
    let full = (1..=SLOTS as u32 / SLOTS_PER_LANE as u32).map(|id| lane(id, Priority::Content));
    for content in full.collect::<Vec<_>>() {
        for last in [false, false, true] {
            assert!(push(&outbox, &content, last).await);
        }
    }
    assert!(outbox.place(&lane(98, Priority::Content)).now_or_never().is_none(), "no room for content");
    let command = lane(99, Priority::Command);
    for last in [false, true] {
        assert!(push(&outbox, &command, last).await);
    }
    assert_eq!(order(&outbox)[..3], [99, 99, 1]);
}

#[tokio::test]
async fn a_cancelled_lane_sends_nothing_and_its_number_is_free() {
    let outbox = outbox(UnsignedGauge::default());
    let old = outbox.open(7, Priority::Content, 9, CancellationToken::new()).expect("free");
    push(&outbox, &old, false).await;
    outbox.cancel(7);
    assert!(old.gone.is_cancelled());
    let new = outbox.open(7, Priority::Content, 9, CancellationToken::new()).expect("free again");
    assert!(!push(&outbox, &old, true).await, "the old answer must not go out as the new one");
    assert!(push(&outbox, &new, true).await);
    assert_eq!(order(&outbox), [7]);
}

#[tokio::test]
async fn credit_may_be_overdrawn_once_and_is_then_waited_for() {
    let outbox = outbox(UnsignedGauge::default());
    let lane = outbox.open(1, Priority::Content, 10, CancellationToken::new()).expect("free");
    assert!(lane.take_credit(0).now_or_never().is_some() && lane.take_credit(100).now_or_never().is_some());
    lane.add_credit(90);
    assert!(lane.take_credit(1).now_or_never().is_none(), "nothing is left");
    lane.add_credit(1);
    assert!(lane.take_credit(1).now_or_never().is_some());
}
#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_waited_for_so_long_and_no_longer() {
    let outbox = outbox(UnsignedGauge::default());
    let lane = outbox.open(1, Priority::Content, 0, CancellationToken::new()).expect("free");
    let taken = lane.take_credit(1).await;
    assert_eq!(taken.map_err(|error| error.kind()), Err(ErrorKind::Timeout));
    lane.add_credit(1);
    assert!(lane.take_credit(1).await.is_ok());
}

#[tokio::test]
async fn frames_of_all_connections_share_one_memory_and_commands_need_none() {
    let memory = Arc::new(AnswerMemory::new(Budget::memory(8192)));
    let connect = || Outbox::new(UnsignedGauge::default(), memory.clone(), PATIENCE);
    let (one, other) = (connect(), connect());
    let lane = |outbox: &Outbox, priority| outbox.open(1, priority, 9, CancellationToken::new()).expect("free");
    let (first, second) = (lane(&one, Priority::Content), lane(&other, Priority::Content));
    let mut held = one.place(&first).await.expect("room");
    // As much as there is in all is enough for any frame.
    one.take_memory(&mut held, &first, 1 << 20).await;
    let mut place = other.place(&second).await.expect("room");
    let mut waiting = Box::pin(other.take_memory(&mut place, &second, 1));
    assert!(waiting.as_mut().now_or_never().is_none() && memory.is_wanted());
    drop(held);
    waiting.await;
    assert!(!memory.is_wanted() && memory.acquire(8192).now_or_never().is_none());
    let command = one.open(2, Priority::Command, 9, CancellationToken::new()).expect("free");
    let mut place = one.place(&command).await.expect("room");
    assert!(one.take_memory(&mut place, &command, 1 << 20).now_or_never().is_some());
}
