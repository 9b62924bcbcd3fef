//! What files ask of the process that calls, in one place: the border to `process`.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use super::tty::Tty;
use super::{FileTable, FsContext};
use crate::errno::Result;

pub struct Credentials { pub uid: u32, pub gid: u32, pub fsuid: u32, pub fsgid: u32, pub groups: alloc::vec::Vec<u32> }
pub fn credentials() -> Arc<Credentials> { Arc::new(Credentials { uid: 0, gid: 0, fsuid: 0, fsgid: 0, groups: alloc::vec::Vec::new() }) }

pub fn file_size_limit() -> u64 { u64::MAX }
pub fn signal_file_size() {}
pub fn signal_pipe() {}
pub fn is_dying() -> bool { false }
pub fn pid() -> u32 { 1 }
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

pub fn files() -> Arc<FileTable> { loop {} }
pub fn context() -> Arc<FsContext> { loop {} }
/// RLIMIT_NOFILE.
pub fn descriptor_limit() -> usize { 1024 }
/// Until the call ends this mask holds.
pub fn set_temporary_mask(_: u64) -> Result { Ok(()) }
/// Does any process have something open on the mount, or stand in it?
pub fn uses_mount(_: &super::mount::Mount) -> bool { false }
