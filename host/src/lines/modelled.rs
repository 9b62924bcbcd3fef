//! What the plugin's model of a cache fetched in a window. Everything here is a model's and is said to be, wherever it is shown.
#![forbid(unsafe_code)]

use darter_measure::LineWindow;
use serde::Serialize;

use crate::size::show_bytes;

/// Ways of the plugin's model.
const WAYS: u32 = 16;

/// Per operation, all CPUs together.
#[derive(Serialize, Clone)]
pub struct ModelledCache {
    pub bytes: u64,
    pub ways: u32,
    pub fetched_local_per_op: f64,
    pub fetched_remote_per_op: f64,
    /// Of all fetched: those that another CPU had taken.
    pub taken_per_op: f64,
    /// Of all fetched, those from another node's memory.
    pub remote_part: f64,
    pub cpus: Vec<ModelledCpu>,
}

/// One CPU's, in the whole window.
#[derive(Serialize, Clone)]
pub struct ModelledCpu {
    pub cpu: u32,
    pub accesses: u64,
    pub fetched_local: u64,
    pub fetched_remote: u64,
    pub taken: u64,
}

impl ModelledCache {
    /// None: no cache was modelled.
    pub fn of(bytes: Option<u64>, window: &LineWindow, ops: u64) -> Option<ModelledCache> {
        let each = |count: u64| count as f64 / ops.max(1) as f64;
        let cpus: Vec<ModelledCpu> = window
            .cache
            .iter()
            .map(|&(cpu, accesses, fetched_local, fetched_remote, taken)| ModelledCpu {
                cpu,
                accesses,
                fetched_local,
                fetched_remote,
                taken,
            })
            .collect();
        let local: u64 = cpus.iter().map(|cpu| cpu.fetched_local).sum();
        let remote: u64 = cpus.iter().map(|cpu| cpu.fetched_remote).sum();
        Some(ModelledCache {
            bytes: bytes?,
            ways: WAYS,
            fetched_local_per_op: each(local),
            fetched_remote_per_op: each(remote),
            taken_per_op: each(cpus.iter().map(|cpu| cpu.taken).sum()),
            remote_part: remote as f64 / (local + remote).max(1) as f64,
            cpus,
        })
    }

    pub fn text(&self) -> String {
        format!(
            "modelled cache of {}, {} ways, per operation: {:.3} lines fetched, {:.3} from another node's memory ({:.0} %), {:.3} after \
             another CPU had taken them\n",
            show_bytes(self.bytes),
            self.ways,
            self.fetched_local_per_op + self.fetched_remote_per_op,
            self.fetched_remote_per_op,
            self.remote_part * 100.0,
            self.taken_per_op
        )
    }
}
