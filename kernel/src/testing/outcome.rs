//! How a test's closures end: with a result, or with a panic whose words go to whoever waits.

use std::boxed::Box;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::{String, ToString};
use std::time::Duration;

/// A test that takes longer hangs: the longest takes 20 seconds of a processor, beside others and on a busy computer.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// How a closure ended: its result, or what its panic said and where.
pub type Outcome<R> = std::result::Result<R, String>;

std::thread_local! {
    /// What the last panic in `outcome_of` said; None: there is nobody to tell.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes what panics in `outcome_of` say: the host would show it with another test. One elsewhere stops a CPU, and so the test program.
pub fn note_panics() {
    let show = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let noted = SAID.with_borrow_mut(|said| said.as_mut().map(|said| *said = info.to_string()));
        if noted.is_none() {
            show(info);
            if sync::machine::hosted::is_scheduled() {
                std::process::abort();
            }
        }
    }));
}

pub fn outcome_of<R>(f: impl FnOnce() -> R) -> Outcome<R> {
    SAID.set(Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(f));
    let said = SAID.take().unwrap_or_default();
    outcome.map_err(|_| said)
}
