//! /proc/PID/smaps and smaps_rollup: how much of each mapping is in memory, and who else has it (proc_pid_smaps(5)).
//!
//! What Darter does not do is 0: pages are not merged (KSM) or freed lazily, and none of a file is large. Every page that is mapped counts as
//! referenced, since its entry says so from the start. Private memory is dirty; a page of a file is dirty where nothing but memory has it.
//! The page of zeros belongs to nobody and is not counted, as on Linux.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap;
use vm::{MappedPage, MappingInfo, PageKind, Prot};

use super::Seen;
use crate::arch::USER_END;
use crate::errno::{ENOMEM, Result};
use crate::memory::Space;
use crate::process::{Process, Thread};
use crate::procfs::space::maps;
use crate::procfs::text::Text;

const PAGE_KIB: u64 = 4;
/// Shares of a page are counted in parts of so much, as Linux counts them.
const PSS_SHIFT: u32 = 12;

/// Sizes: pages, and bytes << `PSS_SHIFT` of what is divided by who have it.
#[derive(Default)]
struct Sums {
    resident: u64,
    shared_clean: u64,
    shared_dirty: u64,
    private_clean: u64,
    private_dirty: u64,
    anonymous: u64,
    large: u64,
    /// In swap.
    swapped: u64,
    pss: u64,
    pss_dirty: u64,
    pss_anon: u64,
    pss_file: u64,
    pss_shmem: u64,
    pss_locked: u64,
    pss_swapped: u64,
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "counts of pages in memory, below 2^40 and so below 2^64 parts"
)]
impl Sums {
    fn add(&mut self, page: &MappedPage, locked: bool) {
        let (dirty, part) = match page.kind {
            PageKind::Zero => return,
            PageKind::Private => (true, &mut self.pss_anon),
            PageKind::Object { paged: true } => (false, &mut self.pss_file),
            PageKind::Object { paged: false } => (true, &mut self.pss_shmem),
        };
        let share = (4096 << PSS_SHIFT) / u64::from(page.mappers.max(1));
        *part += share;
        self.pss += share;
        self.resident += 1;
        if page.kind == PageKind::Private {
            self.anonymous += 1;
        }
        if dirty {
            self.pss_dirty += share;
        }
        if locked {
            self.pss_locked += share;
        }
        *match (page.is_exclusive(), dirty) {
            (true, true) => &mut self.private_dirty,
            (true, false) => &mut self.private_clean,
            (false, true) => &mut self.shared_dirty,
            (false, false) => &mut self.shared_clean,
        } += 1;
    }

    /// The pages of a mapping.
    fn gather(&mut self, space: &Space, m: &MappingInfo<'_>) {
        space.for_each_page(m.start..m.end, &mut |page| self.add(page, m.locked));
        space.for_each_swapped(m.start..m.end, &mut |mappers| {
            self.swapped += 1;
            self.pss_swapped += (4096 << PSS_SHIFT) / u64::from(mappers.max(1));
        });
        if m.object.is_none() {
            self.large += space.large_pages_in(m.start..m.end) as u64;
        }
    }

