//! /proc/PID/maps (proc_pid_maps(5)): a line for each mapping.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;
use core::ptr;

use sync::TryVec;
use sync::heap::Text;
use vm::{MappingInfo, Object, Prot};

use crate::errno::{ENOMEM, Result};
use crate::fs::file::mapped;
use crate::fs::vfs::device_number;
use crate::procfs::space::Seen;

/// Column at which names begin.
const NAMES: usize = 73;

/// A line of maps.
pub fn row(seen: &Seen<'_>, m: &MappingInfo<'_>, out: &mut Vec<u8>) -> Result {
    let start_of_line = out.len();
    let file = m.object.and_then(mapped::find);
    let (device, number) = file.as_ref().map_or((0, 0), |f| (f.device, f.number));
    let letter = |on: bool, c: char| if on { c } else { '-' };
    write!(
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
    )
    .map_err(|_| ENOMEM)?;
    let name: [&[u8]; 2] = match &file {
        Some(file) => file.name(),
        None if seen.is_stack(m) => [b"[stack]", b""],
        None if seen.is_heap(m) => [b"[heap]", b""],
        None => [m.object.map_or(b"", |object| nameless(object, m.shared)), b""],
    };
    finish_line(out, start_of_line, name)
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
pub fn finish_line(out: &mut Vec<u8>, start: usize, name: [&[u8]; 2]) -> Result {
    let [name, gone] = name;
    while !name.is_empty() && out.len() - start < NAMES {
        out.try_push(b' ')?;
    }
    out.try_extend_from_slice(name)?;
    out.try_extend_from_slice(gone)?;
    out.try_push(b'\n')?;
    Ok(())
}
