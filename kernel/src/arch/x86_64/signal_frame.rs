//! The frame that a signal handler runs on and that rt_sigreturn takes back: Linux's `rt_sigframe` for x86-64, byte for
//! byte (arch/x86/include/uapi/asm/{sigcontext,ucontext}.h; signal(7)).
//!
//! From low to high: return address (the restorer), ucontext, siginfo, then the XSAVE area, aligned to 64, with Linux's
//! software bytes in its legacy part and a second magic number behind it.
//!
//! What sigreturn reads is a program's word: a code or stack segment that IRET would refuse is SIGSEGV, flags are masked, an address outside the user
//! half faults in user mode, and what the processor refuses of the XSAVE area, which it reads where it lies, is a fault.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::cpu::features;
use super::cpu::gdt::USER_DATA;
use super::cpu::reg::{FLAG_DF, FLAG_RF, FLAG_TF};
use super::fpu;
use super::trap::UserRegs;
use super::user::{UserFault, UserResult, copy_to_user, in_user_half, value_from_user, value_to_user};
use crate::arch::Trap;
pub use crate::arch::signal::{Delivery, Returned, SignalStack};

const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;

/// The bytes below the stack pointer that a leaf function may use (System V ABI).
const RED_ZONE: usize = 128;
/// Linux's "software reserved" part of the legacy area.
const SW_BYTES: usize = 464;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
const LEGACY: usize = 512;
/// The legacy part and a header.
const LEAST_EXTENDED: usize = LEGACY + 64;
/// x87 and SSE.
const LEGACY_COMPONENTS: u64 = 3;

/// `struct sigcontext` but for the words at its end that nobody uses.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SigContext {
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    rsp: u64,
    rip: u64,
    rflags: u64,
    cs: u16,
    gs: u16,
    fs: u16,
    ss: u16,
    err: u64,
    trapno: u64,
    oldmask: u64,
    cr2: u64,
    fpstate: u64,
}

/// What lies before the context: the restorer's address, and the first words of `struct ucontext`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    restorer: u64,
    uc_flags: u64,
    uc_link: u64,
    uc_stack: SignalStack,
}

/// Where the parts of a frame lie.
const UC_OFFSET: usize = 8;
const CONTEXT_OFFSET: usize = size_of::<Head>();
const MASK_OFFSET: usize = CONTEXT_OFFSET + size_of::<SigContext>() + 64;
const INFO_OFFSET: usize = MASK_OFFSET + 8;
const FRAME: usize = INFO_OFFSET + 128;
const _: () = assert!(CONTEXT_OFFSET == 48 && size_of::<SigContext>() == 192 && INFO_OFFSET == 8 + 304);

/// `struct _fpx_sw_bytes`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SwBytes {
    magic1: u32,
    extended_size: u32,
    xfeatures: u64,
    xstate_size: u32,
    padding: [u32; 7],
}

/// The most that a frame needs, for AT_MINSIGSTKSZ.
pub fn max_size() -> usize {
    FRAME + fpu_size() + 64 + 16 + RED_ZONE
}

/// Bytes of the XSAVE area in a frame, second magic number included.
fn fpu_size() -> usize {
    let f = features::get();
    if f.xsave { f.xsave_size + 4 } else { LEGACY }
}

/// Puts a frame on the program's stack and makes `regs` enter the handler, with the vector registers of a fresh program. May sleep.
///
/// A fault leaves `regs` as they were; the caller then forces SIGSEGV.
pub fn setup(regs: &mut UserRegs, delivery: &Delivery<'_>) -> UserResult {
    let mut sp = regs.sp().wrapping_sub(RED_ZONE);
    let (low, size) = (delivery.stack.sp as usize, delivery.stack.size as usize);
    let on_alternate = delivery.switch_stack || sp.wrapping_sub(low).wrapping_sub(1) < size;
    if delivery.switch_stack {
        sp = low.wrapping_add(size);
    }
    let fpstate = sp.wrapping_sub(fpu_size()) & !63;
    // The ABI wants the stack pointer 8 off a multiple of 16 at a function's entry, with the return address pushed.
    let at = (fpstate.wrapping_sub(FRAME) & !15).wrapping_sub(8);
    if !in_user_half(at, sp.wrapping_sub(at)) || sp < at {
        return Err(UserFault);
    }
    // A handler that runs off its alternate stack would not notice in time.
    if on_alternate && size != 0 && at < low {
        return Err(UserFault);
    }
    let extended = save_fpu(fpstate)?;
    let head = Head {
        restorer: delivery.restorer as u64,
        uc_flags: UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS | if extended { UC_FP_XSTATE } else { 0 },
        uc_link: 0,
        uc_stack: delivery.stack,
    };
    value_to_user(at, head.as_bytes())?;
    value_to_user(at + CONTEXT_OFFSET, context_of(regs, delivery, fpstate).as_bytes())?;
    value_to_user(at + MASK_OFFSET, &delivery.mask.to_ne_bytes())?;
    copy_to_user(at + INFO_OFFSET, delivery.info)?;
    regs.set_arg(0, delivery.signal as usize);
    regs.set_arg(1, at + INFO_OFFSET);
    regs.set_arg(2, at + UC_OFFSET);
    regs.set_result(0);
    regs.set_sp(at);
    regs.set_pc(delivery.handler);
    regs.mend_segments();
    regs.set_flags(regs.flags() & !(FLAG_DF | FLAG_TF));
    fpu::load_initial_vectors();
    Ok(())
}

