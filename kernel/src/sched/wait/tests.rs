//! Wait queues with many sleepers.

use super::*;
use std::vec::Vec;

/// Sleepers that are no task: they are woken as far as the queue goes, and leave when the test says so.
fn sleepers(queue: &WaitQueue, n: usize) -> Vec<Arc<WaitNode>> {
    put(queue, n, false)
}

fn put(queue: &WaitQueue, n: usize, exclusive: bool) -> Vec<Arc<WaitNode>> {
    let node = |_| {
        let node = Arc::new(WaitNode::of(core::ptr::null()));
        // SAFETY: the tests take it off, or end with the queue.
        unsafe { queue.put(&node, exclusive) };
        node
    };
    (0..n).map(node).collect()
}

fn woken(nodes: &[Arc<WaitNode>]) -> usize {
    nodes.iter().filter(|node| node.woken.load(Ordering::SeqCst)).count()
}

#[test]
fn of_many_some_are_woken_and_wake_the_others_on_their_way() {
    let queue = WaitQueue::new();
    let nodes = sleepers(&queue, 200);
    queue.wake_all();
    assert_eq!(woken(&nodes), 64, "in one go");
    let newcomer = sleepers(&queue, 1);
    let mut before = 64;
    for node in &nodes {
        assert!(queue.take(node), "each is woken before those who wake it are gone");
        assert!(woken(&nodes) - before <= 64, "in one go");
        before = woken(&nodes);
    }
    assert_eq!((before, woken(&newcomer), queue.has_waiters()), (200, 0, true));
    queue.wake_all();
    assert_eq!(woken(&newcomer), 1);
    assert!(queue.take(&newcomer[0]) && !queue.has_waiters());
}

/// Those who are owed a wake leave by themselves, or are woken one by one: who comes later is not forgotten.
#[test]
fn a_wake_that_is_owed_reaches_all_who_slept_at_its_time() {
    let queue = WaitQueue::new();
    let nodes = sleepers(&queue, 200);
    queue.wake_all();
    for node in &nodes[100..120] {
        assert!(!queue.take(node), "it has timed out");
    }
    queue.wake_one();
    let later = sleepers(&queue, 100);
    queue.wake_all();
    for node in nodes.iter().chain(&later) {
        queue.take(node);
    }
    assert_eq!((woken(&nodes), woken(&later), queue.has_waiters()), (180, 100, false));
}

#[test]
fn of_exclusive_sleepers_each_wake_reaches_one_and_of_the_others_all() {
    let queue = WaitQueue::new();
    let (early, takers, late) = (sleepers(&queue, 2), put(&queue, 3, true), sleepers(&queue, 2));
    queue.wake_one();
    assert_eq!((woken(&early), woken(&takers), woken(&late)), (2, 1, 2));
    queue.wake_one();
    assert!(
        takers[1].woken.load(Ordering::SeqCst) && !takers[2].woken.load(Ordering::SeqCst),
        "in their order"
    );
    queue.wake_all();
    assert_eq!((woken(&takers), queue.has_waiters()), (3, false));
}

#[test]
fn a_wake_for_one_stands_behind_many_who_share_the_change() {
    let queue = WaitQueue::new();
    let (takers, others) = (put(&queue, 3, true), sleepers(&queue, 200));
    queue.wake_one();
    assert_eq!((woken(&others), woken(&takers)), (64, 0), "in one go");
    for node in &others {
        assert!(queue.take(node));
    }
    assert_eq!((woken(&takers), queue.has_waiters()), (1, true));
}
