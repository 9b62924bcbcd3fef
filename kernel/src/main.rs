//! The Darter kernel.
//!
//! `boot` starts it. Under `cargo test` the same rooms run over the hosted machine of `arch`, without what needs hardware, and
//! `testing` starts them.
#![no_std]
#![cfg_attr(target_os = "none", no_main)]
// Hosted, nothing boots that would use all of it. The kernel's own build allows neither.
#![cfg_attr(not(target_os = "none"), allow(dead_code, unused_imports))]
// A test may end when memory does, and what only tests use.
#![cfg_attr(not(target_os = "none"), allow(clippy::disallowed_methods, clippy::disallowed_macros))]

extern crate alloc;
// The rooms say `crate::lock_order`: it is theirs, though a library of its own (Cargo.toml).
extern crate lock_order;
#[cfg(not(target_os = "none"))]
extern crate std;

#[macro_use]
mod log;

mod account;
mod arch;
#[cfg(all(feature = "lockdep", target_os = "none"))]
mod audit;
#[cfg(target_os = "none")]
mod boot;
mod bytes;
mod device;
mod errno;
mod fs;
mod ipc;
mod memory;
mod net;
#[cfg(target_os = "none")]
mod panic;
mod process;
mod procfs;
#[cfg(target_os = "none")]
mod report;
mod sched;
mod sort;
mod syscall;
mod sysfs;
#[cfg(test)]
mod testing;
mod trace;

/// The file systems that can be mounted.
static FILE_SYSTEMS: fs::vfs::superblock::Types = fs::vfs::superblock::Types(&[
    &fs::tmpfs::ROOTFS,
    &fs::tmpfs::TMPFS,
    &fs::devfs::DEVTMPFS,
    &fs::tty::devpts::DEVPTS,
    &fs::ninep::NINEP,
    &fs::overlay::OVERLAY,
    &procfs::PROC,
    &sysfs::SYSFS,
]);

/// For the host, the kernel is there to be tested.
#[cfg(not(target_os = "none"))]
fn main() {
    std::eprintln!("darter-kernel boots as a virtual machine's kernel: make build; ./darter run");
}
