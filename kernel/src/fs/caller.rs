//! What files ask of the process that calls, in one place: the border to `process`.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use super::tty::Tty;

pub use crate::process::{Credentials, credentials};

pub fn file_size_limit() -> u64 { crate::process::file_size_limit() }
pub fn signal_file_size() { crate::process::signal_file_size() }
pub fn signal_pipe() { crate::process::signal_pipe() }
pub fn is_dying() -> bool { crate::process::is_dying() }
pub fn pid() -> u32 { crate::process::current_pid() }
pub fn session() -> u32 { 0 }
pub fn group() -> u32 { 0 }
pub fn is_session_leader() -> bool { false }
pub fn is_root() -> bool { credentials().uid == 0 }
pub fn controlling_tty() -> Option<Arc<Tty>> { None }
pub fn set_controlling_tty(_: Option<Arc<Tty>>) {}
pub fn drop_session_tty(_: u32) {}
pub fn signal_group(_: u32, _: u32) {}
pub fn is_ignored(_: u32) -> bool { false }
pub fn is_orphaned() -> bool { false }
pub fn session_of_group(_: u32) -> Option<u32> { None }
