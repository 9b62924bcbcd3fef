//! What a program tells and asks of its pages, or of another's: madvise, process_madvise, msync, mincore.
#![forbid(unsafe_code)]

use super::pages;
use crate::arch::USER_END;
use crate::errno::{Errno, Result};
use crate::fs::file::buffer::Segment;
use crate::fs::file::mapped::{self, Mapped};
use crate::fs::file::truncate;
use crate::ipc::attach;
use crate::memory::Space;
use crate::memory::user::UserSlice;
use crate::process::access::{self, By};
use crate::process::{self, Capability};
use crate::sched::give_way;
use crate::syscall::file::{file, segments};
use crate::syscall::process::pidfd;
use core::ptr;
use linux_raw_sys::general as abi;
use vm::addr::{LEAF_SPAN, PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use vm::{Advice, Collapsed, MappingInfo, Prot, VmError};

/// madvise(2). Advice that is only a hint is taken without effect.
pub fn sys_madvise(start: usize, len: usize, advice: i32) -> Result<usize> {
    madvise(process::current().space(), start, len, advice).map(|()| 0)
}

/// process_madvise(2): advice for parts of the memory of the process that descriptor `fd` is of. Returns how many bytes it was given for, if for any.
///
/// # Errors
/// EINVAL: flags, or advice that is not given for others. EBADF, ESRCH, EACCES, EPERM: of the process. EFAULT; as madvise.
pub fn sys_process_madvise(
    fd: i32,
    segments_at: usize,
    count: usize,
    advice: i32,
    flags: u32,
) -> Result<usize> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let segments = segments(segments_at, count)?;
    let file = file(fd)?;
    let descriptor = pidfd::of(&file)?;
    let other = if descriptor.is_own() { None } else { Some(descriptor.process().ok_or(Errno::ESRCH)?) };
    let for_others = [abi::MADV_COLD, abi::MADV_PAGEOUT, abi::MADV_WILLNEED, abi::MADV_COLLAPSE];
    if !for_others.contains(&advice.cast_unsigned()) {
        return Err(Errno::EINVAL);
    }
    let caller = process::current();
    let Some(other) = other else { return advise_parts(caller.space(), &segments, advice) };
    let in_other = |space: &Space| {
        // Who has the same memory may always.
        if !ptr::eq(space, caller.space()) {
            if !access::may_inspect(&caller, &other, By::FsIds) {
                return Err(Errno::EACCES);
            }
            // It changes what the other gets of the machine.
            if !caller.capable(Capability::SYS_NICE) {
                return Err(Errno::EPERM);
            }
        }
        advise_parts(space, &segments, advice)
    };
    other.look_at_space(in_other).ok_or(Errno::ESRCH)?
}

/// Gives `advice` for one segment of `space` after the other, until it is refused for one.
///
/// # Errors
/// As madvise, for the first.
fn advise_parts(space: &Space, segments: &[Segment], advice: i32) -> Result<usize> {
    let mut done = 0usize;
    for segment in segments {
        match madvise(space, segment.addr, segment.len, advice) {
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
            Ok(()) => done = done.saturating_add(segment.len),
        }
        if give_way() {
            break;
        }
    }
    Ok(done)
}

/// Gives `advice` for memory of `space`: the caller's own, if it is more than process_madvise(2) can give.
fn madvise(space: &Space, start: usize, len: usize, advice: i32) -> Result {
    let change = match u32::try_from(advice).map_err(|_| Errno::EINVAL)? {
        abi::MADV_DONTNEED => Some(Advice::DontNeed),
        abi::MADV_DONTNEED_LOCKED => Some(Advice::DontNeedLocked),
        abi::MADV_FREE => Some(Advice::Free),
        abi::MADV_POPULATE_READ => Some(Advice::PopulateRead),
        abi::MADV_POPULATE_WRITE => Some(Advice::PopulateWrite),
        abi::MADV_DONTFORK => Some(Advice::DontFork),
        abi::MADV_DOFORK => Some(Advice::DoFork),
        abi::MADV_WIPEONFORK => Some(Advice::WipeOnFork),
        abi::MADV_KEEPONFORK => Some(Advice::KeepOnFork),
        abi::MADV_DONTDUMP => Some(Advice::DontDump),
        abi::MADV_DODUMP => Some(Advice::DoDump),
        abi::MADV_REMOVE
        | abi::MADV_COLLAPSE
        | abi::MADV_MERGEABLE
        | abi::MADV_UNMERGEABLE
        | abi::MADV_NORMAL
        | abi::MADV_RANDOM
        | abi::MADV_SEQUENTIAL
        | abi::MADV_WILLNEED => None,
        abi::MADV_HUGEPAGE => Some(Advice::Large),
        abi::MADV_NOHUGEPAGE => Some(Advice::NoLarge),
        abi::MADV_COLD | abi::MADV_PAGEOUT => Some(Advice::Cold),
        _ => return Err(Errno::EINVAL),
    };
    if !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(());
    }
    let len = pages(len).ok_or(Errno::EINVAL)?;
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    // Above user memory nothing is mapped, which is said when the rest is done.
    let reached = end.min(USER_END);
    let result = if start < reached { advise(space, start, reached, advice, change) } else { Ok(()) };
    match result.and(if end == reached { Ok(()) } else { Err(Errno::ENOMEM) }) {
        Err(Errno::ENOMEM) if change.is_some_and(needs_own_pages) && holds_clock(space, start, reached) => {
            Err(Errno::EINVAL)
        }
        result => result,
    }
}

