//! /proc/sys/vm (proc_sys_vm(5)).
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::errno::{EACCES, EINVAL, Result};
use crate::fs::vfs::cache::shrink;
use crate::memory::commit;
use crate::process::{self, exec};
use crate::procfs::entry::{Entry, Setting, What};
use crate::procfs::knobs::kernel::{integer, line, setting, shown, unsigned};
use crate::sched;

pub static VM: &[Entry] = &[
    Entry {
        name: "drop_caches",
        what: What::Asked(&Setting { read: |_| Err(EACCES), write: Some(drop_caches) }),
    },
    setting(
        "legacy_va_layout",
        &Setting {
            read: |out| line(out, u64::from(exec::is_layout_legacy())),
            write: Some(|data| integer(data).map(|n| exec::set_layout_legacy(n != 0))),
        },
    ),
    setting(
        "max_map_count",
        &Setting { read: |out| line(out, vm::max_mappings() as u64), write: Some(set_max_mappings) },
    ),
    setting("mmap_min_addr", &Setting { read: |out| line(out, 65_536), write: None }),
    Entry {
        name: "mmap_rnd_bits",
        what: What::Hidden(&Setting { read: |out| line(out, exec::MMAP_BITS.into()), write: None }),
    },
    // Who is chosen when memory is out is told, and no more.
    shown!("oom_dump_tasks", 0),
    shown!("oom_kill_allocating_task", 0),
    shown!("overcommit_kbytes", 0),
    setting("overcommit_memory", &Setting { read: overcommit, write: Some(set_overcommit) }),
    setting("overcommit_ratio", &Setting { read: |out| line(out, 50), write: None }),
    shown!("panic_on_oom", 0),
    setting("swappiness", &Setting { read: |out| line(out, 60), write: None }),
    shown!("zone_reclaim_mode", 0),
];

/// 1: pages of files that can be read again go, 2: names and inodes that nobody needs, 3: both. 4 keeps quiet about it from then on.
fn drop_caches(data: &[u8]) -> Result {
    static QUIET: AtomicU32 = AtomicU32::new(0);
    let what = integer(data)?;
    if !(1..=4).contains(&what) {
        return Err(EINVAL);
    }
    if what & 1 != 0 {
        shrink::shed_pages(u64::MAX);
    }
    // A tree goes one level at a time.
    let mut left = usize::MAX;
    while what & 2 != 0 && shrink::names() < left && !sched::give_way() {
        left = shrink::names();
        shrink::drain();
    }
    if QUIET.load(Relaxed) == 0 {
        let thread = process::current();
        let (name, length) = thread.comm();
        let name = core::str::from_utf8(name.get(..length).unwrap_or(&[])).unwrap_or("?");
        info!("{name} ({}): drop_caches: {what}", thread.tid());
    }
    if what & 4 != 0 {
        QUIET.store(1, Relaxed);
    }
    Ok(())
}

fn overcommit(out: &mut Vec<u8>) -> Result {
    line(out, u64::from(commit::is_always()))
}

fn set_max_mappings(data: &[u8]) -> Result {
    let most = i32::try_from(unsigned(data)?).map_err(|_| EINVAL)?;
    vm::set_max_mappings(usize::try_from(most).map_err(|_| EINVAL)?);
    // What they may add by the old limit is forgotten.
    process::walk_processes(|process| {
        process.space().into_iter().for_each(|space| space.recount());
        true
    });
    Ok(())
}

/// 2, where all that programs ask for is added up, is refused.
fn set_overcommit(data: &[u8]) -> Result {
    match integer(data)? {
        n @ 0..=1 => commit::set_always(n == 1),
        _ => return Err(EINVAL),
    }
    Ok(())
}
