//! Hosted tests: the kernel's rooms over the hosted machine, with processes whose programs are closures.
//!
//! ```text
//!   #[test]
//!   fn what_is_written_to_a_pipe_is_read_from_it() {
//!       in_process(|| { ... });
//!   }
//! ```
//!
//! [`in_process`] gives the test a process: forked by the first one, with a session, a root and credentials of its own. In it the test
//! calls the kernel as a system call would, or makes whole system calls ([`syscall`]); it forks ([`fork`]), makes threads
//! ([`thread`]), has memory that can fault ([`Memory`]). What needs no process is simply called.
//!
//! Tests run at the same time on one kernel, as programs do. So a test looks only at what is its own: not at counts of all processes.
//! A task waits through the kernel ([`until`]), never for the host: a blocked host thread would be a CPU that stands still.

mod boot;
mod files;
mod memory;
mod outcome;
mod task;

pub use boot::{in_process, in_process_of};
pub use files::{get_file, make_dir, mount_at, put_file};
pub use memory::{BAD_ADDRESS, Memory};
pub use task::{Child, Joining, fork, is_asleep, syscall, thread, until};

use crate::errno::Result;
use crate::fs::Path;
use crate::fs::vfs::superblock::Mounting;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

/// Runs `test` on `cases` values of `strategy`. It fails by panic, and is run again with smaller values then.
pub fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// An empty file system for a root or a mount of the test's own.
pub fn empty_root() -> Result<Path> {
    use crate::fs::{tmpfs, vfs::mount};
    let superblock =
        (tmpfs::TMPFS.mount)(&tmpfs::TMPFS, &Mounting { options: b"mode=755", ..Mounting::default() })?;
    let mount = mount::world(superblock)?;
    Ok(Path { dentry: mount.root.clone(), mount })
}

#[cfg(test)]
mod tests;
