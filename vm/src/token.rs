//! One lock around the VM system, to compare with: what a kernel loses whose CPUs wait for each other there (DragonFly's vm_token, until 2011). `vm_token=1` on the
//! kernel's command line switches it on until the machine ends; else nobody takes it.
//!
//! It is held over each change of a space's mappings, the release of pages, a fork, the end of a space, and each step of a fault; not while an object brings a
//! page, which may take any lock of the kernel's.
//!
//! Lock order: before all others of vm.
#![forbid(unsafe_code)]

use crate::order::Token;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use sync::{Mutex, lock_class};

lock_class! { static TOKEN_CLASS: LockClass = ("vm_token", Token); }

static TOKEN: Mutex<(), Token> = Mutex::new((), &TOKEN_CLASS);
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Switches the token on if the kernel's command line says so. Before there is a space.
pub fn configure(command_line: &str) {
    if command_line.split_ascii_whitespace().any(|word| word == "vm_token=1") {
        switch_on();
    }
}

/// From now on it is taken. While nobody holds it: what was held before is given back.
pub fn switch_on() {
    IS_ON.store(true, Relaxed);
}

/// The token, held if it is on. Stays on its thread.
///
/// It has no contents, so that who has the switch off keeps nothing: he looks at it twice.
#[must_use = "the token is given back at once"]
pub struct Held(PhantomData<*mut ()>);

#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// The token, if it is on, until what this returns is dropped. No lock of vm is held, nor the token. May sleep.
#[inline(always)]
#[track_caller]
pub fn hold() -> Held {
    if is_on() {
        take();
    }
    Held(PhantomData)
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        if is_on() {
            give_back();
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn take() {
    TOKEN.take();
}

#[cold]
#[inline(never)]
fn give_back() {
    TOKEN.give_back();
}
