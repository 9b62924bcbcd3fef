//! What a NUMA node has: for /proc/buddyinfo and /sys/devices/system/node.
//!
//! Sums of counters that others change meanwhile. What a CPU keeps for itself counts as its own node's, though a little of it may be another's on its way back.
#![forbid(unsafe_code)]

use super::{MAX_ORDER, NUMA_NODES, TOTAL_OF, buddy, colour, magazine};
use core::sync::atomic::Ordering::Relaxed;
use sync::machine;

/// Memory of one node, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumaNode {
    /// What the allocator was given.
    pub total: u64,
    pub free: u64,
    /// Free blocks by order that anybody may take; single pages that wait apart, by colour, among the smallest. What CPUs keep for themselves is missing.
    pub blocks: [u64; MAX_ORDER + 1],
    /// Pages that CPUs of the node took from it, that other CPUs did, and that its CPUs took elsewhere, since the boot. A CPU takes some dozens at a time, and they
    /// count when it does.
    pub local: u64,
    pub missed: u64,
    pub foreign: u64,
    /// Pages that a policy took from it because it was wanted, or because another was; and that it was wanted for, and another taken. Those by interleaving are
    /// among the first.
    pub placed: u64,
    pub misplaced: u64,
    pub lacked: u64,
    pub interleaved: u64,
    /// Of `placed` and `misplaced`, those that CPUs of the node took.
    pub placed_near: u64,
}

/// None: there is no such node, or it has no memory.
pub fn numa_node(number: u32) -> Option<NumaNode> {
    let place = number as usize;
    let total = TOTAL_OF.get(place).map(|total| total.load(Relaxed)).filter(|total| *total > 0)?;
    let (apart, buddy) = (colour::of_numa_node(place).free(), buddy::of_numa_node(place));
    let mut blocks = buddy.blocks().map(u64::from);
    blocks[0] += apart;
    // A node without CPUs has what no CPU keeps; of CPUs of nodes beyond those that have memory it is the last one's.
    let last = NUMA_NODES.load(Relaxed).saturating_sub(1);
    let own = (0..machine::cpus()).filter(|cpu| (machine::node_of(*cpu) as usize).min(last) == place);
    let kept: u64 = own.map(|cpu| magazine::counts_of(cpu).cached).sum();
    let mut told = NumaNode { total, blocks, ..NumaNode::default() };
    for cpu in 0..machine::cpus() {
        let home = machine::node_of(cpu) as usize;
        let taken = magazine::taken_from(cpu, place);
        if home == place {
            told.local += taken;
            told.foreign +=
                (0..=last).filter(|n| *n != place).map(|n| magazine::taken_from(cpu, n)).sum::<u64>();
        } else {
            told.missed += taken;
        }
        let placed = magazine::placed_from(cpu, place);
        told.placed += placed.hits;
        told.misplaced += placed.misses;
        told.lacked += placed.lacks;
        told.interleaved += placed.interleaved;
        if home == place {
            told.placed_near += placed.hits + placed.misses;
        }
    }
    told.free = (buddy.free() + apart + kept).min(total);
    Some(told)
}
