//! /proc/PID/maps and smaps_rollup.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;
use vm::Prot;

use crate::errno::{ENOMEM, Result};
use crate::fs::{devices, mapped};
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
        let file = m.object.and_then(|o| mapped::find(o.tag()));
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
            devices::major(device),
            devices::minor(device),
        );
        let finish = |out: &mut Vec<u8>| -> Result {
            written.map_err(|_| ENOMEM)?;
            let name = match &file {
                Some(file) => Vec::try_from_slice(&file.name)?,
                None if m.growsdown || (m.start..m.end).contains(&stack) => Vec::try_from_slice(b"[stack]")?,
                None if m.object.is_none() && m.start <= heap && heap != 0 && heap <= m.end => {
                    Vec::try_from_slice(b"[heap]")?
                }
                None => Vec::new(),
            };
            if !name.is_empty() {
                while out.len() - start_of_line < NAMES {
                    out.try_push(b' ')?;
                }
                out.try_extend_from_slice(&name)?;
            }
            out.try_push(b'\n')?;
            Ok(())
        };
        outcome = finish(out);
    });
    outcome
}

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
