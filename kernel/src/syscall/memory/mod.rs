//! Address spaces: mmap and its kin, brk.
//!
//! Errors come in Linux's order: a misaligned address before a bad length, a bad descriptor before bad flags of its file.
//!
//! MAP_HUGETLB is refused as by a Linux without reserved pages, MAP_SYNC as for files that no memory device holds, MAP_DROPPABLE as by a Linux
//! before 6.11. MAP_DENYWRITE, MAP_EXECUTABLE and MAP_STACK have no effect on Linux either.
#![forbid(unsafe_code)]

mod advice;
mod foreign;
mod keys;
mod limits;
mod lock;
mod policy;
mod repage;
mod seal;

pub use advice::{sys_madvise, sys_mincore, sys_msync, sys_process_madvise};
pub use foreign::{sys_process_vm_readv, sys_process_vm_writev};
pub use keys::{sys_pkey_alloc, sys_pkey_free, sys_pkey_mprotect};
pub use lock::{sys_mlock, sys_mlock2, sys_mlockall, sys_munlock, sys_munlockall};
pub use policy::{
    sys_get_mempolicy, sys_mbind, sys_migrate_pages, sys_move_pages, sys_set_mempolicy,
    sys_set_mempolicy_home_node,
};
pub use repage::sys_remap_file_pages;
pub use seal::sys_mseal;

use crate::arch::USER_END;
use crate::errno::{Errno, Result};
use crate::fs;
use crate::ipc::attach;
use crate::memory::commit;
use crate::process::personality::READ_IMPLIES_EXEC;
use crate::process::{self, Capability};
use linux_raw_sys::general as abi;
use sync::level::Held;
use sync::rcu::Lent;
use vm::addr::{PAGE_SIZE, VirtAddr};
use vm::{Backing, MapFlags, MapRequest, MremapFlags, Object, Prot};

fn protection(bits: u32) -> Result<Prot> {
    const KNOWN: u32 = abi::PROT_READ | abi::PROT_WRITE | abi::PROT_EXEC | abi::PROT_SEM;
    if bits & !(KNOWN | abi::PROT_GROWSDOWN | abi::PROT_GROWSUP) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut prot = Prot::empty();
    prot.set(Prot::READ, bits & abi::PROT_READ != 0);
    prot.set(Prot::WRITE, bits & abi::PROT_WRITE != 0);
    prot.set(Prot::EXEC, bits & abi::PROT_EXEC != 0);
    Ok(prot)
}

/// `len` in whole pages; None: none, or more than there are addresses.
fn pages(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(PAGE_SIZE).filter(|n| *n != 0)
}

/// May the caller map what vm.mmap_min_addr protects (CAP_SYS_RAWIO)?
fn may_map_low() -> bool {
    process::current().capable(Capability::SYS_RAWIO)
}

/// The flags that MAP_SHARED_VALIDATE lets a file be mapped with (Linux's LEGACY_MAP_MASK).
const VALIDATED: u32 = abi::MAP_TYPE
    | abi::MAP_FIXED
    | abi::MAP_ANONYMOUS
    | abi::MAP_DENYWRITE
    | abi::MAP_EXECUTABLE
    | abi::MAP_UNINITIALIZED
    | abi::MAP_GROWSDOWN
    | abi::MAP_LOCKED
    | abi::MAP_NORESERVE
    | abi::MAP_POPULATE
    | abi::MAP_NONBLOCK
    | abi::MAP_STACK
    | abi::MAP_HUGETLB
    | MAP_32BIT
    | abi::MAP_HUGE_2MB
    | abi::MAP_HUGE_1GB;
const MAP_32BIT: u32 = 0x40;

/// The size of MAP_HUGETLB's pages, as a power of two, lies here; 0: the usual one, 2 MiB.
const HUGE_SHIFT: u32 = 26;

/// MAP_HUGETLB. There are no large pages, as on a Linux that has none reserved.
///
/// # Errors
/// EINVAL: not of anonymous memory, or no such size. ENOMEM.
fn refuse_huge(anonymous: bool, flags: u32) -> Errno {
    let size = flags >> HUGE_SHIFT & 0x3f;
    if anonymous && matches!(size, 0 | 21 | 30) { Errno::ENOMEM } else { Errno::EINVAL }
}

