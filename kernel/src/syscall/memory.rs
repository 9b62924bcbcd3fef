//! Address spaces: mmap and its kin, brk.
//!
//! Errors come in Linux's order: a misaligned address before a bad length, a bad descriptor before bad flags of its file.
#![forbid(unsafe_code)]

use crate::arch::USER_END;
use crate::errno::{Errno, Result};
use crate::fs;
use crate::memory::Space;
use crate::memory::user::UserSlice;
use crate::process;
use linux_raw_sys::general as abi;
use sync::level::Held;
use vm::addr::{PAGE_SIZE, VirtAddr};
use vm::{Advice, Backing, MapFlags, MapRequest, MremapFlags, Object, Prot};

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

/// Calls `f` with the caller's space, without counting a reference: threads that change their mappings at once write no
/// common line for it.
fn with_space<R>(f: impl FnOnce(&Space) -> R) -> R {
    f(process::current().space())
}

/// May the space grow by `more` bytes (RLIMIT_AS)? The sum over the mappings is made only for those who have a limit.
///
/// # Errors
/// ENOMEM.
#[expect(clippy::arithmetic_side_effects, reason = "counts of pages of user memory")]
fn check_room(more: usize) -> Result {
    let limit = process::limit_now(abi::RLIMIT_AS);
    if limit == process::limits::INFINITY {
        return Ok(());
    }
    let now = with_space(|space| space.usage().virtual_pages) as u64 * PAGE_SIZE as u64;
    if now.saturating_add(more as u64) > limit { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// What can never be backed is refused at once: more than all memory (the heuristic of vm.overcommit_memory=0).
///
/// # Errors
/// ENOMEM.
#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
fn check_commit(len: usize) -> Result {
    let all = vm::frame::total_frames() as u64 * PAGE_SIZE as u64;
    if len as u64 > all { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// May the caller map what vm.mmap_min_addr protects (CAP_SYS_RAWIO)?
fn may_map_low() -> bool {
    process::current().ids().is_root()
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

/// mmap(2).
pub fn sys_mmap(hint: usize, len: usize, prot: u32, flags: u32, fd: i32, offset: usize) -> Result<usize> {
    if !offset.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let anonymous = flags & abi::MAP_ANONYMOUS != 0;
    let file = if anonymous { None } else { Some(process::current().files().get(fd)?) };
    if file.as_ref().is_some_and(|f| f.flags().contains(fs::OpenFlags::PATH)) {
        return Err(Errno::EBADF);
    }
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let len = pages(len).filter(|n| *n <= USER_END).ok_or(Errno::ENOMEM)?;
    if (offset as u64).checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(Errno::EOVERFLOW);
    }
    // Unknown protection bits are ignored by mmap, unlike mprotect.
    let prot = protection(prot & (abi::PROT_READ | abi::PROT_WRITE | abi::PROT_EXEC))?;
    let shared = match flags & abi::MAP_TYPE {
        abi::MAP_SHARED => true,
        // For files: flags that are not known, or not for this file, are refused.
        abi::MAP_SHARED_VALIDATE if !anonymous && flags & !VALIDATED != 0 => return Err(Errno::EOPNOTSUPP),
        abi::MAP_SHARED_VALIDATE if !anonymous => true,
        abi::MAP_PRIVATE => false,
        _ => return Err(Errno::EINVAL),
    };
    let fixed = flags & (abi::MAP_FIXED | abi::MAP_FIXED_NOREPLACE) != 0;
    if fixed {
        if !hint.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        if hint.checked_add(len).is_none_or(|end| end > USER_END) {
            return Err(Errno::ENOMEM);
        }
        if hint < vm::USER_START && !may_map_low() {
            return Err(Errno::EPERM);
        }
    }
    // A fixed mapping may take the place of another; then it is judged a little too hard.
    check_room(len)?;
    let private_write = !shared && prot.contains(Prot::WRITE);
    if (private_write || (shared && anonymous)) && flags & abi::MAP_NORESERVE == 0 {
        check_commit(len)?;
    }
    let backing = match &file {
        Some(file) => file_backing(file, prot, shared, offset as u64)?,
        None if shared => shared_memory(len)?,
        None => Backing::Anonymous,
    };
    let mut map = MapFlags::empty();
    map.set(MapFlags::FIXED, fixed);
    map.set(MapFlags::NOREPLACE, flags & abi::MAP_FIXED_NOREPLACE != 0);
    map.set(MapFlags::SHARED, shared);
    map.set(MapFlags::NO_WRITE, shared && file.as_ref().is_some_and(|f| !f.flags().writes()));
    map.set(MapFlags::GROWSDOWN, flags & abi::MAP_GROWSDOWN != 0);
    map.set(MapFlags::NORESERVE, flags & abi::MAP_NORESERVE != 0);
    map.set(
        MapFlags::POPULATE,
        flags & (abi::MAP_POPULATE | abi::MAP_LOCKED) != 0 && flags & abi::MAP_NONBLOCK == 0,
    );
    map.set(MapFlags::STACK, flags & abi::MAP_STACK != 0);
    map.set(MapFlags::LOW, fixed && hint < vm::USER_START);
    let mut request = MapRequest { hint: VirtAddr(hint & !(PAGE_SIZE - 1)), len, prot, flags: map, backing };
    if let Some(file) = &file
        && shared
        && let Some(seals) = file.inode().ops.seals()
    {
        return map_sealed(file, seals, &mut request);
    }
    Ok(process::current().space().map(&request)?.0)
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

/// What `file` shows, for a program that wants `prot` of it.
///
/// # Errors
/// EACCES: it is not open for that. ENODEV: it cannot be mapped.
fn file_backing(file: &fs::File, prot: Prot, shared: bool, offset: u64) -> Result<Backing> {
    if !file.flags().reads() || (shared && prot.contains(Prot::WRITE) && !file.flags().writes()) {
        return Err(Errno::EACCES);
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
    process::current().space().unmap(VirtAddr(start), len)?;
    Ok(0)
}

/// mprotect(2).
pub fn sys_mprotect(start: usize, len: usize, prot: u32) -> Result<usize> {
    let grows = prot & (abi::PROT_GROWSDOWN | abi::PROT_GROWSUP);
    if grows == abi::PROT_GROWSDOWN | abi::PROT_GROWSUP || !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    let len = pages(len).ok_or(Errno::ENOMEM)?;
    let prot = protection(prot)?;
    if start.checked_add(len).is_none_or(|end| end > USER_END) {
        return Err(Errno::ENOMEM);
    }
    process::current().space().protect(VirtAddr(start), len, prot)?;
    Ok(0)
}

/// mremap(2).
#[expect(clippy::arithmetic_side_effects, reason = "compared just before")]
pub fn sys_mremap(old: usize, old_len: usize, new_len: usize, flags: u32, new: usize) -> Result<usize> {
    const KNOWN: u32 = abi::MREMAP_MAYMOVE | abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let mut flags = MremapFlags::from_bits_truncate(flags as u8);
    flags.set(MremapFlags::LOW, may_map_low());
    if new_len > old_len {
        check_room(new_len - old_len)?;
    }
    Ok(process::current().space().remap(VirtAddr(old), old_len, new_len, flags, VirtAddr(new))?.0)
}

/// brk(2): the new end of the heap, or the old one if it cannot be moved there.
#[expect(clippy::arithmetic_side_effects, reason = "compared just before")]
pub fn sys_brk(want: usize) -> Result<usize> {
    let current = process::current();
    let base = current.process.memory.lock().brk;
    let data = current.process.limits.soft(abi::RLIMIT_DATA);
    let now = current.space().brk(VirtAddr(0)).0;
    let refused = want > now
        && ((want - base.min(want)) as u64 > data
            || check_commit(want - now).is_err()
            || check_room(want - now).is_err());
    if refused {
        return Ok(now);
    }
    Ok(current.space().brk(VirtAddr(want)).0)
}

/// madvise(2). Advice that is only a hint is taken without effect.
pub fn sys_madvise(start: usize, len: usize, advice: i32) -> Result<usize> {
    let change = match u32::try_from(advice).map_err(|_| Errno::EINVAL)? {
        abi::MADV_DONTNEED => Some(Advice::DontNeed),
        abi::MADV_FREE => Some(Advice::Free),
        abi::MADV_POPULATE_READ => Some(Advice::PopulateRead),
        abi::MADV_POPULATE_WRITE => Some(Advice::PopulateWrite),
        abi::MADV_DONTFORK => Some(Advice::DontFork),
        abi::MADV_DOFORK => Some(Advice::DoFork),
        abi::MADV_WIPEONFORK => Some(Advice::WipeOnFork),
        abi::MADV_KEEPONFORK => Some(Advice::KeepOnFork),
        abi::MADV_NORMAL
        | abi::MADV_RANDOM
        | abi::MADV_SEQUENTIAL
        | abi::MADV_WILLNEED
        | abi::MADV_HUGEPAGE
        | abi::MADV_NOHUGEPAGE
        | abi::MADV_DONTDUMP
        | abi::MADV_DODUMP
        | abi::MADV_COLD
        | abi::MADV_PAGEOUT => None,
        _ => return Err(Errno::EINVAL),
    };
    if !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    let len = pages(len).ok_or(Errno::EINVAL)?;
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    if end > USER_END {
        return Err(Errno::ENOMEM);
    }
    let current = process::current();
    let space = current.space();
    if let Some(change) = change {
        space.advise(VirtAddr(start), len, change)?;
    } else if !is_mapped(space, start, end) {
        return Err(Errno::ENOMEM);
    }
    Ok(0)
}

/// Is every page of `start..end` mapped?
fn is_mapped(space: &Space, start: usize, end: usize) -> bool {
    let mut reached = start;
    space.for_each_mapping(&mut |m| {
        if m.start <= reached && m.end > reached {
            reached = m.end;
        }
    });
    reached >= end
}

/// msync(2). Files live in memory, so there is nothing to write.
pub fn sys_msync(start: usize, len: usize, flags: u32) -> Result<usize> {
    const KNOWN: u32 = abi::MS_ASYNC | abi::MS_INVALIDATE | abi::MS_SYNC;
    if flags & !KNOWN != 0
        || !start.is_multiple_of(PAGE_SIZE)
        || flags & (abi::MS_ASYNC | abi::MS_SYNC) == abi::MS_ASYNC | abi::MS_SYNC
    {
        return Err(Errno::EINVAL);
    }
    process::current().space().sync(VirtAddr(start), len)?;
    Ok(0)
}

fn check_mapped(start: usize, len: usize) -> Result<usize> {
    if len == 0 {
        return Ok(0);
    }
    let len = pages(len).ok_or(Errno::ENOMEM)?;
    let end = start.checked_add(len).filter(|e| *e <= USER_END).ok_or(Errno::ENOMEM)?;
    if is_mapped(process::current().space(), start, end) { Ok(0) } else { Err(Errno::ENOMEM) }
}

/// mincore(2).
#[expect(clippy::arithmetic_side_effects, reason = "at most CHUNK pages a turn, and not more than are left")]
pub fn sys_mincore(start: usize, len: usize, to: usize) -> Result<usize> {
    if !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let current = process::current();
    let space = current.space();
    const CHUNK: usize = 256;
    let (mut at, mut left, mut to) = (start, len.div_ceil(PAGE_SIZE), to);
    while left > 0 {
        let n = left.min(CHUNK);
        let (mut bytes, mut count) = ([0u8; CHUNK], 0);
        space.incore(VirtAddr(at), n * PAGE_SIZE, &mut |resident| {
            if let Some(byte) = bytes.get_mut(count) {
                *byte = u8::from(resident);
            }
            count += 1;
        })?;
        UserSlice::new(to, n).write(&bytes[..n])?;
        if crate::sched::give_way() {
            return Err(Errno::EINTR);
        }
        at = at.checked_add(n * PAGE_SIZE).ok_or(Errno::ENOMEM)?;
        to = to.checked_add(n).ok_or(Errno::EFAULT)?;
        left -= n;
    }
    Ok(0)
}

/// mlock(2) and munlock(2): nothing is ever swapped out.
#[expect(clippy::arithmetic_side_effects, reason = "lead is the lower part of start")]
pub fn sys_mlock(start: usize, len: usize) -> Result<usize> {
    let lead = start % PAGE_SIZE;
    check_mapped(start - lead, len.checked_add(lead).ok_or(Errno::EINVAL)?)
}

/// mlock2(2).
pub fn sys_mlock2(start: usize, len: usize, flags: u32) -> Result<usize> {
    if flags & !abi::MLOCK_ONFAULT != 0 {
        return Err(Errno::EINVAL);
    }
    sys_mlock(start, len)
}

/// mlockall(2).
pub fn sys_mlockall(flags: u32) -> Result<usize> {
    const KNOWN: u32 = abi::MCL_CURRENT | abi::MCL_FUTURE | abi::MCL_ONFAULT;
    if flags == 0 || flags & !KNOWN != 0 || flags == abi::MCL_ONFAULT { Err(Errno::EINVAL) } else { Ok(0) }
}

/// munlockall(2).
pub fn sys_munlockall() -> Result<usize> {
    Ok(0)
}
