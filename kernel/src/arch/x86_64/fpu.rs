//! Floating-point and vector state of user threads (SDM vol. 1, chapter 13). The kernel itself uses none, so the
//! registers are the running thread's until it is switched away from.
//!
//! An area is saved and restored in the standard format. XSAVEOPT may skip what has not changed since the XRSTOR from
//! the same area on this CPU, which holds because a thread's area is restored before it runs and only then saved to. What is loaded from elsewhere
//! meanwhile (a signal's frame, the registers of a fresh program) is another area, so all is saved.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::arch::asm;
use core::ptr::NonNull;

use super::cpu::features;
use super::user::{
    UserFault, UserResult, assert_may_fault, clac, in_user_half, on_fault, stac, value_from_user,
    value_to_user,
};
use alloc::vec::Vec;
use sync::{AllocError, TryVec};

/// Offset of MXCSR in the legacy area.
const MXCSR: usize = 24;
/// The XSAVE header: XSTATE_BV, XCOMP_BV, reserved (13.4.2).
const HEADER: usize = 512;
const HEADER_END: usize = 576;
/// The bytes of the legacy area that processors leave to software.
const SOFTWARE: usize = 464;
/// MXCSR bits that every processor with SSE2 and DAZ accepts.
const MXCSR_VALID: u32 = 0xffff;

/// The registers of a fresh program, as an area. It has no component but MXCSR, which is loaded from memory all the same (13.8.1).
#[repr(C, align(64))]
struct Initial([u8; 4096]);

static INITIAL: Initial = {
    let mut bytes = [0; 4096];
    [bytes[0], bytes[1]] = 0x37fu16.to_le_bytes();
    [bytes[MXCSR], bytes[MXCSR + 1], _, _] = 0x1f80u32.to_le_bytes();
    [bytes[MXCSR + 4], bytes[MXCSR + 5], _, _] = MXCSR_VALID.to_le_bytes();
    Initial(bytes)
};

/// SSE and AVX, which have MXCSR.
const VECTORS: u64 = 6;

fn mxcsr_of(area: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*area.get(MXCSR..)?.first_chunk()?))
}

/// Gives the running thread the registers of a fresh program.
pub fn load_initial_vectors() {
    load_initial_of(features::get().xcr0);
}

/// The same for the components of `mask`, or without XSAVE for all.
fn load_initial_of(mask: u64) {
    // SAFETY: a header without components, and an MXCSR that the processor accepts. A component that is not there is not read.
    unsafe {
        if features::get().xsave {
            asm!("xrstor64 [{}]", in(reg) &raw const INITIAL, in("eax") mask as u32, in("edx") (mask >> 32) as u32,
                 options(nostack));
        } else {
            asm!("fxrstor64 [{}]", in(reg) &raw const INITIAL, options(nostack));
        }
    }
}

/// Runs `$instruction` on user memory at `$at`. Gives `UserFault` if the processor does not take it.
macro_rules! on_user_memory {
    ($instruction:literal, $at:expr, $mask:expr) => {{
        assert_may_fault();
        let bad: u32;
        // SAFETY: the caller has looked that the area lies in the user half. A fault goes on at 3 with `bad` at 1; one that is served begins anew, and if that
        // slept, the registers are those of this thread again.
        unsafe {
            asm!(stac!(), concat!("2: ", $instruction, " [{at}]"), "xor {bad:e}, {bad:e}", "3:", clac!(),
                 on_fault!("2", "3"), at = in(reg) $at, bad = inout(reg) 1u32 => bad, in("eax") $mask as u32,
                 in("edx") ($mask >> 32) as u32, options(nostack));
        }
        if bad == 0 { Ok(()) } else { Err(UserFault) }
    }};
}

/// Bytes of an area in user memory.
pub fn user_size() -> usize {
    let f = features::get();
    if f.xsave { f.xsave_size } else { HEADER }
}

