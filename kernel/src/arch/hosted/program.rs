//! Programs: closures that run where user mode would be. A program counter names one.

use super::UserRegs;
use super::upcall;
use std::boxed::Box;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

type Program = Box<dyn FnOnce() + Send>;

/// Programs that have not begun, and the next one's address.
static PROGRAMS: Mutex<Option<(HashMap<usize, Program>, usize)>> = Mutex::new(None);

/// A program that runs `f`, once: where its registers begin. `f` does not return: its last act is exit_group(2).
pub fn new(f: impl FnOnce() + Send + 'static) -> UserRegs {
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let (programs, next) = programs.get_or_insert_with(|| (HashMap::new(), 0x10_0000));
    let pc = *next;
    *next += 16;
    programs.insert(pc, Box::new(f));
    UserRegs::new_user(pc, 0)
}

fn take(pc: usize) -> Option<Program> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.0.remove(&pc)
}

/// Runs the current thread in user mode for the first time. Pending work is done first.
///
/// # Safety
/// None is needed here; the kernel's own asks for the stack and the space.
pub unsafe fn enter_user(regs: &UserRegs) -> ! {
    let mut regs = *regs;
    return_to_user(&mut regs);
    let Some(program) = take(regs.pc()) else { panic!("no program at {:#x}", regs.pc()) };
    program();
    panic!("a program returned")
}

/// What every return to user mode does last: pending work, until none is left.
pub fn return_to_user(regs: &mut UserRegs) {
    while upcall::work_pending() {
        // SAFETY: a program of a test keeps nothing that the kernel lent: what it does it does by calls, and each ends here.
        unsafe { upcall::return_work(regs) };
    }
    upcall::leaving_kernel();
}

/// A system call of the running program: the registers with which it goes on.
pub fn syscall(number: usize, args: [usize; 6]) -> UserRegs {
    let mut regs = UserRegs::of_call(number, args);
    upcall::syscall(&mut regs);
    return_to_user(&mut regs);
    regs
}
