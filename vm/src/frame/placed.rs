//! Frames from the NUMA nodes that a policy names (`crate::policy`).
//!
//! A frame that waits on this CPU for its way home (`magazine`, far) is as good as one from its node's lists, and those are where a CPU keeps what it
//! took from another node beforehand, half a batch at a time. So a page from another node takes no lock either, most of the time.
//!
//! What has its node's memory, in this order: this CPU's chain for the node, this CPU's depot if the node is its own, the node's colour lists, its buddy, the
//! depots of its CPUs. Only of the last two steps others see anything but batches.
//!
//! Nothing here sleeps. Lock order: FrameList, one at a time.

use super::magazine::{self, AHEAD};
use super::{Frame, MAX_NUMA_NODES, buddy, colour, depot};
use crate::policy::Choice;
use sync::machine;

/// Batches that are taken for a node without a frame of it among them, before it counts as empty: depots may have frames of other nodes.
const TRIES: usize = 4;

/// Takes a frame; its contents are unspecified.
pub(super) fn take(choice: &Choice) -> Option<&'static Frame> {
    crate::order::assert_no_node_locked();
    let allowed = in_turn(choice.first).filter(|node| choice.allowed >> node & 1 != 0);
    let frame = allowed.into_iter().find_map(from_node).or_else(|| {
        let rest = in_turn(choice.first).filter(|node| choice.allowed >> node & 1 == 0);
        let frame = if choice.others { rest.into_iter().find_map(from_node) } else { None };
        // The last frames are those that other CPUs keep, whatever node they are of.
        frame.or_else(|| if choice.others { magazine::take() } else { None })
    })?;
    magazine::count_placed(frame.numa_node(), choice);
    Some(frame)
}

/// The nodes that have memory, `first` first.
fn in_turn(first: usize) -> impl Iterator<Item = usize> {
    let nodes = super::nodes_with_memory();
    (0..MAX_NUMA_NODES).map(move |i| (first + i) % MAX_NUMA_NODES).filter(move |node| nodes >> node & 1 != 0)
}

fn from_node(node: usize) -> Option<&'static Frame> {
    for _ in 0..TRIES {
        if let Some(frame) = magazine::take_far(node) {
            return Some(frame);
        }
        let mut batch = [0; AHEAD];
        let taken = fill(node, &mut batch);
        if taken == 0 {
            return None;
        }
        batch[..taken].iter().for_each(|number| magazine::put_far(Frame::by_number(*number)));
    }
    None
}

/// Fills `out` with free frames that are likely to be of `node`; says how many.
fn fill(node: usize, out: &mut [u32]) -> usize {
    let cpu = machine::cpu_id();
    let is_own = machine::node_of(cpu) as usize == node;
    let own = if is_own { depot::this().take(out) } else { 0 };
    if own > 0 {
        return own;
    }
    match colour::of_numa_node(node).take(cpu as usize % colour::COLOURS, out) {
        0 => {}
        taken => return taken,
    }
    match buddy::of_numa_node(node).take_pages(out) {
        0 => depot::take_of_node(node, out),
        taken => taken,
    }
}
