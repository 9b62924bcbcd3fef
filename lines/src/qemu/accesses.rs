//! Line and transfer mode's look at each access of an instruction: which physical line it goes to, as the CPU's recorder is told.
//!
//! `CALLS`: it is transfer mode's, and what the CPU takes from others is counted below the calls that led there.

use super::abi::*;
use super::cpus::{Cpu, Kind, this};
use super::walks;
use crate::code;
use crate::lines::directory::LINE_BITS;
use crate::lines::recorder::{Access, Recorder};
use core::ffi::{c_uint, c_void};

/// Has the accesses told of an instruction that is being translated.
pub fn watch<const CALLS: bool>(insn: *mut Insn, pc: u64, bytes: &[u8]) {
    let place = Place::new(pc, code::locks(bytes)).0 as *mut c_void;
    let called = if code::repeats(bytes) { iterated::<CALLS> } else { accessed::<CALLS> };
    // SAFETY: the handle comes from the translation under way; `place` is a number, never followed.
    unsafe { qemu_plugin_register_vcpu_mem_cb(insn, called, CB_NO_REGS, MEM_RW, place) };
}

/// A program counter and whether the instruction there locks, in one word: bit 62 of a canonical address equals bit 63, and is
/// turned over for a locked instruction.
#[derive(Clone, Copy)]
struct Place(u64);

impl Place {
    fn new(pc: u64, locked: bool) -> Place {
        Place(pc ^ (u64::from(locked) << 62))
    }

    fn locked(self) -> bool {
        (self.0 ^ (self.0 << 1)) >> 63 != 0
    }

    fn pc(self) -> u64 {
        ((self.0 & !(1 << 62)) as i64 | (self.0 as i64 >> 1 & 1 << 62)) as u64
    }
}

impl Cpu {
    /// Where the directory is told that an instruction is: its program counter, in transfer mode its packed site.
    #[inline(always)]
    fn site<const CALLS: bool>(&self, place: Place) -> u64 {
        if CALLS { place.pc().wrapping_add(self.shift) } else { place.pc() }
    }
}

extern "C" fn accessed<const CALLS: bool>(cpu: c_uint, info: MemInfo, vaddr: u64, place: *mut c_void) {
    let Some(this) = this(cpu) else { return };
    let kind = this.kind(info);
    let place = Place(place as u64);
    let pc = this.site::<CALLS>(place);
    if let Some(access) = note::<CALLS>(&mut this.recorder, kind, vaddr, pc, place.locked()) {
        this.recorder.no_streak();
        if access.bytes < kind.bytes {
            crosses::<CALLS>(&mut this.recorder, &access, kind.bytes - access.bytes);
        }
    }
}

/// The same for an instruction that repeats: apart, because its iterations are many and most need nothing of the rest.
extern "C" fn iterated<const CALLS: bool>(cpu: c_uint, info: MemInfo, vaddr: u64, place: *mut c_void) {
    let Some(this) = this(cpu) else { return };
    let kind = this.kind(info);
    let place = Place(place as u64);
    let pc = this.site::<CALLS>(place);
    if !this.recorder.goes_on(pc, vaddr, kind.bytes, kind.write) {
        begins::<CALLS>(&mut this.recorder, kind, vaddr, pc, place.locked());
    }
}

/// A repeated instruction comes to a line.
#[cold]
fn begins<const CALLS: bool>(this: &mut Recorder, kind: Kind, vaddr: u64, pc: u64, locked: bool) {
    if let Some(access) = note::<CALLS>(this, kind, vaddr, pc, locked) {
        this.streak(&access);
        if access.bytes < kind.bytes {
            crosses::<CALLS>(this, &access, kind.bytes - access.bytes);
        }
    }
}

/// Notes the part of an access that lies in its first line; None: it is not memory, but a device's.
#[inline(always)]
fn note<const CALLS: bool>(
    this: &mut Recorder,
    kind: Kind,
    vaddr: u64,
    pc: u64,
    locked: bool,
) -> Option<Access> {
    let line = match this.same(vaddr) {
        Some(line) => line,
        None => {
            // SAFETY: the word is that of the access under way; QEMU's answer holds until the callback ends.
            let line = unsafe {
                let address = qemu_plugin_get_hwaddr(kind.info, vaddr);
                if address.is_null() {
                    return None;
                }
                let line = qemu_plugin_hwaddr_phys_addr(address) >> LINE_BITS;
                if !this.knows(line) && qemu_plugin_hwaddr_is_io(address) {
                    return None;
                }
                line
            };
            this.translates(vaddr, line);
            line
        }
    };
    let offset = (vaddr & ((1 << LINE_BITS) - 1)) as u32;
    let access = Access {
        line,
        offset,
        bytes: kind.bytes.min((1 << LINE_BITS) - offset),
        vaddr,
        pc,
        write: kind.write,
        locked,
    };
    tell::<CALLS>(this, &access);
    Some(access)
}

/// The rest of an access that crosses into the next line; on another page its address is not known.
#[cold]
fn crosses<const CALLS: bool>(this: &mut Recorder, access: &Access, bytes: u32) {
    let next = access.vaddr.wrapping_add(access.bytes.into());
    if next & 0xfff != 0 {
        tell::<CALLS>(this, &Access { line: access.line + 1, offset: 0, bytes, vaddr: next, ..*access });
    }
}

#[inline(always)]
fn tell<const CALLS: bool>(this: &mut Recorder, access: &Access) {
    let taken = this.note(access);
    if CALLS && let Some(taken) = taken {
        walks::took(this.cpu, access, taken);
    }
}
