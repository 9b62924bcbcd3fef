//! How a model is explored: once whole, and once for each name of the facade, with what is called so broken. The models of `vm` use it too.

use crate::atomic;
use std::sync::Arc;

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

/// Runs `first` and `second` on a thread each. Loom begins with one after the other, and then turns the order of what depends on each other; but
/// of each place it knows the last access only, so that it does not see that an exchange depends on a load by another thread if its own thread has
/// loaded the place in between. So who loads and exchanges comes first, and who only loads second.
#[allow(dead_code)] // Not all that include this have such a model.
pub fn in_turn<W: Send + Sync + 'static>(world: &Arc<W>, first: fn(&W), second: fn(&W)) {
    let threads = [first, second].map(|run| {
        let world = world.clone();
        loom::thread::spawn(move || run(&world))
    });
    for thread in threads {
        thread.join().unwrap();
    }
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
