//! Wait queues with many sleepers.

use super::*;
use std::vec::Vec;

/// Sleepers that are no task: they are woken as far as the queue goes, and leave when the test says so.
fn sleepers(queue: &WaitQueue, n: usize) -> Vec<Arc<WaitNode>> {
    let node = |_| {
        let node = Arc::new(WaitNode::new());
        queue.put(&node, false);
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