/// Writes the registers of the running thread to user memory, which is aligned to 64, with every component. May sleep.
pub fn save_to_user(at: usize) -> UserResult {
    let f = features::get();
    if !in_user_half(at, user_size()) {
        return Err(UserFault);
    }
    if !f.xsave {
        return on_user_memory!("fxsave64", at, f.xcr0);
    }
    // XSAVE leaves of the header what is not its own.
    value_to_user(at + HEADER, &[0; HEADER_END - HEADER])?;
    on_user_memory!("xsave64", at, f.xcr0)?;
    // As Linux: programs may count on the legacy components being there even if they were in their initial state.
    let mut present = [0u8; 8];
    value_from_user(&mut present, at + HEADER)?;
    present[0] |= 3;
    value_to_user(at + HEADER, &present)
}

/// Loads the registers of the running thread from user memory: the components of `mask` from there, or of the legacy area alone if `legacy`, and the others as
/// in a fresh program. The processor refuses what it would refuse a program. May sleep.
///
/// After a fault the registers are those of a fresh program, as on Linux.
pub fn load_from_user(at: usize, mask: u64, legacy: bool) -> UserResult {
    let f = features::get();
    let loaded = if !in_user_half(at, user_size()) {
        Err(UserFault)
    } else if legacy || !f.xsave {
        on_user_memory!("fxrstor64", at, mask)
    } else {
        on_user_memory!("xrstor64", at, mask)
    };
    if loaded.is_err() {
        load_initial_vectors();
    } else if f.xsave && f.xcr0 & !mask != 0 {
        load_initial_of(f.xcr0 & !mask);
    }
    loaded
}

/// The saved state of one thread.
pub struct FpuState {
    area: NonNull<u8>,
}

// SAFETY: the area is owned.
unsafe impl Send for FpuState {}
// SAFETY: shared references only read the area.
unsafe impl Sync for FpuState {}

fn layout() -> Layout {
    // At least the header, so that a state without XSAVE has the same shape.
    let size = features::get().xsave_size.max(HEADER_END);
    // SAFETY: the alignment is a power of two and the size far below the limit.
    unsafe { Layout::from_size_align_unchecked(size, 64) }
}

impl FpuState {
    /// The state of a fresh program. `None`: no memory.
    pub fn try_new() -> Option<FpuState> {
        // SAFETY: the layout is not empty.
        let area = NonNull::new(unsafe { alloc(layout()) })?;
        let mut state = FpuState { area };
        state.reset();
        Some(state)
    }

    /// A copy of this CPU's registers, with every component written. `None`: no memory.
    pub fn try_of_registers() -> Option<FpuState> {
        let mut copy = FpuState::try_new()?;
        copy.save_whole();
        Some(copy)
    }

    /// Makes it the state of a fresh program.
    fn reset(&mut self) {
        let bytes = self.bytes_mut();
        bytes.fill(0);
        bytes[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
        bytes[MXCSR..MXCSR + 4].copy_from_slice(&0x1f80u32.to_le_bytes());
        bytes[MXCSR + 4..MXCSR + 8].copy_from_slice(&MXCSR_VALID.to_le_bytes());
    }

    /// The area.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: allocated with this size, initialized by `reset`.
        unsafe { core::slice::from_raw_parts(self.area.as_ptr(), layout().size()) }
    }