/// mmap(2).
pub fn sys_mmap(hint: usize, len: usize, prot: u32, flags: u32, fd: i32, offset: usize) -> Result<usize> {
    if !offset.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let current = process::current();
    let space = current.space();
    let anonymous = flags & abi::MAP_ANONYMOUS != 0;
    let file = if anonymous { None } else { Some(current.file(fd)?) };
    if file.as_ref().is_some_and(|f| f.flags().contains(fs::OpenFlags::PATH)) {
        return Err(Errno::EBADF);
    }
    if flags & abi::MAP_HUGETLB != 0 {
        return Err(refuse_huge(anonymous, flags));
    }
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let len = pages(len).filter(|n| *n <= USER_END).ok_or(Errno::ENOMEM)?;
    if flags & FIXED != 0 {
        check_fixed(hint, len)?;
    }
    let place = || map(hint, len, prot, flags, file, offset);
    let placed = if flags & FIXED == abi::MAP_FIXED {
        attach::around(space, hint..hint.saturating_add(len), place)
    } else {
        place()
    };
    placed.map_err(|error| {
        // It says that there is no place.
        if error == Errno::EEXIST {
            return error;
        }
        // That there is no place is told before all this.
        let mut map = MapFlags::empty();
        map.set(MapFlags::FIXED, flags & FIXED != 0);
        map.set(MapFlags::NOREPLACE, flags & abi::MAP_FIXED_NOREPLACE != 0);
        map.set(MapFlags::LOW_2G, flags & MAP_32BIT != 0);
        space.check_place(VirtAddr(hint), len, map).err().map_or(error, Into::into)
    })
}

const FIXED: u32 = abi::MAP_FIXED | abi::MAP_FIXED_NOREPLACE;

/// mmap, where the address and the descriptor are good.
fn map(
    hint: usize,
    len: usize,
    prot: u32,
    flags: u32,
    file: Option<Lent<fs::File>>,
    offset: usize,
) -> Result<usize> {
    let current = process::current();
    let space = current.space();
    let anonymous = file.is_none();
    let fixed = flags & FIXED != 0;
    let locked = flags & abi::MAP_LOCKED != 0;
    if locked {
        limits::check_may_lock()?;
    }
    if locked || space.locks_future() {
        limits::check_lock_room(len)?;
    }
    // What has no size, or is memory without a file, has no place that could be too far.
    let sized = file.as_ref().is_some_and(|file| {
        matches!(file.inode().kind, fs::vfs::inode::Kind::Regular | fs::vfs::inode::Kind::Block)
    });
    if sized && (offset as u64).checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(Errno::EOVERFLOW);
    }
    let no_exec = file.as_ref().is_some_and(|f| f.is_no_exec());
    // Unknown protection bits are ignored by mmap, unlike mprotect.
    let mut prot = protection(prot & (abi::PROT_READ | abi::PROT_WRITE | abi::PROT_EXEC))?;
    if prot.contains(Prot::READ) && !no_exec && current.personality.get().has(READ_IMPLIES_EXEC) {
        prot |= Prot::EXEC;
    }
    let shared = match flags & abi::MAP_TYPE {
        abi::MAP_SHARED => true,
        // For files: flags that are not known, or not for this file, are refused.
        abi::MAP_SHARED_VALIDATE if !anonymous && flags & !VALIDATED != 0 => return Err(Errno::EOPNOTSUPP),
        abi::MAP_SHARED_VALIDATE if !anonymous => true,
        abi::MAP_PRIVATE => false,
        _ => return Err(Errno::EINVAL),
    };
    let backing = match &file {
        Some(file) => file_backing(file, prot, shared, offset as u64)?,
        None => Backing::Anonymous,
    };
    let grows_down = flags & abi::MAP_GROWSDOWN != 0;
    if grows_down && (shared || !anonymous) {
        return Err(Errno::EINVAL);
    }
    let private_write = !shared && prot.contains(Prot::WRITE);
    let replaced = if fixed { Some(hint) } else { None };
    limits::check_room(len, private_write && !grows_down, replaced)?;
    if (private_write || (shared && anonymous)) && flags & abi::MAP_NORESERVE == 0 {
        commit::check(len)?;
    }
    if !space.allows_mapping(prot) {
        return Err(Errno::EACCES);
    }
    let backing = if shared && anonymous { shared_memory(len)? } else { backing };
    let mut map = MapFlags::empty();
    map.set(MapFlags::FIXED, fixed);
    map.set(MapFlags::NOREPLACE, flags & abi::MAP_FIXED_NOREPLACE != 0);
    map.set(MapFlags::SHARED, shared);
    map.set(MapFlags::NO_WRITE, shared && file.as_ref().is_some_and(|f| !f.flags().writes()));
    map.set(MapFlags::NO_EXEC, no_exec);
    map.set(MapFlags::GROWSDOWN, grows_down);
    map.set(MapFlags::NORESERVE, flags & abi::MAP_NORESERVE != 0);
    map.set(MapFlags::LOCKED, locked);
    map.set(MapFlags::POPULATE, flags & (abi::MAP_POPULATE | abi::MAP_NONBLOCK) == abi::MAP_POPULATE);
    map.set(MapFlags::STACK, flags & abi::MAP_STACK != 0);
    map.set(MapFlags::LOW, fixed && hint < vm::USER_START);
    map.set(MapFlags::LOW_2G, flags & MAP_32BIT != 0);
    let mut request = MapRequest { hint: VirtAddr(hint & !(PAGE_SIZE - 1)), len, prot, flags: map, backing };
    if let Some(file) = &file
        && shared
        && let Some(seals) = file.inode().ops.seals()
    {
        return map_sealed(file, seals, &mut request);
    }
    Ok(space.map(&request)?.0)
}

