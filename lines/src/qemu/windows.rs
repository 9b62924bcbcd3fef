//! Instruction and line mode: windows that programs open and close, and in instruction mode each instruction.

use super::cpus::{Cpu, REFUSAL, share_a_thread, this};
use super::reading::{number, read_guest};
use super::{BLOCKS, OPTIONS, write};
use crate::instructions::{Counter, Site};
use crate::lines::directory::MAX_CPUS;
use crate::lines::recorder::Record;
use crate::lines::sharing;
use crate::options::Mode;
use crate::window::{Opened, Windows};
use core::ffi::{c_uint, c_void};
use std::sync::{Mutex, PoisonError};

static COUNTER: Counter = Counter::new();
/// What CPUs that have closed recorded in the present window. Taken only while `WINDOWS` is held.
static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());
static WINDOWS: Windows = Windows::new();
/// What is written instead of counts.
const NO_REGISTER: &str =
    "{\"format\":\"darter-lines/1\",\"error\":\"QEMU does not know the register with a window's number\"}\n";

/// What `executed` and `repeated` are told of an instruction.
pub fn site(pc: u64, bytes: &[u8]) -> &'static Site {
    COUNTER.site(pc, bytes)
}

pub extern "C" fn executed(cpu: c_uint, site: *mut c_void) {
    // SAFETY: registered with a leaked `Site`, which is only ever shared.
    let site = unsafe { &*site.cast::<Site>() };
    COUNTER.executed(cpu as usize, site);
}

pub extern "C" fn repeated(cpu: c_uint, site: *mut c_void) {
    // SAFETY: as for `executed`.
    let site = unsafe { &*site.cast::<Site>() };
    COUNTER.repeated(cpu as usize, site);
}

pub extern "C" fn opened(cpu: c_uint, _: *mut c_void) {
    let Some(options) = OPTIONS.get() else { return };
    if options.mode == Mode::Blocks {
        BLOCKS.begins(number().unwrap_or(0));
        return;
    }
    let mut state = WINDOWS.lock();
    if share_a_thread() {
        write(options, REFUSAL);
        return;
    }
    let Some(number) = number() else {
        write(options, NO_REGISTER);
        return;
    };
    match options.mode {
        Mode::Instructions => {
            match state.opened(cpu as usize, number) {
                Opened::Late => return,
                Opened::Voids => drop(COUNTER.harvest(false)),
                Opened::Counts => {}
            }
            COUNTER.open(cpu as usize);
        }
        Mode::Lines => {
            let Some(Cpu { recorder, .. }) = this(cpu) else { return };
            match state.opened(recorder.cpu, number) {
                Opened::Late => return,
                Opened::Voids => RECORDS.lock().unwrap_or_else(PoisonError::into_inner).clear(),
                Opened::Counts => {}
            }
            recorder.open();
        }
        Mode::Blocks | Mode::Stacks | Mode::Transfers => {}
    }
}

pub extern "C" fn closed(cpu: c_uint, _: *mut c_void) {
    let Some(options) = OPTIONS.get() else { return };
    let mut state = WINDOWS.lock();
    let mut records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let cpu = match options.mode {
        Mode::Instructions => {
            COUNTER.close(cpu as usize);
            cpu as usize
        }
        Mode::Lines => {
            let Some(Cpu { recorder, .. }) = this(cpu) else { return };
            records.extend(recorder.close().filter(|_| state.is_open(recorder.cpu)));
            recorder.cpu
        }
        Mode::Blocks | Mode::Stacks | Mode::Transfers => return,
    };
    if cpu >= MAX_CPUS || !state.is_open(cpu) || !state.closed(cpu, options.tasks) {
        return;
    }
    let (fields, mode) = match options.mode {
        Mode::Instructions => (COUNTER.harvest(options.profile), "instructions"),
        Mode::Lines => {
            let records = std::mem::take(&mut *records);
            (sharing::harvest(&records, options.node_cpus, &options.memory, &mut read_guest), "lines")
        }
        Mode::Blocks | Mode::Stacks | Mode::Transfers => return,
    };
    state.push(&fields);
    write(options, &state.document(&format!("\"mode\":\"{mode}\",\"tasks\":{}", options.tasks)));
}