    /// The area as a core dump has it: with the components that may be in it where Linux tells them to debuggers. Without XSAVE the legacy area.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn to_core(&self) -> Result<Vec<u8>, AllocError> {
        let f = features::get();
        let mut copy = Vec::new();
        copy.try_extend_from_slice(&self.bytes()[..if f.xsave { f.xsave_size } else { HEADER }])?;
        copy[SOFTWARE..HEADER].fill(0);
        copy[SOFTWARE..SOFTWARE + 8].copy_from_slice(&f.xcr0.to_le_bytes());
        Ok(copy)
    }

    /// Saves this CPU's registers for the thread's tracer, with every component written.
    pub fn copy_registers(&mut self) {
        self.save_whole();
    }

    /// Sets what FXSAVE stores, as a tracer wishes. False: the processor would not take it.
    pub fn set_legacy(&mut self, legacy: &[u8; HEADER]) -> bool {
        if mxcsr_of(legacy).is_none_or(|mxcsr| mxcsr & !MXCSR_VALID != 0) {
            return false;
        }
        let bytes = self.bytes_mut();
        bytes[..HEADER].copy_from_slice(legacy);
        if features::get().xsave {
            // Both are loaded from there.
            bytes[HEADER] |= 3;
        }
        true
    }

    /// Sets all components from an area in the standard format, as a tracer wishes. False: the processor would not take it (SDM vol. 1, 13.8.1).
    pub fn set_whole(&mut self, area: &[u8]) -> bool {
        let f = features::get();
        let (Some(legacy), Some(header)) = (area.get(..HEADER), area.get(HEADER..HEADER_END)) else {
            return false;
        };
        let (components, rest) = header.split_at(8);
        let components = components.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let is_known = components & !f.xcr0 == 0 && rest.iter().all(|byte| *byte == 0);
        if !f.xsave || area.len() != f.xsave_size || !is_known {
            return false;
        }
        // XRSTOR loads MXCSR whichever components there are.
        let with_mxcsr = components & VECTORS != 0;
        let mxcsr = if with_mxcsr { mxcsr_of(legacy) } else { mxcsr_of(self.bytes()) };
        let Some(mxcsr) = mxcsr.filter(|mxcsr| mxcsr & !MXCSR_VALID == 0) else { return false };
        let bytes = self.bytes_mut();
        let Some(to) = bytes.get_mut(..area.len()) else { return false };
        to.copy_from_slice(area);
        bytes[MXCSR..MXCSR + 4].copy_from_slice(&mxcsr.to_le_bytes());
        true
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`; before `reset` only written, and plain bytes have no invalid values.
        unsafe { core::slice::from_raw_parts_mut(self.area.as_ptr(), layout().size()) }
    }

    /// Saves this CPU's registers. Interrupts may be on: handlers use no vector registers.
    #[inline]
    pub fn save(&mut self) {
        let f = features::get();
        let area = self.area.as_ptr();
        let (low, high) = (f.xcr0 as u32, (f.xcr0 >> 32) as u32);
        // SAFETY: the area has the size that these states need, aligned to 64.
        unsafe {
            if f.xsaveopt {
                asm!("xsaveopt64 [{}]", in(reg) area, in("eax") low, in("edx") high, options(nostack));
            } else if f.xsave {
                asm!("xsave64 [{}]", in(reg) area, in("eax") low, in("edx") high, options(nostack));
            } else {
                asm!("fxsave64 [{}]", in(reg) area, options(nostack));
            }
        }
    }

    /// Saves this CPU's registers with every component written, even those in their initial state.
    fn save_whole(&mut self) {
        let f = features::get();
        if !f.xsave {
            return self.save();
        }
        let area = self.area.as_ptr();
        // SAFETY: as `save`.
        unsafe {
            asm!("xsave64 [{}]", in(reg) area, in("eax") f.xcr0 as u32, in("edx") (f.xcr0 >> 32) as u32,
                 options(nostack));
        }
    }

    /// Loads this CPU's registers.
    #[inline]
    pub fn restore(&self) {
        let f = features::get();
        let area = self.area.as_ptr();
        // SAFETY: the area was filled by `reset` or by the processor, which both leave a header and an MXCSR that the processor
        // accepts.
        unsafe {
            if f.xsave {
                asm!("xrstor64 [{}]", in(reg) area, in("eax") f.xcr0 as u32, in("edx") (f.xcr0 >> 32) as u32,
                     options(nostack));
            } else {
                asm!("fxrstor64 [{}]", in(reg) area, options(nostack));
            }
        }
    }
}

/// Where the components beyond x87 and SSE lie in the XSAVE area: number, bytes, offset, flags (SDM vol. 1, 13.4.3).
pub fn vector_components() -> impl Iterator<Item = [u32; 4]> {
    let f = features::get();
    (2..63u32).filter(move |n| f.xsave && f.xcr0 >> n & 1 != 0).map(|n| {
        let place = features::cpuid(0xd, n);
        [n, place.eax, place.ebx, 0]
    })
}

impl Drop for FpuState {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout.
        unsafe { dealloc(self.area.as_ptr(), layout()) };
    }
}