/// Maps shared memory of `file` as its seals allow, and before more are added.
///
/// # Errors
/// EPERM: writing is sealed. It cannot be allowed later either.
fn map_sealed(file: &fs::File, seals: &fs::Seals, request: &mut MapRequest) -> Result<usize> {
    let order = &mut Held::clean();
    let _write = file.inode().lock_write(order);
    if seals.check_write().is_err() {
        if request.prot.contains(Prot::WRITE) {
            return Err(Errno::EPERM);
        }
        request.flags.insert(MapFlags::NO_WRITE);
    }
    Ok(process::current().space().map(request)?.0)
}

/// May a mapping be put at just `hint`?
///
/// # Errors
/// EINVAL: not at a page. ENOMEM: not in user memory. EPERM: too low for the caller. The last addresses of all are errors themselves.
fn check_fixed(hint: usize, len: usize) -> Result {
    if let -4095..=-1 = hint.cast_signed() {
        return Err(Errno(hint.wrapping_neg() as i32));
    }
    if hint.checked_add(len).is_none_or(|end| end > USER_END) {
        return Err(Errno::ENOMEM);
    }
    if !hint.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if hint < vm::USER_START && !may_map_low() {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// May a segment of shared memory of `len` bytes be mapped, at just that address if there is one?
///
/// # Errors
/// ENOMEM, EPERM: not there. EAGAIN: it may not be locked. EACCES.
pub(super) fn check_attach(fixed: Option<usize>, len: usize, prot: Prot) -> Result {
    let current = process::current();
    let space = current.space();
    if len > USER_END {
        return Err(Errno::ENOMEM);
    }
    if let Some(address) = fixed {
        check_fixed(address, len)?;
    }
    if space.locks_future() {
        limits::check_lock_room(len)?;
    }
    limits::check_room(len, false, fixed)?;
    if space.allows_mapping(prot) { Ok(()) } else { Err(Errno::EACCES) }
}

/// What `file` shows, for a program that wants `prot` of it.
///
/// # Errors
/// EACCES: it is not open for that. EINVAL: what a shared mapping writes would be lost. EPERM: nothing is executed from its mount. ENODEV: it cannot be mapped.
fn file_backing(file: &fs::File, prot: Prot, shared: bool, offset: u64) -> Result<Backing> {
    if !file.flags().reads() || (shared && prot.contains(Prot::WRITE) && !file.flags().writes()) {
        return Err(Errno::EACCES);
    }
    if prot.contains(Prot::EXEC) && file.is_no_exec() {
        return Err(Errno::EPERM);
    }
    // A mapping that may only read now could be allowed to write later.
    if shared && file.flags().writes() && !file.ops().takes_shared_writes() {
        return Err(Errno::EINVAL);
    }
    Ok(match file.mapping()? {
        fs::Mapping::Object(object) => Backing::Object { object, offset },
        fs::Mapping::Anonymous => Backing::Anonymous,
    })
}

/// Memory that children share: an object of its own.
fn shared_memory(len: usize) -> Result<Backing> {
    let object = Object::try_new(0)?;
    object.set_size(len as u64)?;
    Ok(Backing::Object { object, offset: 0 })
}

/// munmap(2).
#[expect(clippy::arithmetic_side_effects, reason = "start is at most USER_END")]
pub fn sys_munmap(start: usize, len: usize) -> Result<usize> {
    if !start.is_multiple_of(PAGE_SIZE) || start > USER_END || len > USER_END - start {
        return Err(Errno::EINVAL);
    }
    let len = pages(len).ok_or(Errno::EINVAL)?;
    let current = process::current();
    let space = current.space();
    attach::around(space, start..start.saturating_add(len), || Ok(space.unmap(VirtAddr(start), len)?))?;
    Ok(0)
}

/// mprotect(2).
pub fn sys_mprotect(start: usize, len: usize, prot: usize) -> Result<usize> {
    let grows = prot as u32 & (abi::PROT_GROWSDOWN | abi::PROT_GROWSUP);
    if grows == abi::PROT_GROWSDOWN | abi::PROT_GROWSUP || !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    let len = pages(len).ok_or(Errno::ENOMEM)?;
    let end = start.checked_add(len).ok_or(Errno::ENOMEM)?;
    let prot = protection(u32::try_from(prot).map_err(|_| Errno::EINVAL)?)?;
    let current = process::current();
    let space = current.space();
    let start = match grows {
        0 => start,
        abi::PROT_GROWSDOWN => space.start_of_stack(start, end.min(USER_END))?,
        // Nothing grows upward on x86-64.
        _ if space.kind_at(VirtAddr(start)).is_some() => return Err(Errno::EINVAL),
        _ => return Err(Errno::ENOMEM),
    };
    let reached = end.min(USER_END);
    if prot.contains(Prot::WRITE) {
        limits::check_data_room(start, reached)?;
        limits::check_commit(start, reached)?;
    }
    let implied = current.personality.get().has(READ_IMPLIES_EXEC);
    let protect = || Ok(space.protect_with(VirtAddr(start), reached.saturating_sub(start), prot, implied)?);
    attach::around(space, start..reached, protect)?;
    if end > USER_END { Err(Errno::ENOMEM) } else { Ok(0) }
}

/// mremap(2).
pub fn sys_mremap(old: usize, old_len: usize, new_len: usize, flags: u32, new: usize) -> Result<usize> {
    const KNOWN: u32 = abi::MREMAP_MAYMOVE | abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let mut flags = MremapFlags::from_bits_truncate(flags as u8);
    flags.set(MremapFlags::LOW, may_map_low());
    let current = process::current();
    let space = current.space();
    let more = new_len.saturating_sub(old_len);
    // What cannot be remapped is refused below, for a better reason.
    if more > 0
        && let Some((locked, is_data)) = space.kind_at(VirtAddr(old))
    {
        let room = if locked { limits::check_lock_room(more) } else { Ok(()) };
        let room = room.and_then(|()| limits::check_room(more, is_data, None));
        room.and_then(|()| if is_data { commit::check(more) } else { Ok(()) }).map_err(|error| {
            // That it is not one mapping is told first.
            if space.is_one_mapping(old, old.saturating_add(old_len)) { error } else { Errno::EFAULT }
        })?;
    }
    let remap = || Ok(space.remap(VirtAddr(old), old_len, new_len, flags, VirtAddr(new))?.0);
    // Without a length it is mapped once more.
    let at = attach::around_move(space, old..old.saturating_add(old_len.max(1)), new_len, remap)?;
    if more > 0 && space.may_have_locks() {
        let _ = space.populate_locked(at.saturating_add(old_len), at.saturating_add(new_len), true);
    }
    Ok(at)
}

/// brk(2): the new end of the heap, or the old one if it cannot be moved there.
pub fn sys_brk(want: usize) -> Result<usize> {
    let current = process::current();
    let space = current.space();
    let now = space.brk(VirtAddr(0)).0;
    if want == 0 {
        return Ok(now);
    }
    let mut prot = Prot::READ | Prot::WRITE;
    prot.set(Prot::EXEC, current.personality.get().has(READ_IMPLIES_EXEC));
    let more = want.saturating_sub(now);
    let is_too_much = || {
        let (base, data) = {
            let layout = current.process.memory.lock();
            (layout.brk, layout.data)
        };
        let heap = want.saturating_sub(base).saturating_add(data.1.saturating_sub(data.0));
        heap as u64 > current.process.limits.soft(abi::RLIMIT_DATA)
    };
    let refused = more > 0
        && (is_too_much()
            || commit::check(more).is_err()
            || limits::check_room(more, true, None).is_err()
            || (space.locks_future() && limits::check_lock_room(more).is_err()));
    if refused {
        return Ok(now);
    }
    let move_end = || Ok(space.brk_with(VirtAddr(want), prot).0);
    let end = if want < now { attach::around(space, want..now, move_end)? } else { move_end()? };
    if end > now && space.locks_future() {
        let _ = space.populate_locked(now, end, true);
    }
    Ok(end)
}
