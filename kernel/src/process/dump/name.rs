//! What a core is called: kernel.core_pattern and kernel.core_uses_pid (core(5)). A pattern that names a program to pipe the core to is refused.
#![forbid(unsafe_code)]

use crate::arch;
use crate::errno::{EINVAL, ENAMETOOLONG, ENOMEM, Result};
use crate::fs::file::describe;
use crate::lock_order as level;
use crate::process::signal::Info;
use crate::process::{Current, utsname};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use linux_raw_sys::general as abi;
use sync::heap::Text;
use sync::{SpinLock, TryVec, lock_class};

lock_class! { static PATTERN_LOCK: LockClass = ("core pattern", level::CorePattern); }

/// Bytes of a pattern, with the NUL.
const LENGTH: usize = 128;

/// A pattern, NUL padded.
static PATTERN: SpinLock<[u8; LENGTH], level::CorePattern> = SpinLock::new(first(), &PATTERN_LOCK);
static USES_PID: AtomicBool = AtomicBool::new(false);

const fn first() -> [u8; LENGTH] {
    let mut pattern = [0; LENGTH];
    [pattern[0], pattern[1], pattern[2], pattern[3]] = *b"core";
    pattern
}

/// The pattern and how long it is.
pub fn pattern() -> ([u8; LENGTH], usize) {
    let pattern = *PATTERN.lock();
    (pattern, pattern.iter().position(|b| *b == 0).unwrap_or(LENGTH))
}

/// What is too long is cut off, as on Linux.
///
/// # Errors
/// EINVAL: a pipe.
pub fn set_pattern(text: &[u8]) -> Result {
    let text = text.split(|b| *b == b'\n' || *b == 0).next().unwrap_or_default();
    if text.first() == Some(&b'|') {
        return Err(EINVAL);
    }
    let mut pattern = [0; LENGTH];
    for (to, from) in pattern.iter_mut().take(LENGTH.saturating_sub(1)).zip(text) {
        *to = *from;
    }
    *PATTERN.lock() = pattern;
    Ok(())
}

/// Is the process's number put behind a name that has none?
pub fn uses_pid() -> bool {
    USES_PID.load(Ordering::Relaxed)
}

pub fn set_uses_pid(on: bool) {
    USES_PID.store(on, Ordering::Relaxed);
}

/// The name for a core of the running process.
///
/// # Errors
/// ENOMEM; EINVAL: there is to be none; ENAMETOOLONG.
pub fn make(thread: &Current, info: &Info) -> Result<Vec<u8>> {
    let (pattern, length) = pattern();
    let pattern = pattern.get(..length).unwrap_or_default();
    let mut out = Vec::new();
    let mut has_pid = false;
    let mut rest = pattern.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            out.try_push(byte)?;
            continue;
        }
        // One at the end is left out.
        let Some(&code) = rest.next() else { break };
        has_pid |= code == b'p';
        expand(code, thread, info, &mut out)?;
    }
    if uses_pid() && !has_pid {
        write!(Text(&mut out), ".{}", thread.process.pid()).map_err(|_| ENOMEM)?;
    }
    match out.len() {
        0 => Err(EINVAL),
        n if n >= abi::PATH_MAX as usize => Err(ENAMETOOLONG),
        _ => Ok(out),
    }
}

/// Unknown codes are left out.
fn expand(code: u8, thread: &Current, info: &Info, out: &mut Vec<u8>) -> Result {
    let process = &thread.process;
    let mut number = |n: u64| write!(Text(&mut *out), "{n}").map_err(|_| ENOMEM);
    match code {
        b'%' => out.try_push(b'%')?,
        b'p' | b'P' => number(u64::from(process.pid()))?,
        b'i' | b'I' => number(u64::from(thread.tid()))?,
        b'u' => number(u64::from(thread.ids().uid))?,
        b'g' => number(u64::from(thread.ids().gid))?,
        // Nobody else's process is dumped.
        b'd' => number(1)?,
        b's' => number(u64::from(info.signal))?,
        b't' => number((arch::time::wall_offset().saturating_add(arch::time::now())) / 1_000_000_000)?,
        b'c' => number(process.limits.soft(abi::RLIMIT_CORE))?,
        b'C' => number(u64::from(sync::machine::cpu_id()))?,
        b'h' => {
            let [_, host, ..] = utsname::names();
            put_name(out, host.split(|b| *b == 0).next().unwrap_or_default())?;
        }
        b'e' => {
            let (name, length) = thread.comm();
            put_name(out, name.get(..length).unwrap_or_default())?;
        }
        b'f' | b'E' => {
            let path = match process.exe() {
                Some(file) => describe::file(&file, &thread.fs().root()?)?,
                None => Vec::new(),
            };
            let name =
                if code == b'E' { &*path } else { path.rsplit(|b| *b == b'/').next().unwrap_or_default() };
            put_name(out, name)?;
        }
        _ => {}
    }
    Ok(())
}

/// A name leads to no other directory: its slashes become exclamation marks, and what means the directory itself or the one above is no name.
fn put_name(out: &mut Vec<u8>, name: &[u8]) -> Result {
    let harmless: &[u8] = match name {
        b"." => b"!",
        b".." => b"!.",
        b"" => b"!",
        name => name,
    };
    for byte in harmless {
        out.try_push(if *byte == b'/' { b'!' } else { *byte })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_pattern_leads_to_no_other_directory() {
        let expanded = |name: &[u8]| {
            let mut out = b"dir/".to_vec();
            put_name(&mut out, name).unwrap();
            out.split_off(4)
        };
        assert_eq!(expanded(b"a/../b"), b"a!..!b");
        assert_eq!(expanded(b".."), b"!.");
        assert_eq!(expanded(b"."), b"!");
        assert_eq!(expanded(b""), b"!", "nor does it end at the slash before it");
    }

    #[test]
    fn a_pattern_is_a_name_and_no_program() {
        assert_eq!(set_pattern(b"|/bin/sh"), Err(EINVAL));
        assert_eq!(set_pattern(b"/tmp/core.%p\nrest"), Ok(()));
        let (pattern, length) = pattern();
        assert_eq!(&pattern[..length], b"/tmp/core.%p");
        assert_eq!(set_pattern(b"core"), Ok(()));
    }
}
