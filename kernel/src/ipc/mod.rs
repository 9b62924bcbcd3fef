//! System V IPC: segments of shared memory, sets of semaphores, queues of messages (sysvipc(7)).
//!
//! * `ids`     the table of a kind: numbers and keys, and what they lead to
//! * `perm`    whose an object is, and who may use it
//! * `limits`  what /proc/sys/kernel sets
//! * `shm`     segments; `attach` where a space has them attached
//! * `sem/`    sets, operations on them and who waits for them; `undo` what is taken back at an exit
//! * `msg/`    queues and messages
//!
//! An object is found by its number under RCU, and has a lock of its own: who uses different objects writes no common line. Making and removing write
//! lines of the CPU's part of the table, and of the bucket of the key if there is one.
//!
//! Removed: who has found an object locks it and looks whether it was removed meanwhile (`EIDRM`). What was removed is in no table, and is dropped
//! behind a grace period.
//!
//! LockOrder: attachments of a space → space (sleeping); list of undo → object → wait queue; bucket of keys → (nothing).
#![deny(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod attach;
mod ids;
pub mod limits;
pub mod msg;
mod perm;
pub mod sem;
pub mod shm;

pub use perm::{NewOwner, Shown};

use crate::arch;

/// Of `flags` of the calls that make objects, and of those that wait.
pub const CREATE: u32 = 0o1000;
pub const EXCLUSIVE: u32 = 0o2000;
pub const NO_WAIT: u32 = 0o4000;

/// Seconds since 1970.
fn now() -> i64 {
    (arch::time::now().saturating_add(arch::time::wall_offset()) / 1_000_000_000).cast_signed()
}
