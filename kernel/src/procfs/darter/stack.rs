//! /proc/darter/stack: the most that was used of a kernel stack, by what a program asked for (`sched::depth`). On the lockdep kernel alone.
//!
//! The first line is the version of this form and the size of a stack. Then a line for each kind: bytes, and the kind, which is `call` with its
//! number, or a word.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::{Text, TryVec};

use crate::errno::{ENOMEM, Result};
use crate::sched::depth::figures;
use crate::sched::latency::Kind;

pub fn text(out: &mut Vec<u8>) -> Result {
    let mut deepest = Vec::new();
    deepest.try_resize(Kind::COUNT, 0u64)?;
    for cpu in 0..sync::cpus() {
        figures(cpu, |kind, bytes| {
            if let Some(most) = deepest.get_mut(kind.index()) {
                *most = bytes.max(*most);
            }
        });
    }
    writeln!(Text(out), "stack 1 {}", crate::arch::STACK_SIZE).map_err(|_| ENOMEM)?;
    for (index, bytes) in deepest.iter().enumerate().filter(|(_, bytes)| **bytes != 0) {
        writeln!(Text(out), "{bytes} {}", Kind::of(index)).map_err(|_| ENOMEM)?;
    }
    Ok(())
}
