//! Entering and leaving a signal handler: the registers and the mask, on the program's stack.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::UserRegs;
use super::user::{UserFault, UserResult, copy_from_user, copy_to_user, in_user_half};
pub use crate::arch::signal::{Delivery, Returned, SignalStack};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Frame {
    restorer: u64,
    pc: u64,
    sp: u64,
    result: u64,
    mask: u64,
    stack: SignalStack,
    info: [u8; 128],
}

pub fn max_size() -> usize {
    size_of::<Frame>() + 16
}

/// Puts a frame on the program's stack and makes `regs` enter the handler. A fault leaves `regs` as they were.
pub fn setup(regs: &mut UserRegs, delivery: &Delivery<'_>) -> UserResult {
    let sp = if delivery.switch_stack {
        (delivery.stack.sp as usize).wrapping_add(delivery.stack.size as usize)
    } else {
        regs.sp()
    };
    let at = sp.wrapping_sub(size_of::<Frame>()) & !15;
    if at > sp || !in_user_half(at, size_of::<Frame>()) {
        return Err(UserFault);
    }
    let frame = Frame {
        restorer: delivery.restorer as u64,
        pc: regs.pc() as u64,
        sp: regs.sp() as u64,
        result: regs.result() as u64,
        mask: delivery.mask,
        stack: delivery.stack,
        info: *delivery.info,
    };
    copy_to_user(at, frame.as_bytes())?;
    regs.set_arg(0, delivery.signal as usize);
    regs.set_arg(1, at + core::mem::offset_of!(Frame, info));
    regs.set_result(0);
    regs.set_sp(at);
    regs.set_pc(delivery.handler);
    Ok(())
}

/// rt_sigreturn: takes registers, mask and alternate stack from the frame that the stack pointer is in.
pub fn restore(regs: &mut UserRegs) -> UserResult<Returned> {
    let mut frame = Frame::read_from_bytes(&[0; size_of::<Frame>()]).map_err(|_| UserFault)?;
    // The handler's return has taken the restorer's address.
    copy_from_user(frame.as_mut_bytes(), regs.sp().wrapping_sub(8))?;
    regs.set_pc(frame.pc as usize);
    regs.set_sp(frame.sp as usize);
    regs.set_result(frame.result as isize);
    regs.leave_syscall();
    Ok(Returned { mask: frame.mask, stack: frame.stack, trap: None, whole: true })
}
