//! Where a space has segments of shared memory attached (shmat(2), shmdt(2)).
//!
//! A space that has none has an empty pointer, which every operation on mappings looks at. The first shmat makes a list, in the order of addresses: an entry
//! for each mapping of a segment, as Linux counts them. Who changes mappings of such a space does so under the list's lock, and then sets the list
//! right in the range that he changed, by what is mapped there (`settle`). Entries keep their segments; what memory may be used is the mappings' to say, so a list that is wrong
//! for a moment is a wrong count and no more.
//!
//! Lock order: the list (sleeping) → space → segment.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use sync::{Mutex, MutexGuard, TryVec, lock_class, try_box, try_vec};
use vm::addr::{PAGE_SIZE, VirtAddr};
use vm::{Backing, MapFlags, MapRequest, OnceBox, Prot, VmError};

use super::shm::{self, Segment};
use crate::arch::USER_END;
use crate::errno::{EINVAL, ENOMEM, Result};
use crate::lock_order as level;
use crate::memory::Space;
use crate::sched::futex::PrivateFutexes;

lock_class! { static ATTACHMENTS: LockClass = ("attached segments", level::Attachments); }

/// Entries that a change of one range adds at the most: what its borders cut, and a second place of what it moves.
const ROOM: usize = 8;

/// What the kernel keeps with a space.
#[derive(Default)]
pub struct Attached {
    pub futexes: PrivateFutexes,
    pub segments: Attachments,
}

impl vm::Attached for Attached {
    fn end(&mut self, sleeps: bool) {
        self.segments.end(sleeps);
    }
}

/// A mapping of a segment.
struct Entry {
    start: usize,
    end: usize,
    /// Bytes into the segment.
    offset: usize,
    segment: Arc<Segment>,
}

type List = Vec<Entry>;
type Guard<'a> = MutexGuard<'a, List, level::Attachments>;

/// The segments that a space has attached.
#[derive(Default)]
pub struct Attachments(OnceBox<Mutex<List, level::Attachments>>);

impl Attachments {
    fn list(&self) -> Option<&Mutex<List, level::Attachments>> {
        self.0.get()
    }

    fn list_or_make(&self) -> Result<&Mutex<List, level::Attachments>> {
        self.0.get_or_try(|| Ok(try_box(Mutex::new(Vec::new(), &ATTACHMENTS))?))
    }

    /// The space ends. Gives way, if the caller may sleep.
    pub fn end(&mut self, sleeps: bool) {
        let Some(list) = self.0.get_mut() else { return };
        for entry in list.get_mut().drain(..) {
            entry.segment.change(0, 1, false, true);
            drop(entry);
            if sleeps && sync::machine::should_give_way() {
                let _ = sync::machine::give_way();
            }
        }
    }
}

/// Makes `change` of mappings in `range` of `space`, and counts anew what is attached there.
///
/// # Errors
/// Those of `change`; ENOMEM.
#[inline]
pub fn around<R>(space: &Space, range: Range<usize>, change: impl FnOnce() -> Result<R>) -> Result<R> {
    match space.attached().segments.list() {
        None => change(),
        Some(list) => around_attached(space, list, range, change, |_| None),
    }
}

/// The same for a `change` that moves what is in `range` to where it says, which becomes `len` bytes.
///
/// # Errors
/// Those of `change`; ENOMEM.
#[inline]
pub fn around_move(
    space: &Space,
    range: Range<usize>,
    len: usize,
    change: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    match space.attached().segments.list() {
        None => change(),
        Some(list) => around_attached(space, list, range, change, |at| Some(*at..at.saturating_add(len))),
    }
}

#[inline(never)]
fn around_attached<R>(
    space: &Space,
    list: &Mutex<List, level::Attachments>,
    range: Range<usize>,
    change: impl FnOnce() -> Result<R>,
    moved_to: impl FnOnce(&R) -> Option<Range<usize>>,
) -> Result<R> {
    let mut list = list.lock();
    reserve(&mut list)?;
    // Part of it may have been done when it failed.
    let result = change();
    // Where it is now comes first: a segment whose last mapping was moved is not let go in between.
    let moved = result.as_ref().ok().and_then(moved_to);
    let was_attached = !overlapping(&list, &range).is_empty();
    if let Some(to) = moved
        && (was_attached || !overlapping(&list, &to).is_empty())
    {
        settle(space, &mut list, to);
    }
    if !overlapping(&list, &range).is_empty() {
        settle(space, &mut list, range);
    }
    result
}