fn context_of(regs: &UserRegs, delivery: &Delivery<'_>, fpstate: usize) -> SigContext {
    SigContext {
        r8: regs.r8,
        r9: regs.r9,
        r10: regs.r10,
        r11: regs.r11,
        r12: regs.r12,
        r13: regs.r13,
        r14: regs.r14,
        r15: regs.r15,
        rdi: regs.rdi,
        rsi: regs.rsi,
        rbp: regs.rbp,
        rbx: regs.rbx,
        rdx: regs.rdx,
        rax: regs.rax,
        rcx: regs.rcx,
        rsp: regs.rsp,
        rip: regs.rip,
        rflags: regs.rflags,
        cs: regs.cs as u16,
        gs: 0,
        fs: 0,
        ss: regs.ss as u16,
        err: delivery.trap.code,
        trapno: delivery.trap.vector,
        oldmask: delivery.mask,
        cr2: delivery.trap.address,
        fpstate: fpstate as u64,
    }
}

/// Writes the vector registers to user memory; true if the area is more than the legacy part.
fn save_fpu(at: usize) -> UserResult<bool> {
    fpu::save_to_user(at)?;
    let f = features::get();
    let size = fpu::user_size();
    let sw = SwBytes {
        magic1: if f.xsave { FP_XSTATE_MAGIC1 } else { 0 },
        extended_size: fpu_size() as u32,
        xfeatures: f.xcr0,
        xstate_size: size as u32,
        padding: [0; 7],
    };
    value_to_user(at + SW_BYTES, sw.as_bytes())?;
    if f.xsave {
        value_to_user(at + size, &FP_XSTATE_MAGIC2.to_le_bytes())?;
    }
    Ok(f.xsave)
}

/// rt_sigreturn: takes registers, vector state, mask and alternate stack from the frame that the stack pointer is in. May sleep.
///
/// A fault leaves the program's registers as they were; the caller forces SIGSEGV, as Linux does.
pub fn restore(regs: &mut UserRegs) -> UserResult<Returned> {
    // The handler's RET has taken the restorer's address.
    let at = regs.sp().wrapping_sub(8);
    let (mut head, mut c, mut mask) = (Head::new_zeroed(), SigContext::new_zeroed(), [0; 8]);
    value_from_user(head.as_mut_bytes(), at)?;
    value_from_user(&mut mask, at.wrapping_add(MASK_OFFSET))?;
    value_from_user(c.as_mut_bytes(), at.wrapping_add(CONTEXT_OFFSET))?;
    regs.r8 = c.r8;
    regs.r9 = c.r9;
    regs.r10 = c.r10;
    regs.r11 = c.r11;
    regs.r12 = c.r12;
    regs.r13 = c.r13;
    regs.r14 = c.r14;
    regs.r15 = c.r15;
    regs.rdi = c.rdi;
    regs.rsi = c.rsi;
    regs.rbp = c.rbp;
    regs.rbx = c.rbx;
    regs.rdx = c.rdx;
    regs.rax = c.rax;
    regs.rcx = c.rcx;
    regs.rsp = c.rsp;
    regs.set_pc(c.rip as usize);
    regs.set_flags(c.rflags);
    regs.rflags |= c.rflags & FLAG_RF;
    regs.leave_syscall();
    // A program that does not know of `ss` in the frame is not held to it.
    let strict = head.uc_flags & UC_STRICT_RESTORE_SS != 0;
    let refused = regs.set_segments(c.cs, if strict { c.ss } else { USER_DATA });
    regs.choose_return();
    let trap = refused.map(|selector| Trap::Protection(u32::from(selector)).record());
    let whole = restore_fpu(c.fpstate as usize).is_ok();
    Ok(Returned { mask: u64::from_ne_bytes(mask), stack: head.uc_stack, trap, whole })
}

/// Loads the vector registers from a frame.
fn restore_fpu(at: usize) -> UserResult {
    if at == 0 {
        fpu::load_initial_vectors();
        return Ok(());
    }
    let f = features::get();
    if !f.xsave {
        return fpu::load_from_user(at, 0, true);
    }
    let mut sw = SwBytes::new_zeroed();
    let read = read_extent(at, &mut sw);
    if read.is_err() {
        fpu::load_initial_vectors();
    }
    if read? {
        fpu::load_from_user(at, sw.xfeatures & f.xcr0, false)
    } else {
        fpu::load_from_user(at, LEGACY_COMPONENTS, true)
    }
}

/// Reads what the area says of itself. False: only the legacy part is trusted, as something is odd (Linux's check).
fn read_extent(at: usize, sw: &mut SwBytes) -> UserResult<bool> {
    value_from_user(sw.as_mut_bytes(), at.wrapping_add(SW_BYTES))?;
    let size = sw.xstate_size as usize;
    if sw.magic1 != FP_XSTATE_MAGIC1
        || size < LEAST_EXTENDED
        || size > fpu::user_size()
        || sw.xstate_size > sw.extended_size
    {
        return Ok(false);
    }
    let mut magic2 = [0u8; 4];
    value_from_user(&mut magic2, at.wrapping_add(size))?;
    Ok(u32::from_le_bytes(magic2) == FP_XSTATE_MAGIC2)
}
