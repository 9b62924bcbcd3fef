//! Models of the protocols in `src/protocol`, under loom: every interleaving (up to a bound on preemptions), and every value that a
//! load may give under the C++ memory model.
//!
//! The protocols are the very files that the kernel compiles, included below a facade over loom's atomics. Each argument there rests on
//! named orderings and steps; each name has a test here in which it is weakened or left out, and which passes only if the model then fails.
//! Not every name can have one: loom orders the stores to one place as it executes them, so an ordering that only keeps two stores to one place
//! apart is not missed. Those are not named in the protocols.

#![allow(clippy::disallowed_methods)] // A test may die when memory is out.

#[allow(dead_code)]
mod atomic;
#[allow(dead_code)]
#[path = "../../src/protocol/mod.rs"]
mod protocol;

mod chain;
mod count;
mod inbox;
mod locks;
mod period;

/// Explores `model`, which must hold, with at most `preemptions` per run.
fn explore(preemptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Explores `model` with what is called `name` broken, and says whether that was noticed.
fn notices(name: &'static str, preemptions: usize, model: fn()) -> bool {
    atomic::break_one(Some(name));
    let noticed = std::panic::catch_unwind(|| explore(preemptions, model)).is_err();
    assert!(atomic::was_reached(), "nothing is called {name} on the way through this model");
    atomic::break_one(None);
    noticed
}

/// Tests that a model holds, and that it does not with any of the named orderings or steps broken.
#[macro_export]
macro_rules! model {
    ($model:ident ($preemptions:expr) $(breaks $test:ident: $name:literal)*) => {
        mod $model {
            #[test]
            fn holds() {
                $crate::explore($preemptions, super::$model);
            }
            $(#[test]
            fn $test() {
                assert!($crate::notices($name, $preemptions, super::$model), "the model holds even with {} broken", $name);
            })*
        }
    };
}