/// Room for a change of a range.
fn reserve(list: &mut List) -> Result {
    list.try_reserve(ROOM).map_err(|_| ENOMEM)
}

/// Which entries have something in `range`.
fn overlapping(list: &List, range: &Range<usize>) -> Range<usize> {
    let first = list.partition_point(|entry| entry.end <= range.start);
    let end = list.partition_point(|entry| entry.start < range.end);
    first..end.max(first)
}

/// Puts in place of the entries in `range` what is mapped there.
fn settle(space: &Space, list: &mut List, range: Range<usize>) {
    let old = overlapping(list, &range);
    let whole = list.get(old.clone()).unwrap_or_default();
    let from = whole.first().map_or(range.start, |entry| entry.start.min(range.start));
    let to = whole.last().map_or(range.end, |entry| entry.end.max(range.end)).min(USER_END);
    let bytes: usize =
        whole.iter().map(|entry| entry.end.saturating_sub(entry.start)).fold(0, usize::saturating_add);
    let mut at = old.start;
    let mut left = old.len();
    let mut found = 0usize;
    let mut gone: Option<Entry> = None;
    space.for_each_mapping_in(from..to, &mut |m| {
        let Some(segment) = m.object.and_then(Segment::of) else { return };
        found = found.saturating_add(m.end.saturating_sub(m.start));
        let entry = Entry { start: m.start, end: m.end, offset: m.offset as usize, segment };
        if left > 0
            && let Some(place) = list.get_mut(at)
        {
            left = left.saturating_sub(1);
            replace(place, entry);
        } else {
            entry.segment.change(1, 0, true, false);
            if let Err(entry) = list.insert_reserved(at, entry) {
                // Another thread has mapped more meanwhile than this change could: it is not counted.
                entry.segment.change(0, 1, false, false);
                return;
            }
        }
        at = at.saturating_add(1);
    });
    for entry in list.drain(at.min(list.len())..at.saturating_add(left).min(list.len())) {
        entry.segment.change(0, 1, false, true);
        gone = Some(entry);
    }
    // A part was cut off: on Linux that comes and goes.
    if gone.is_none()
        && found < bytes
        && let Some(entry) = list.get(at.saturating_sub(1))
    {
        entry.segment.change(1, 1, true, true);
    }
}

/// Puts `new` where `old` was.
fn replace(old: &mut Entry, new: Entry) {
    if !Arc::ptr_eq(&old.segment, &new.segment) {
        new.segment.change(1, 0, true, false);
        old.segment.change(0, 1, false, true);
    }
    *old = new;
}

/// What `make` gives, a copy of `space` for a child of fork, with what that has attached.
///
/// # Errors
/// Those of `make`; ENOMEM.
#[inline]
pub fn fork(space: &Space, make: impl FnOnce() -> Result<Arc<Space>>) -> Result<Arc<Space>> {
    match space.attached().segments.list() {
        None => make(),
        Some(list) => inherit(&list.lock(), make),
    }
}

fn inherit(list: &Guard<'_>, make: impl FnOnce() -> Result<Arc<Space>>) -> Result<Arc<Space>> {
    let child = make()?;
    let copied = copy(list, &child);
    if let Err(error) = copied {
        Space::let_go(child);
        return Err(error);
    }
    Ok(child)
}

fn copy(list: &Guard<'_>, child: &Space) -> Result {
    if list.is_empty() {
        return Ok(());
    }
    let mut copies = child.attached().segments.list_or_make()?.lock_nested();
    *copies = try_vec(list.len())?;
    for entry in list.iter() {
        // What is not for children (MADV_DONTFORK) is not mapped there.
        let mut is_there = false;
        child.for_each_mapping_in(entry.start..entry.end, &mut |m| is_there |= m.object.is_some());
        if is_there {
            let (start, end, offset, segment) = (entry.start, entry.end, entry.offset, entry.segment.clone());
            segment.change(1, 0, true, false);
            copies.try_push(Entry { start, end, offset, segment })?;
        }
    }
    Ok(())
}

/// How a segment is attached.
pub struct Asked {
    pub prot: Prot,
    /// Of a mode: what the caller has to be allowed.
    pub rights: u32,
    /// It takes the place of what is there.
    pub replaces: bool,
    /// At just the address.
    pub fixed: bool,
    pub map: MapFlags,
}

