//! Failing on purpose, for tests.
#![forbid(unsafe_code)]

use super::AllocError;
use core::cell::Cell;

std::thread_local! {
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `f`; in it, `n` allocations of this thread through `sync::heap` succeed, those of frames among them, and all after
/// them fail.
pub fn fail_after<R>(n: u64, f: impl FnOnce() -> R) -> R {
    struct Back(Option<u64>);
    impl Drop for Back {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _back = Back(LEFT.replace(Some(n)));
    f()
}

/// For allocators that `fail_after` shall reach too: may this thread have what it asks for?
pub fn allowed() -> Result<(), AllocError> {
    match LEFT.get() {
        None => Ok(()),
        Some(0) => Err(AllocError),
        Some(n) => {
            LEFT.set(Some(n - 1));
            Ok(())
        }
    }
}