    /// The rows that smaps and the rollup have both, but that the rollup alone tells `kinds`, what the share is of.
    fn write(&self, kinds: bool, text: &mut Text<'_>) -> Result {
        let pss = |bytes: u64| bytes >> (PSS_SHIFT + 10);
        let kib = |pages: u64| pages * PAGE_KIB;
        let row = |text: &mut Text<'_>, name: &str, value: u64| {
            text.put(name)?;
            text.padded(value, 8, " kB\n")
        };
        row(text, "Rss:            ", kib(self.resident))?;
        row(text, "Pss:            ", pss(self.pss))?;
        row(text, "Pss_Dirty:      ", pss(self.pss_dirty))?;
        if kinds {
            row(text, "Pss_Anon:       ", pss(self.pss_anon))?;
            row(text, "Pss_File:       ", pss(self.pss_file))?;
            row(text, "Pss_Shmem:      ", pss(self.pss_shmem))?;
        }
        for (name, value) in [
            ("Shared_Clean:   ", kib(self.shared_clean)),
            ("Shared_Dirty:   ", kib(self.shared_dirty)),
            ("Private_Clean:  ", kib(self.private_clean)),
            ("Private_Dirty:  ", kib(self.private_dirty)),
            ("Referenced:     ", kib(self.resident)),
            ("Anonymous:      ", kib(self.anonymous)),
            ("KSM:            ", 0),
            ("LazyFree:       ", 0),
            ("AnonHugePages:  ", kib(self.large)),
            ("ShmemPmdMapped: ", 0),
            ("FilePmdMapped:  ", 0),
            ("Shared_Hugetlb: ", 0),
            ("Private_Hugetlb: ", 0),
            ("Swap:           ", kib(self.swapped)),
            ("SwapPss:        ", pss(self.pss_swapped)),
            ("Locked:         ", pss(self.pss_locked)),
        ] {
            // The one name that is a letter longer has a column less.
            let width = if name.len() > 16 { 7 } else { 8 };
            text.put(name)?;
            text.padded(value, width, " kB\n")?;
        }
        Ok(())
    }
}

/// What smaps tells of a mapping.
#[expect(clippy::arithmetic_side_effects, reason = "an end is not before its start")]
pub fn smaps(seen: &Seen<'_>, m: &MappingInfo<'_>, out: &mut Vec<u8>) -> Result {
    maps::row(seen, m, out)?;
    let mut sums = Sums::default();
    sums.gather(seen.space, m);
    let text = &mut Text(out);
    text.put("Size:           ")?;
    text.padded(((m.end - m.start) / 1024) as u64, 8, " kB\nKernelPageSize: ")?;
    text.padded(PAGE_KIB, 8, " kB\nMMUPageSize:    ")?;
    text.padded(PAGE_KIB, 8, " kB\n")?;
    sums.write(false, text)?;
    text.put("THPeligible:    ")?;
    text.padded(u64::from(m.large_eligible), 8, "\nVmFlags: ")?;
    for (has, letters) in flags(m) {
        text.put(if has { letters } else { "" })?;
    }
    text.put("\n")
}

/// The flags that Linux knows a mapping by (Documentation/filesystems/proc.rst), in its order, as far as Darter has them.
fn flags(m: &MappingInfo<'_>) -> [(bool, &'static str); 16] {
    [
        (m.prot.contains(Prot::READ), "rd "),
        (m.prot.contains(Prot::WRITE), "wr "),
        (m.prot.contains(Prot::EXEC), "ex "),
        (m.shared && m.may_write, "sh "),
        (true, "mr "),
        (m.may_write, "mw "),
        (m.may_exec, "me "),
        (m.shared, "ms "),
        (m.growsdown, "gd "),
        (m.locked, "lo "),
        (m.no_fork, "dc "),
        (m.locked_on_fault, "lf "),
        (m.wipe_on_fork, "wf "),
        (m.no_dump, "dd "),
        (m.asks_large, "hg "),
        (m.refuses_large, "nh "),
    ]
}

/// The sums of all mappings.
pub fn rollup(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let mut sums = Sums::default();
    let (mut first, mut end) = (None, 0);
    let look = |space: &Space| {
        space.for_each_mapping(&mut |m| {
            first.get_or_insert(m.start);
            end = m.end.min(USER_END);
            sums.gather(space, m);
        });
    };
    if process.look_at_space(look).is_none() {
        return Ok(());
    }
    let first = first.unwrap_or(0);
    write!(heap::Text(out), "{first:08x}-{end:08x} ---p 00000000 00:00 0 ").map_err(|_| ENOMEM)?;
    maps::finish_line(out, 0, [b"[rollup]", b""])?;
    sums.write(true, &mut Text(out))
}
