//! How a model is explored: once whole, and once for each name of the facade, with what is called so broken. The models of `vm` use it too.

use crate::atomic;

/// Explores `model`, which must hold, with at most `preemptions` per run.
pub fn explore(preemptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Explores `model` with what is called `name` broken, and says whether that was noticed.
pub fn notices(name: &'static str, preemptions: usize, model: fn()) -> bool {
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
                $crate::explore::explore($preemptions, super::$model);
            }
            $(#[test]
            fn $test() {
                assert!($crate::explore::notices($name, $preemptions, super::$model), "the model holds even with {} broken", $name);
            })*
        }
    };
}
