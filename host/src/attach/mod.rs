//! A machine that runs, as `top`, `lockstat` and `flame` of another process see it.
//!
//! The process that owns a machine listens at a socket (`place`) while the machine runs, and tells who connects which machine it is. Who asks for more sends a request,
//! which goes to the guest's init, and gets what init sends (`wire`; host/src/relay/attached is the owner's side, `client` the other one). One watches at a
//! time. However the watcher goes, its connection closes, and init sets back what it had set.
//!
//! Both sides take the other one only as a process of the same user.
#![forbid(unsafe_code)]

mod choose;
mod client;
pub mod place;
pub mod wire;

pub use choose::{Running, choose};
pub use client::{Attaching, watch};