/// Does Linux refuse the advice for what is the kernel's own?
fn needs_own_pages(advice: Advice) -> bool {
    matches!(
        advice,
        Advice::DontNeed
            | Advice::DontNeedLocked
            | Advice::Free
            | Advice::Cold
            | Advice::DoFork
            | Advice::DoDump
    )
}

/// Does the kernel's clock ([vvar]) lie in `start..end`? That is told before holes. (Asked only when there are some, since it costs a walk.)
fn holds_clock(space: &Space, start: usize, end: usize) -> bool {
    let Some(vdso) = crate::arch::vdso() else { return false };
    let clock = vdso.data.share();
    let mut holds = false;
    space.for_each_mapping_in(start..end, &mut |m| {
        holds |= m.object.is_some_and(|object| ptr::eq(object, &*clock));
    });
    holds
}

/// Is it kept with the mapping, which may come apart by it?
fn splits(advice: Advice) -> bool {
    matches!(
        advice,
        Advice::DontFork
            | Advice::DoFork
            | Advice::DontDump
            | Advice::DoDump
            | Advice::Large
            | Advice::NoLarge
    )
}

/// Gives the advice for `start..end`, which is user memory, as pages; `change` is what it changes.
fn advise(space: &Space, start: usize, end: usize, advice: i32, change: Option<Advice>) -> Result {
    if let Some(change) = change {
        let advise = || {
            space.advise(VirtAddr(start), end.saturating_sub(start), change).map_err(|e| match e {
                VmError::TooMany => Errno::EAGAIN,
                // To populate what is not mapped.
                VmError::Fault if !is_mapped(space, start, end) => Errno::ENOMEM,
                e => e.into(),
            })
        };
        return if splits(change) { attach::around(space, start..end, advise) } else { advise() };
    }
    match advice.cast_unsigned() {
        abi::MADV_REMOVE => for_each_part(space, start, end, |m| remove(m, end))?,
        abi::MADV_COLLAPSE => for_each_part(space, start, end, |m| collapse(space, m, end))?,
        _ => {}
    }
    if is_mapped(space, start, end) { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// Calls `f` with the mappings of which something lies in `start..end`, until one of them is refused.
fn for_each_part(
    space: &Space,
    start: usize,
    end: usize,
    mut f: impl FnMut(&MappingInfo<'_>) -> Result,
) -> Result {
    let mut result = Ok(());
    space.for_each_mapping_in(start..end, &mut |m| {
        if result.is_ok() {
            result = f(m);
        }
    });
    result
}

/// MADV_REMOVE of a mapping up to `end`: a hole in what it shares.
///
/// # Errors
/// EPERM: sealed, and such that its pages stay. EINVAL: locked, or nothing is shared. EACCES: private, or it may never be written.
fn remove(m: &MappingInfo<'_>, end: usize) -> Result {
    if m.sealed && m.object.is_none() && !m.prot.contains(Prot::WRITE) {
        return Err(Errno::EPERM);
    }
    let (Some(object), false) = (m.object, m.locked) else { return Err(Errno::EINVAL) };
    if !m.shared || !m.may_write {
        return Err(Errno::EACCES);
    }
    // The first begins at `start` or later.
    let len = end.min(m.end).saturating_sub(m.start) as u64;
    // As a hole that is punched into the file: that counts as a write.
    match mapped::inode_of(object) {
        Some(inode) => truncate::punch(&inode, m.offset, len),
        None => Ok(object.punch(m.offset >> PAGE_SHIFT, m.offset.saturating_add(len) >> PAGE_SHIFT)?),
    }
}

/// MADV_COLLAPSE of a mapping up to `end`: large pages of all that lies whole in the range.
///
/// # Errors
/// EINVAL: the mapping has none, or is none that may (Linux takes shared memory too), or there was nothing to write somewhere. EAGAIN: others changed it meanwhile. ENOMEM: there are no blocks.
fn collapse(space: &Space, m: &MappingInfo<'_>, end: usize) -> Result {
    if m.object.is_some() || m.refuses_large || space.refuses_large() || !has_whole_leaf(space, m) {
        return Err(Errno::EINVAL);
    }
    let mut result = Ok(());
    let mut at = m.start.next_multiple_of(LEAF_SPAN);
    let end = end.min(m.end);
    while let Some(next) = at.checked_add(LEAF_SPAN).filter(|next| *next <= end) {
        match space.collapse(VirtAddr(at)) {
            Collapsed::Done => {}
            Collapsed::NothingWritable => result = Err(Errno::EINVAL),
            Collapsed::Busy => result = Err(Errno::EAGAIN),
            Collapsed::Refused => return Err(Errno::EINVAL),
            Collapsed::NoMemory => return Err(Errno::ENOMEM),
            Collapsed::Interrupted => return Err(Errno::EINTR),
        }
        at = next;
    }
    result
}

/// Does the mapping, which may begin before the part that is told of in `m`, have a whole leaf somewhere?
fn has_whole_leaf(space: &Space, m: &MappingInfo<'_>) -> bool {
    let fits = |start: usize, end: usize| {
        start
            .checked_next_multiple_of(LEAF_SPAN)
            .and_then(|at| at.checked_add(LEAF_SPAN))
            .is_some_and(|at| at <= end)
    };
    let mut has = fits(m.start, m.end);
    if !has {
        let near = m.start.saturating_sub(LEAF_SPAN.saturating_mul(2));
        space.for_each_mapping_in(near..m.end, &mut |whole| {
            has |= whole.end == m.end && fits(whole.start, whole.end)
        });
    }
    has
}

/// Is every page of `start..end` mapped?
fn is_mapped(space: &Space, start: usize, end: usize) -> bool {
    let mut reached = start;
    space.for_each_mapping_in(start..end, &mut |m| {
        if m.start == reached {
            reached = m.end;
        }
    });
    reached >= end
}

/// msync(2). With MS_SYNC what was written through shared mappings goes where it lasts, of files that keep it elsewhere: of each file that is mapped there, all of it.
pub fn sys_msync(start: usize, len: usize, flags: u32) -> Result<usize> {
    const KNOWN: u32 = abi::MS_ASYNC | abi::MS_INVALIDATE | abi::MS_SYNC;
    if flags & !KNOWN != 0
        || !start.is_multiple_of(PAGE_SIZE)
        || flags & (abi::MS_ASYNC | abi::MS_SYNC) == abi::MS_ASYNC | abi::MS_SYNC
    {
        return Err(Errno::EINVAL);
    }
    // A length that is zero once it is rounded up, past the last address too, is nothing to do.
    if len > 0usize.wrapping_sub(PAGE_SIZE) {
        return Ok(0);
    }
    let current = process::current();
    let space = current.space();
    space.sync(VirtAddr(start), len, flags & abi::MS_INVALIDATE != 0)?;
    if flags & abi::MS_SYNC != 0 {
        write_back(space, start..start.saturating_add(len))?;
    }
    Ok(0)
}

/// Writes the files back of which `range` shows pages that are shared.
///
/// # Errors
/// The first that came.
fn write_back(space: &Space, range: core::ops::Range<usize>) -> Result {
    let mut written = Ok(());
    space.for_each_mapping_in(range, &mut |mapping| {
        let Some(object) = mapping.object.filter(|object| mapping.shared && object.is_tracked()) else {
            return;
        };
        let file = object.label().and_then(|label| label.downcast_ref::<Mapped>()).and_then(Mapped::inode);
        let said = file.map_or(Err(Errno::EIO), |inode| inode.ops.fsync(&inode, true));
        written = written.and(said);
    });
    written
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
        let found = space.incore(VirtAddr(at), n * PAGE_SIZE, &mut |resident| {
            if let Some(byte) = bytes.get_mut(count) {
                *byte = u8::from(resident);
            }
            count += 1;
        });
        // Of what lies before a hole, too.
        let told = count.min(n);
        UserSlice::new(to, told).write(&bytes[..told])?;
        found?;
        if crate::sched::give_way() {
            return Err(Errno::EINTR);
        }
        at = at.checked_add(n * PAGE_SIZE).ok_or(Errno::ENOMEM)?;
        to = to.checked_add(n).ok_or(Errno::EFAULT)?;
        left -= n;
    }
    Ok(0)
}
