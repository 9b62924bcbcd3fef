//! /proc/PID/maps and smaps_rollup.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::ptr;

use sync::TryVec;
use sync::heap::Text;
use vm::{Object, Prot};

use crate::errno::{ENOMEM, Result};
use crate::fs::file::mapped;
use crate::fs::vfs::device_number;
use crate::process::{Process, Thread};

/// Column at which names begin.
const NAMES: usize = 73;

pub fn maps(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let Some(space) = process.space() else { return Ok(()) };
    let (heap, stack) = {
        let layout = process.memory.lock();
        (layout.brk, layout.stack)
    };
    let mut outcome: Result = Ok(());
    space.for_each_mapping(&mut |m| {
        if outcome.is_err() {
            return;
        }
        let start_of_line = out.len();
        let file = m.object.and_then(mapped::find);
        let (device, number) = file.as_ref().map_or((0, 0), |f| (f.device, f.number));
        let letter = |on: bool, c: char| if on { c } else { '-' };
        let written = write!(
            Text(out),
            "{:08x}-{:08x} {}{}{}{} {:08x} {:02x}:{:02x} {number} ",
            m.start,
            m.end,
            letter(m.prot.contains(Prot::READ), 'r'),
            letter(m.prot.contains(Prot::WRITE), 'w'),
            letter(m.prot.contains(Prot::EXEC), 'x'),
            if m.shared { 's' } else { 'p' },
            m.offset,
            device_number::major(device),
            device_number::minor(device),
        );
        let (ends_here, has_object) = ((m.start..m.end).contains(&stack), m.object.is_some());
        let name: [&[u8]; 2] = match &file {
            Some(file) => file.name(),
            None if m.growsdown || ends_here => [b"[stack]", b""],
            None if !has_object && m.start <= heap && heap != 0 && heap <= m.end => [b"[heap]", b""],
            None => [m.object.map_or(b"", |object| nameless(object, m.shared)), b""],
        };
        outcome = written.map_err(|_| ENOMEM).and_then(|()| finish_line(out, start_of_line, name));
    });
    outcome
}

/// What an object that is no file's is called.
fn nameless(object: &Object, shared: bool) -> &'static [u8] {
    let is = |own: &Object| ptr::eq(own, object);
    match crate::arch::vdso() {
        Some(vdso) if is(&vdso.code.share()) => b"[vdso]",
        Some(vdso) if is(&vdso.data.share()) => b"[vvar]",
        _ if shared => mapped::SHARED,
        _ => b"",
    }
}

/// Puts the name in its column, if there is one, and ends the line that begins at `start`.
#[expect(clippy::arithmetic_side_effects, reason = "a name's length in the text")]
fn finish_line(out: &mut Vec<u8>, start: usize, name: [&[u8]; 2]) -> Result {
    let [name, gone] = name;
    while !name.is_empty() && out.len() - start < NAMES {
        out.try_push(b' ')?;
    }
    out.try_extend_from_slice(name)?;
    out.try_extend_from_slice(gone)?;
    out.try_push(b'\n')?;
    Ok(())
}

#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
pub fn rollup(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let Some(space) = process.space() else { return Ok(()) };
    let usage = space.usage();
    let (resident, anon, file) = (usage.resident_pages * 4, usage.anon * 4, usage.file * 4);
    write!(
        Text(out),
        "00000000-7ffffffff000 ---p 00000000 00:00 0                          [rollup]\n\
         Rss:            {resident:>8} kB\nPss:            {resident:>8} kB\nShared_Clean:   {file:>8} kB\n\
         Shared_Dirty:          0 kB\nPrivate_Clean:         0 kB\nPrivate_Dirty:  {anon:>8} kB\n\
         Anonymous:      {anon:>8} kB\nSwap:                  0 kB\n"
    )
    .map_err(|_| ENOMEM)
}
