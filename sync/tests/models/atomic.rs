//! The facade `sync::atomic`, over loom, and with one name broken. The models of `vm` use it too.

pub use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence,
};
use std::cell::Cell;

std::thread_local! {
    // Loom runs all threads of a model on the thread that called it.
    static BROKEN: Cell<Option<&'static str>> = const { Cell::new(None) };
    static REACHED: Cell<bool> = const { Cell::new(false) };
}

/// Chooses what is broken in the models that this thread explores.
pub fn break_one(name: Option<&'static str>) {
    BROKEN.set(name);
    if name.is_some() {
        REACHED.set(false);
    }
}

/// Whether the model came across what is broken.
pub fn was_reached() -> bool {
    REACHED.get()
}

fn is_broken(name: &'static str) -> bool {
    let broken = BROKEN.get() == Some(name);
    if broken {
        REACHED.set(true);
    }
    broken
}

pub fn site(name: &'static str, order: Ordering) -> Ordering {
    if is_broken(name) { Ordering::Relaxed } else { order }
}

pub fn step(name: &'static str) -> bool {
    !is_broken(name)
}

pub fn fence_at(name: &'static str) {
    if !is_broken(name) {
        fence(Ordering::SeqCst);
    }
}

pub fn fence_with(name: &'static str, order: Ordering) {
    if !is_broken(name) {
        fence(order);
    }
}

pub fn fence_after_rmw(name: &'static str) {
    fence_at(name);
}

pub fn relax() {
    loom::thread::yield_now();
}

/// A thread to wake, and whether the token is gone. (An atomic, so that loom explores both orders of the end and the use.)
pub struct Token(&'static (loom::thread::Thread, AtomicU32));

impl Drop for Token {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.1.store(1, Ordering::Relaxed);
        }
    }
}

pub fn park_token() -> Token {
    // Leaked, so that a model that uses it too late is wrong to the model and not to the machine.
    Token(Box::leak(Box::new((loom::thread::current(), AtomicU32::new(0)))))
}

pub fn park() {
    loom::thread::park();
}

pub fn unpark(token: &Token) {
    let token = token.0;
    assert_eq!(token.1.load(Ordering::Relaxed), 0, "the sleeper is gone");
    token.0.unpark();
}

pub fn holder() -> u32 {
    1
}

macro_rules! const_new {
    ($(#[$m:meta])* pub fn $name:ident($($a:ident : $t:ty),*) -> Self $body:block) => {
        $(#[$m])* pub fn $name($($a: $t),*) -> Self $body
    };
}
pub(crate) use const_new;
