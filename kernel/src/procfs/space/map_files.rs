//! /proc/PID/map_files: a link for each mapping of a file, named by its addresses (proc_pid_map_files(5)). Who follows one comes to the file itself, though it may
//! have no name any more; that needs a capability, for a process may have been handed a mapping of what its user may not open.
//!
//! Not as on Linux: a private mapping of a file that was opened for writing is shown as one to be read alone, since a mapping does not keep how its file was
//! opened.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::TryVec;
use vm::MappingInfo;
use vm::addr::PAGE_SIZE;

use crate::arch::USER_END;
use crate::errno::{ENOENT, EPERM, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::file::mapped;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::mount::{self, Path};
use crate::fs::vfs::operations::DirEntry;
use crate::process::Process;
use crate::procfs::task::who::{Who, number_of};
use crate::procfs::text::Text;

/// Of a mapping: where it begins and ends.
pub type Place = (usize, usize);

/// The number of a link's inode: unlike all others of /proc.
pub fn inode_of(who: Who, start: usize) -> u64 {
    const THESE: u64 = 1 << 63;
    number_of(who.pid, who.tid, 0) | THESE | (start as u64 >> 12) << 40
}

/// Where it lies and whether it shows a file, as Linux has it.
fn is_of_file(m: &MappingInfo<'_>) -> bool {
    m.object.is_some_and(|object| m.shared || mapped::find(object).is_some())
}

/// `name` as addresses in hexadecimal, without zeros before them.
fn parse(name: &[u8]) -> Option<Place> {
    let number = |text: &[u8]| {
        let is_plain = text.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
        let text = core::str::from_utf8(text).ok().filter(|t| is_plain && (*t == "0" || !t.starts_with('0')));
        text.and_then(|text| usize::from_str_radix(text, 16).ok())
    };
    let middle = name.iter().position(|b| *b == b'-')?;
    Some((number(name.get(..middle)?)?, number(name.get(middle..)?.get(1..)?)?))
}

/// What `f` says of the mapping of a file in this place.
fn look_at<R>(process: &Process, place: Place, f: impl FnOnce(&MappingInfo<'_>) -> R) -> Result<R> {
    let (mut f, mut found) = (Some(f), None);
    process.look_at_space(|space| {
        // From the page before, for a mapping that begins earlier is another.
        let before = place.0.saturating_sub(PAGE_SIZE);
        space.visit_mappings(before..USER_END.min(place.1.saturating_add(1)), &mut |m| {
            if (m.start, m.end) == place && is_of_file(m) {
                found = f.take().map(|f| f(m));
            }
            m.end <= place.0
        });
    });
    found.ok_or(ENOENT)
}

/// The place that a name means, and the mode of the link: what may be done through it.
///
/// # Errors
/// ENOENT.
pub fn find(process: &Process, name: &[u8]) -> Result<(Place, u32)> {
    let place = parse(name).filter(|(start, end)| start < end && *end <= USER_END).ok_or(ENOENT)?;
    let writes = look_at(process, place, |m| m.shared && m.may_write)?;
    Ok((place, if writes { 0o600 } else { 0o400 }))
}

/// The link's text: the name of the file.
pub fn read(process: &Process, place: Place, out: &mut Vec<u8>) -> Result {
    let file = look_at(process, place, |m| m.object.and_then(mapped::find))?;
    let [name, gone] = file.as_ref().map_or([mapped::SHARED, b""], |file| file.name());
    out.try_extend_from_slice(name)?;
    Ok(out.try_extend_from_slice(gone)?)
}

/// The file itself.
///
/// # Errors
/// EPERM: the caller has neither CAP_SYS_ADMIN nor CAP_CHECKPOINT_RESTORE. ENOENT: there is no such mapping, or its memory is no file's.
pub fn follow(process: &Process, place: Place) -> Result<Path> {
    if !caller::capable(Capability::SYS_ADMIN) && !caller::capable(Capability::CHECKPOINT_RESTORE) {
        return Err(EPERM);
    }
    let inode = look_at(process, place, |m| m.object.and_then(mapped::inode_of))?.ok_or(ENOENT)?;
    let mut name = Vec::new();
    read(process, place, &mut name)?;
    let dentry = Dentry::try_unowned(inode, None, &name)?;
    Ok(Path { mount: mount::root()?.mount, dentry })
}

/// Lists the links from `position` on, which is an address.
pub fn list(
    process: &Arc<Process>,
    who: Who,
    position: u64,
    emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
) -> Result {
    let from = usize::try_from(position).unwrap_or(USER_END);
    let mut outcome = Ok(());
    process.look_at_space(|space| {
        space.visit_mappings(from..USER_END, &mut |m| {
            if !is_of_file(m) {
                return true;
            }
            let mut name = Vec::new();
            let text = &mut Text(&mut name);
            outcome = text.hex(m.start as u64, 1, "-").and_then(|()| text.hex(m.end as u64, 1, ""));
            let (number, next) = (inode_of(who, m.start), m.end as u64);
            outcome.is_ok() && emit(&DirEntry { name: &name, number, kind: Kind::Symlink, next })
        });
    });
    outcome
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_name_is_two_plain_numbers() {
        assert_eq!(parse(b"400000-401000"), Some((0x40_0000, 0x40_1000)));
        assert_eq!(parse(b"0-1000"), Some((0, 0x1000)));
        for wrong in
            [&b"0400000-401000"[..], b"400000-", b"-1000", b"400000", b"4A0000-4B0000", b"+4-5", b"1-2-3"]
        {
            assert_eq!(parse(wrong), None);
        }
    }
}
