//! How many pages in a row a node gets where weights say so (/sys/kernel/mm/mempolicy/weighted_interleave).
#![forbid(unsafe_code)]

use super::Nodes;
use crate::frame::MAX_NUMA_NODES;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// 0: the default.
static WEIGHTS: [AtomicU8; MAX_NUMA_NODES] = [const { AtomicU8::new(0) }; MAX_NUMA_NODES];
const DEFAULT: u8 = 1;

/// Pages in a row of `node`: 1 to 255.
pub fn weight_of(node: usize) -> u8 {
    match WEIGHTS.get(node).map_or(0, |weight| weight.load(Relaxed)) {
        0 => DEFAULT,
        weight => weight,
    }
}

/// Sets it; 0: the default.
pub fn set_weight(node: usize, weight: u8) {
    if let Some(place) = WEIGHTS.get(node) {
        place.store(weight, Relaxed);
    }
}

/// The node of `nodes` whose turn it is at place `n`.
pub(super) fn nth_of(nodes: Nodes, n: u64) -> usize {
    let each = || (0..MAX_NUMA_NODES).filter(|node| nodes >> node & 1 != 0);
    let total: u64 = each().map(|node| u64::from(weight_of(node))).sum();
    let mut place = n.checked_rem(total).unwrap_or(0);
    // A weight that changes meanwhile makes it end early or late.
    let turn = each().find(|node| {
        let weight = u64::from(weight_of(*node));
        let is_its = place < weight;
        place = place.saturating_sub(weight);
        is_its
    });
    turn.or_else(|| each().next()).unwrap_or(0)
}
