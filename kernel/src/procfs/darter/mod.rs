//! What Darter alone tells of itself: /proc/darter, /proc/latency and /proc/lockstat. All that Linux has too lies elsewhere.
#![forbid(unsafe_code)]

pub mod contention;
pub mod cpus;
pub mod groups;
pub mod latency;
pub mod lockstat;
pub mod samples;
#[cfg(feature = "lockdep")]
pub mod stack;
pub mod tlb;
pub mod users;
pub mod virtio;
