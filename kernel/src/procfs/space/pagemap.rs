//! /proc/PID/pagemap: eight bytes for each page of a space (proc_pid_pagemap(5)).
//!
//! | bits | what |
//! |---|---|
//! | 63 | the page is mapped |
//! | 61 | it is a file's, or memory that programs share |
//! | 56 | no other space has it |
//! | 54 to 0 | the number of its frame, for who opened the file with CAP_SYS_ADMIN; else 0 |
//!
//! Nothing is in swap (62), changes are not tracked (55, 57).
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Weak;
use core::any::Any;

use sync::try_box;
use vm::addr::{PAGE_SHIFT, PAGE_SIZE};
use vm::{MappedPage, PageKind};

use crate::arch::USER_END;
use crate::errno::{EINVAL, ENOENT, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::file::buffer::Output;
use crate::fs::file::{File, FileOps, Order};
use crate::memory::{HeldSpace, Space};
use crate::procfs::task::who::{Who, check_access};

/// Bytes for a page.
const ENTRY: usize = 8;
/// Pages that are looked at at a time.
const PART: usize = 32;

const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;

struct Pagemap {
    /// None: there was none when the file was opened.
    space: Option<Weak<Space>>,
    shows_frames: bool,
}

/// # Errors
/// ENOENT, EACCES, ENOMEM.
pub fn open(who: Who) -> Result<Box<dyn FileOps>> {
    let process = who.process().ok_or(ENOENT)?;
    check_access(&process)?;
    let space = process.space().map(|space| space.downgrade());
    Ok(try_box(Pagemap { space, shows_frames: caller::capable(Capability::SYS_ADMIN) })?)
}

impl Pagemap {
    fn entry(&self, page: &MappedPage) -> u64 {
        let kind = match page.kind {
            PageKind::Object { .. } => OF_FILE,
            PageKind::Private | PageKind::Zero => 0,
        };
        let exclusive = page.kind != PageKind::Zero && page.is_exclusive();
        let frame = if self.shows_frames { page.frame.addr().0 >> PAGE_SHIFT } else { 0 };
        PRESENT | kind | if exclusive { EXCLUSIVE } else { 0 } | frame
    }
}

impl FileOps for Pagemap {
    fn read(&self, _: &File, at: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        let space = self.space.as_ref().and_then(Weak::upgrade).map(HeldSpace::new);
        let Some(space) = space else { return Ok(0) };
        if !at.is_multiple_of(ENTRY as u64) || !out.left().is_multiple_of(ENTRY) {
            return Err(EINVAL);
        }
        let first = usize::try_from(at >> ENTRY.ilog2()).ok().and_then(|page| page.checked_mul(PAGE_SIZE));
        let mut now = first.unwrap_or(USER_END);
        while now < USER_END && out.left() > 0 && !out.faulted() {
            let pages = (out.left() / ENTRY).min(PART).min(USER_END.saturating_sub(now) / PAGE_SIZE);
            let end = now.saturating_add(pages.saturating_mul(PAGE_SIZE));
            let mut entries = [[0; ENTRY]; PART];
            let whole = space.for_each_page(now..end, &mut |page| {
                let place = page.addr.saturating_sub(now) / PAGE_SIZE;
                if let Some(entry) = entries.get_mut(place) {
                    *entry = self.entry(page).to_ne_bytes();
                }
            });
            if !whole || pages == 0 {
                break;
            }
            out.put(entries.get(..pages).unwrap_or(&[]).as_flattened());
            now = end;
        }
        out.result()
    }

    fn seeks(&self) -> bool {
        true
    }

    /// As in /proc/PID/mem.
    fn seek(&self, _: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        const SEEK_SET: u32 = 0;
        const SEEK_CUR: u32 = 1;
        match whence {
            SEEK_SET => Ok(offset.cast_unsigned()),
            SEEK_CUR => Ok(now.wrapping_add_signed(offset)),
            _ => Err(EINVAL),
        }
    }

    fn has_unsigned_places(&self) -> bool {
        true
    }

    fn can_write(&self) -> bool {
        false
    }

    fn splices(&self) -> bool {
        false
    }

    fn takes_flags(&self, _: bool) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
