//! Where pages come from, in an arena of two nodes. One test at a time: they count free frames.

extern crate std;

use super::*;
use crate::frame::tests::arena;
use crate::frame::{free_frames, give_back_if_called, numa_node};
use std::vec::Vec;
use sync::machine::hosted::as_cpu;

/// A CPU of node 0, which no other test uses.
const CPU: u32 = 90;

fn of(mode: Mode, nodes: u64) -> Policy {
    note_use();
    Policy::new(mode, Naming::Plain, nodes).expect("the nodes have memory")
}

/// The nodes of pages at places `0..n`.
fn nodes_of(policy: Policy, n: u64) -> Vec<usize> {
    let page = |page| Place { policy, page }.alloc_zeroed().expect("memory");
    as_cpu(CPU, || (0..n).map(|n| page(n).frame().numa_node()).collect())
}

#[test]
fn pages_come_from_the_nodes_of_their_policy() {
    let _one = arena();
    assert_eq!(nodes_of(Policy::NONE, 3), [0; 3]);
    assert_eq!(nodes_of(of(Mode::Local, 0), 3), [0; 3]);
    assert_eq!(nodes_of(of(Mode::Preferred, 2), 3), [1; 3]);
    assert_eq!(nodes_of(of(Mode::Bind, 2), 3), [1; 3]);
    assert_eq!(nodes_of(of(Mode::Bind, 3), 3), [0; 3]);
    assert_eq!(nodes_of(of(Mode::Bind, 3).with_home(1), 3), [1; 3]);
    assert_eq!(nodes_of(of(Mode::PreferredMany, 2), 3), [1; 3]);
    assert_eq!(nodes_of(of(Mode::Interleave, 3), 5), [0, 1, 0, 1, 0]);
    assert_eq!(nodes_of(of(Mode::Interleave, 2), 3), [1; 3]);
    assert_eq!(nodes_of(of(Mode::WeightedInterleave, 3), 4), [0, 1, 0, 1]);
    set_weight(1, 3);
    assert_eq!(nodes_of(of(Mode::WeightedInterleave, 3), 9), [0, 1, 1, 1, 0, 1, 1, 1, 0]);
    set_weight(1, 0);
}

#[test]
fn interleaved_pages_are_counted_by_node() {
    let _one = arena();
    let counts = || [0, 1].map(|node| numa_node(node).expect("a node with memory"));
    let before = counts();
    nodes_of(of(Mode::Interleave, 3), 10);
    let after = counts();
    for node in [0, 1] {
        assert_eq!(after[node].interleaved - before[node].interleaved, 5);
        assert_eq!(after[node].placed - before[node].placed, 5);
    }
    assert_eq!(after[1].placed_near, before[1].placed_near, "the CPU is of the other node");
}

#[test]
fn a_bound_page_comes_from_nowhere_else_and_a_preferred_one_does() {
    let _one = arena();
    as_cpu(CPU, || {
        let before = free_frames();
        let bound = Place { policy: of(Mode::Bind, 2), page: 0 };
        let taken: Vec<_> = core::iter::from_fn(|| bound.alloc_dirty()).collect();
        assert!(taken.iter().all(|page| page.frame().numa_node() == 1));
        assert_eq!(bound.exhausted(), FaultError::NoneBound);
        let preferred = Place { policy: of(Mode::Preferred, 2), page: 0 };
        assert_eq!(preferred.alloc_dirty().expect("node 0 has memory").frame().numa_node(), 0);
        assert!(on_node(1).is_none() && on_node(0).is_some());
        drop(taken);
        assert_eq!(free_frames(), before);
        give_back_if_called();
        // Single pages join to blocks again, which other tests want.
        crate::frame::hosted::each_large_block(|_| ());
    });
}

#[test]
fn nodes_are_named_by_number_or_by_their_place_among_those_with_memory() {
    let _one = arena();
    let new =
        |naming, nodes| Policy::new(Mode::Bind, naming, nodes).map(|policy| (policy.told(), policy.nodes()));
    assert_eq!(new(Naming::Plain, 7), Some((3, 3)));
    assert_eq!(new(Naming::Plain, 4), None);
    assert_eq!(new(Naming::Static, 7), Some((7, 3)));
    assert_eq!(new(Naming::Static, 4), None);
    assert_eq!(new(Naming::Relative, 8), Some((8, 2)));
    assert_eq!(new(Naming::Relative, 1 << 40), Some((1, 1)));
    assert_eq!(new(Naming::Relative, 0), None);
    assert_eq!(onto(0b101, 0b1011), 0b1001);
    let first = Policy::new(Mode::Preferred, Naming::Plain, 3).expect("there are such nodes");
    assert_eq!((first.told(), first.nodes()), (1, 1));
}

#[test]
fn a_task_that_interleaves_takes_turns() {
    let _one = arena();
    let task = TaskPolicy::new();
    assert_eq!(task.next(), None);
    let policy = of(Mode::Interleave, 3);
    task.set(policy);
    assert_eq!(task.next(), Some(0));
    assert_eq!([(); 3].map(|()| task.advance(policy)), [0, 1, 0]);
    assert_eq!(task.copy().next(), Some(1));
    set_weight(0, 2);
    let policy = of(Mode::WeightedInterleave, 3);
    task.set(policy);
    assert_eq!([(); 5].map(|()| task.advance(policy)), [0, 0, 1, 0, 0]);
    assert_eq!(task.next(), Some(1));
    set_weight(0, 0);
}
