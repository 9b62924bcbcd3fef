//! /proc/darter/users: what is counted for each user (`account`). The first line says the version of the format, the second names the columns.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

use crate::account::{self, Kind};
use crate::errno::{ENOMEM, Result};
use crate::sched::schedule_if_needed;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

pub fn users(out: &mut Vec<u8>) -> Result {
    put!(out, "version 1\nuid");
    for (_, name) in Kind::ALL {
        put!(out, " {name}");
    }
    put!(out, " memory-file-pages\n");
    let mut rows = Vec::new();
    let mut outcome = Ok(());
    let mut list = |uid, counts, pages| {
        if outcome.is_ok() {
            outcome = rows.try_push((uid, counts, pages));
        }
    };
    account::for_each(&mut list, schedule_if_needed);
    outcome?;
    crate::sort::by_key(&mut rows, |row: &(u32, _, _)| row.0);
    for (uid, counts, pages) in rows {
        put!(out, "{uid}");
        for n in counts {
            put!(out, " {n}");
        }
        put!(out, " {pages}\n");
    }
    Ok(())
}
