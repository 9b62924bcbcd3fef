//! Line mode's look at each access of an instruction: which physical line it goes to, as the CPU's recorder is told.

use super::abi::*;
use super::cpus::{Kind, this};
use crate::code;
use crate::lines::directory::LINE_BITS;
use crate::lines::recorder::{Access, Recorder};
use core::ffi::{c_uint, c_void};

/// Has the accesses told of an instruction that is being translated.
pub fn watch(insn: *mut Insn, pc: u64, bytes: &[u8]) {
    let place = Place::new(pc, code::locks(bytes)).0 as *mut c_void;
    let called = if code::repeats(bytes) { iterated } else { accessed };
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

extern "C" fn accessed(cpu: c_uint, info: MemInfo, vaddr: u64, place: *mut c_void) {
    let Some(this) = this(cpu) else { return };
    let kind = this.kind(info);
    if let Some(access) = note(&mut this.recorder, kind, vaddr, Place(place as u64)) {
        this.recorder.no_streak();
        if access.bytes < kind.bytes {
            crosses(&mut this.recorder, &access, kind.bytes - access.bytes);
        }
    }
}

/// The same for an instruction that repeats: apart, because its iterations are many and most need nothing of the rest.
extern "C" fn iterated(cpu: c_uint, info: MemInfo, vaddr: u64, place: *mut c_void) {
    let Some(this) = this(cpu) else { return };
    let kind = this.kind(info);
    let place = Place(place as u64);
    if !this.recorder.goes_on(place.pc(), vaddr, kind.bytes, kind.write) {
        begins(&mut this.recorder, kind, vaddr, place);
    }
}

/// A repeated instruction comes to a line.
#[cold]
fn begins(this: &mut Recorder, kind: Kind, vaddr: u64, place: Place) {
    if let Some(access) = note(this, kind, vaddr, place) {
        this.streak(&access);
        if access.bytes < kind.bytes {
            crosses(this, &access, kind.bytes - access.bytes);
        }
    }
}

/// Notes the part of an access that lies in its first line; None: it is not memory, but a device's.
#[inline(always)]
fn note(this: &mut Recorder, kind: Kind, vaddr: u64, place: Place) -> Option<Access> {
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
        pc: place.pc(),
        write: kind.write,
        locked: place.locked(),
    };
    this.note(&access);
    Some(access)
}

/// The rest of an access that crosses into the next line; on another page its address is not known.
#[cold]
fn crosses(this: &mut Recorder, access: &Access, bytes: u32) {
    let next = access.vaddr.wrapping_add(access.bytes.into());
    if next & 0xfff != 0 {
        this.note(&Access { line: access.line + 1, offset: 0, bytes, vaddr: next, ..*access });
    }
}