/// shmat(2): maps segment `id`, at `address` if that is `fixed`. `check` says whether as many bytes may be mapped there.
///
/// # Errors
/// EINVAL, EACCES, EIDRM, ENOMEM; those of `check`.
pub fn attach(
    space: &Space,
    id: i32,
    address: usize,
    asked: &Asked,
    check: &dyn Fn(usize) -> Result,
) -> Result<usize> {
    let segment = shm::TABLE.find(id)?;
    segment.begin(asked.rights)?;
    let mapped = map(space, &segment, address, asked, check);
    segment.finish(mapped.is_ok());
    mapped
}

fn map(
    space: &Space,
    segment: &Arc<Segment>,
    address: usize,
    asked: &Asked,
    check: &dyn Fn(usize) -> Result,
) -> Result<usize> {
    let len = usize::try_from(segment.size).ok().and_then(|size| size.checked_next_multiple_of(PAGE_SIZE));
    let len = len.ok_or(ENOMEM)?;
    let mut list = space.attached().segments.list_or_make()?.lock();
    reserve(&mut list)?;
    if asked.fixed && address != 0 && !asked.replaces {
        let end = address.checked_add(len).ok_or(EINVAL)?;
        if has_mapping(space, address..end) {
            return Err(EINVAL);
        }
    }
    check(len)?;
    let mut flags = asked.map;
    flags.set(MapFlags::FIXED, asked.fixed);
    flags.set(MapFlags::NOREPLACE, asked.fixed && address != 0 && !asked.replaces);
    let request = MapRequest {
        hint: VirtAddr(address),
        len,
        prot: asked.prot,
        flags,
        backing: Backing::Object { object: segment.object(), offset: 0 },
    };
    let start = match space.map(&request) {
        Ok(start) => start.0,
        // Another thread has mapped something there just now.
        Err(VmError::Exists) => return Err(EINVAL),
        Err(error) => return Err(error.into()),
    };
    let end = start.saturating_add(len);
    // What it has replaced goes.
    let gone = overlapping(&list, &(start..end));
    if !gone.is_empty() {
        // What is left of others at the borders is counted by what is mapped, and so is this one, once more.
        settle(space, &mut list, start..end);
        segment.change(0, 1, false, false);
        return Ok(start);
    }
    let entry = Entry { start, end, offset: 0, segment: segment.clone() };
    if let Err(entry) = list.insert_reserved(gone.start, entry) {
        debug_assert!(false, "no room was reserved");
        entry.segment.change(0, 1, false, false);
    }
    Ok(start)
}

fn has_mapping(space: &Space, range: Range<usize>) -> bool {
    let mut found = false;
    let range = range.start..range.end.min(USER_END);
    if !range.is_empty() {
        space.for_each_mapping_in(range, &mut |_| found = true);
    }
    found
}

/// shmdt(2): unmaps what is left of the segment that was attached at `address`.
///
/// # Errors
/// EINVAL: none was.
pub fn detach(space: &Space, address: usize) -> Result {
    let mut list = space.attached().segments.list().ok_or(EINVAL)?.lock();
    let begins = |entry: &Entry| entry.start.checked_sub(address) == Some(entry.offset);
    let first = list.partition_point(|entry| entry.start < address);
    let rest = list.get(first..).unwrap_or_default();
    let first = first.saturating_add(rest.iter().position(begins).ok_or(EINVAL)?);
    let segment = list.get(first).ok_or(EINVAL)?.segment.clone();
    let len = usize::try_from(segment.size).unwrap_or(usize::MAX);
    let end = address.saturating_add(len.checked_next_multiple_of(PAGE_SIZE).unwrap_or(len));
    let mut at = first;
    while let Some(entry) = list.get(at) {
        if at != first && entry.end > end {
            break;
        }
        if !begins(entry) || !Arc::ptr_eq(&entry.segment, &segment) {
            at = at.saturating_add(1);
            continue;
        }
        let (start, len) = (entry.start, entry.end.saturating_sub(entry.start));
        match space.unmap(VirtAddr(start), len) {
            // What is sealed stays, and as on Linux nobody is told.
            Err(VmError::Sealed) => {
                at = at.saturating_add(1);
                continue;
            }
            unmapped => unmapped?,
        }
        let gone = list.remove(at);
        gone.segment.change(0, 1, false, true);
        if crate::sched::give_way() {
            break;
        }
    }
    Ok(())
}
