//! Floating-point and vector state of user threads (SDM vol. 1, chapter 13). The kernel itself uses none, so the
//! registers are the running thread's until it is switched away from.
//!
//! An area is saved and restored in the standard format. XSAVEOPT may skip what has not changed since the XRSTOR from
//! the same area on this CPU, which holds because a thread's area is restored before it runs and only then saved to.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::arch::asm;
use core::ptr::NonNull;

use super::cpu::features;
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

    /// A copy.
    pub fn try_clone(&self) -> Option<FpuState> {
        let mut copy = FpuState::try_new()?;
        copy.bytes_mut().copy_from_slice(self.bytes());
        Some(copy)
    }

    /// Makes it the state of a fresh program (in memory: `restore` loads it).
    pub fn reset(&mut self) {
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

    /// Saves this CPU's registers with every component written, even those in their initial state: for a signal frame,
    /// which a program reads.
    pub fn save_whole(&mut self) {
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
        // SAFETY: the area was filled by `reset`, by the processor, or by `load_untrusted`, which all leave a header
        // and an MXCSR that the processor accepts.
        unsafe {
            if f.xsave {
                asm!("xrstor64 [{}]", in(reg) area, in("eax") f.xcr0 as u32, in("edx") (f.xcr0 >> 32) as u32,
                     options(nostack));
            } else {
                asm!("fxrstor64 [{}]", in(reg) area, options(nostack));
            }
        }
    }

    /// Fills the area with bytes from a program: `fill` writes them; `extended` says that they go past the legacy area.
    /// What the processor would refuse is mended: unknown components, a compacted format, reserved MXCSR bits.
    pub fn load_untrusted<E>(
        &mut self,
        extended: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let xcr0 = features::get().xcr0;
        let bytes = self.bytes_mut();
        let part = if extended { bytes.len() } else { HEADER };
        let filled = fill(&mut bytes[..part]);
        // Also if it failed half way: the area is one that the processor accepts, whatever becomes of it.
        let word = u32::from_le_bytes([bytes[MXCSR], bytes[MXCSR + 1], bytes[MXCSR + 2], bytes[MXCSR + 3]]);
        bytes[MXCSR..MXCSR + 4].copy_from_slice(&(word & MXCSR_VALID).to_le_bytes());
        let mut present = 3u64;
        if extended && let Some(field) = bytes.get(HEADER..HEADER + 8).and_then(|f| f.try_into().ok()) {
            present = u64::from_le_bytes(field) & xcr0;
        }
        bytes[HEADER..HEADER_END].fill(0);
        bytes[HEADER..HEADER + 8].copy_from_slice(&present.to_le_bytes());
        filled
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
