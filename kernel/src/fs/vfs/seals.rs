//! Seals of a memory file (fcntl(2), F_ADD_SEALS): what nobody does to its contents any more.
//!
//! Seals are added, and asked before a change, under the inode's lock of writes; a shared mapping is made under it, too. So after F_SEAL_WRITE
//! nothing changes. Whether the file is mapped for writing is asked of the spaces of all processes, by whom the seal is added: mappings
//! count nothing for it.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use sync::level::Held;

use super::inode::Inode;
use crate::errno::{EBUSY, EINVAL, EPERM, Result};
use crate::fs::caller;

/// No more seals.
pub const SEAL: u32 = 1;
const SHRINK: u32 = 2;
const GROW: u32 = 4;
const WRITE: u32 = 8;
/// As `WRITE`, but what is mapped stays writable.
const FUTURE_WRITE: u32 = 16;
/// Execute permissions stay as they are.
pub const EXEC: u32 = 32;
const ALL: u32 = 63;
/// What Linux writes at a time: a large page of its page cache.
const PIECE: u64 = 2 << 20;

/// The seals of a file.
pub struct Seals(AtomicU32);

impl Seals {
    pub fn new(seals: u32) -> Seals {
        Seals(AtomicU32::new(seals))
    }

    /// F_GET_SEALS.
    pub fn get(&self) -> u32 {
        self.0.load(SeqCst)
    }

    pub fn has(&self, any: u32) -> bool {
        self.get() & any != 0
    }

    /// May the contents be written, or shared memory of them be mapped for writing?
    ///
    /// # Errors
    /// EPERM.
    pub fn check_write(&self) -> Result {
        if self.has(WRITE | FUTURE_WRITE) { Err(EPERM) } else { Ok(()) }
    }

    /// May the size become `to`?
    ///
    /// # Errors
    /// EPERM.
    pub fn check_size(&self, now: u64, to: u64) -> Result {
        let refused = to < now && self.has(SHRINK) || to > now && self.has(GROW);
        if refused { Err(EPERM) } else { Ok(()) }
    }

    /// May fallocate work up to `end`, in a file of `now` bytes? It has no effect on the size with FALLOC_FL_KEEP_SIZE, and is refused all
    /// the same, as on Linux.
    ///
    /// # Errors
    /// EPERM.
    pub fn check_allocate(&self, punches: bool, now: u64, end: u64) -> Result {
        if punches { self.check_write() } else { self.check_size(now, end.max(now)) }
    }

    /// How many of `len` bytes may be written at `at`, of a file of `size` bytes. The piece that would make it grow is refused whole.
    ///
    /// # Errors
    /// EPERM: none.
    fn writable(&self, at: u64, len: usize, size: u64) -> Result<usize> {
        self.check_write()?;
        if !self.has(GROW) || at.saturating_add(len as u64) <= size {
            return Ok(len);
        }
        let whole = size.saturating_sub(size % PIECE).saturating_sub(at);
        if whole == 0 { Err(EPERM) } else { Ok(usize::try_from(whole).unwrap_or(len)) }
    }
}

/// How many of `len` bytes that are to be written at `at` the seals of `inode` allow, if it has any. Its lock of writes is held.
///
/// # Errors
/// EPERM.
pub fn allowed(inode: &Inode, at: u64, len: usize) -> Result<usize> {
    match inode.ops.seals() {
        Some(seals) if len > 0 => seals.writable(at, len, inode.size()),
        _ => Ok(len),
    }
}

/// F_ADD_SEALS, of a file that is open for writing.
///
/// # Errors
/// EPERM: the file takes no more seals. EINVAL: it is no memory file, or there is no such seal. EBUSY: it is mapped
/// for writing.
pub fn add(inode: &Inode, seals: u32) -> Result {
    if seals & !ALL != 0 {
        return Err(EINVAL);
    }
    let order = &mut Held::clean();
    let _write = inode.lock_write(order);
    let Some(held) = inode.ops.seals() else {
        // What was not made to be sealed is sealed against that; what holds no data cannot be sealed at all.
        return Err(if inode.object().is_some() { EPERM } else { EINVAL });
    };
    if held.has(SEAL) {
        return Err(EPERM);
    }
    if seals & WRITE != 0
        && !held.has(WRITE)
        && let Some(object) = inode.object()
        && caller::is_mapped_writable(&object)
    {
        return Err(EBUSY);
    }
    // Nobody changes what can be executed.
    let implied =
        if seals & EXEC != 0 && inode.mode() & 0o111 != 0 { SHRINK | GROW | WRITE | FUTURE_WRITE } else { 0 };
    held.0.fetch_or(seals | implied, SeqCst);
    Ok(())
}
