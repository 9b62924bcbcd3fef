//! The first process.
#![forbid(unsafe_code)]

use super::{exec, fork};
use crate::arch::{self, FpuState, UserRegs};
use crate::errno::{Errno, Result};
use crate::fs::{self, FileTable, FsContext};
use crate::memory::Space;
use crate::sched::{self, NewTask};
use alloc::sync::Arc;

/// Makes process 1, which executes `init=` of the command line, or /init, /sbin/init, /bin/init or /bin/sh.
/// It starts once the boot CPU idles.
///
/// # Errors
/// Those of making a process; a program that cannot be executed ends the machine with a message.
pub fn start_init() -> Result {
    exec::configure(arch::command_line());
    sched::group::configure(arch::command_line());
    let task = make_first(fs::first_files()?, fs::first_context()?, &UserRegs::new_user(0, 0))?;
    // Its first return to user mode finds the flag and executes the program.
    task.work.set(exec::FIRST_EXEC);
    sched::start(task);
    Ok(())
}

/// Process 1, which will begin with `regs`.
pub(crate) fn make_first(files: Arc<FileTable>, context: Arc<FsContext>, regs: &UserRegs) -> Result<NewTask> {
    let space = Space::try_new()?;
    let thread = fork::first(space.clone(), files, context)?;
    let fpu = FpuState::try_new().ok_or(Errno::ENOMEM)?;
    sched::new_user(thread, regs, space, fpu, crate::arch::Segments::default())
}

/// The first process's way into its program, on its own stack.
pub(super) fn exec_first(regs: &mut UserRegs, cmdline: &str) {
    // The last word wins, as in Linux: what the user appends comes last.
    let named = ["rdinit=", "init="]
        .iter()
        .find_map(|key| cmdline.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix(key)));
    let candidates = ["/init", "/sbin/init", "/etc/init", "/bin/init", "/bin/sh"];
    for path in named.into_iter().chain(candidates) {
        match exec::exec_kernel(regs, path.as_bytes()) {
            Ok(()) => return,
            Err(errno) if named.is_some_and(|n| n == path) => {
                error!("cannot execute {path}: {errno:?}");
            }
            Err(_) => {}
        }
    }
    error!("no first program: put an /init into the initramfs, or name one with init=");
    arch::power_off()
}
