//! Mounts that share, at random: whatever is done, and wherever memory runs out, the groups are whole, a call that fails has changed nothing, and at the end
//! nothing is left. That what is passed on is what Linux passes on, tests/abi/names/sharing.c says.

use proptest::prelude::*;

use super::*;
use crate::errno::{EINVAL, ENOMEM};
use crate::fs::vfs::mount::{Kind as Sharing, Mount, Where};
use crate::testing::{check, in_process};

const PLACES: [&str; 9] = ["a", "b", "c", "a/x", "a/y", "b/x", "b/y", "c/x", "c/y"];

#[derive(Clone, Debug)]
enum Step {
    Fresh(usize),
    Bind(usize, usize, bool),
    Share(usize, usize, bool),
    Move(usize, usize),
    TakeOff(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0..PLACES.len();
    prop_oneof![
        3 => place.clone().prop_map(Step::Fresh),
        3 => (place.clone(), place.clone(), any::<bool>()).prop_map(|(a, b, c)| Step::Bind(a, b, c)),
        4 => (place.clone(), 0usize..4, any::<bool>()).prop_map(|(a, b, c)| Step::Share(a, b, c)),
        3 => (place.clone(), place.clone()).prop_map(|(a, b)| Step::Move(a, b)),
        3 => (place, any::<bool>()).prop_map(|(a, b)| Step::TakeOff(a, b)),
    ]
}

fn top(name: usize) -> Result<Path> {
    Ok(mount::top(find(PLACES[name])?))
}

fn run(step: &Step, inner: &Arc<SuperBlock>) -> Result {
    let within = namespace::first();
    match *step {
        Step::Fresh(at) => mount::mount(inner.clone(), inner.root()?, b"x", 0, top(at)?, within),
        Step::Bind(from, at, below) => mount::bind_tree(&top(from)?, top(at)?, below, within),
        Step::Share(at, kind, below) => {
            let kinds = [Sharing::Shared, Sharing::Slave, Sharing::Private, Sharing::Unbindable];
            let place = top(at)?;
            if !core::ptr::eq(&*place.mount.root, &*place.dentry) {
                return Err(EINVAL);
            }
            mount::set_kind(&place.mount, kinds[kind], below)
        }
        Step::Move(from, at) => mount::move_to(&top(from)?, Where::On(top(at)?), within),
        Step::TakeOff(at, detach) => mount::unmount(&top(at)?, detach, within, |_| false),
    }
}

/// All mounts of the world: where they hang, and how they share.
fn seen(world: &World) -> Vec<(u64, u64, String, [Option<u32>; 2])> {
    let within = namespace::first();
    let hangs_here = |mount: &Mount| {
        let read = sync::rcu::read();
        let mut at = mount.point(&read);
        while let Some(point) = at {
            if core::ptr::eq(&*point.mount, &*world.root.mount) {
                return true;
            }
            at = point.mount.point(&read);
        }
        false
    };
    let mut all = Vec::new();
    for mount in mount::all(within).unwrap().into_iter().filter(|mount| hangs_here(mount)) {
        let told = mount::told(&mount, within, &world.root).unwrap();
        let place = Path { dentry: mount.root.clone(), mount: mount.clone() };
        let text = mount::text_of(&place, &world.root).unwrap().0;
        let above = mount.point(&sync::rcu::read()).map_or(0, |point| point.mount.id);
        all.push((mount.id, above, String::from_utf8(text).unwrap(), [told.group, told.master]));
    }
    all
}

/// Mounts are few enough for the test to end.
const MOST: usize = 60;

#[test]
fn groups_are_whole_whatever_is_done_and_wherever_memory_runs_out() {
    let steps = prop::collection::vec((step(), prop::option::of(0u64..40)), 1..40);
    check(150, &steps, |steps| {
        in_process(move || {
            let world = World::new(Cache::Cached);
            ["a", "b", "c"].iter().for_each(|name| mkdir(name).unwrap());
            let (other, inner) = TestFs::mount(Cache::Cached);
            for name in [&b"x"[..], b"y"] {
                other.elsewhere(|tree| tree.make(super::tree::ROOT, name, Kind::Directory)).unwrap();
            }
            // So that most of what comes is passed on.
            let first =
                [Step::Fresh(0), Step::Share(0, 0, false), Step::Bind(0, 1, false), Step::Bind(1, 2, false)];
            first.iter().for_each(|step| run(step, &inner).unwrap());
            for (step, memory) in &steps {
                let before = seen(&world);
                let adds = !matches!(step, Step::TakeOff(..) | Step::Share(..));
                if adds && before.len() > MOST {
                    continue;
                }
                let done = match memory {
                    Some(left) => sync::heap::hosted::fail_after(*left, || run(step, &inner)),
                    None => run(step, &inner),
                };
                mount::check_groups();
                // Slaves are made one after the other.
                let in_part = matches!(step, Step::Share(_, 1, true)) && done == Err(ENOMEM);
                if done.is_err() && !in_part {
                    assert_eq!(seen(&world), before, "{step:?} {memory:?} {done:?}");
                }
            }
            for name in 0..3 {
                while mount::unmount(&top(name).unwrap(), true, namespace::first(), |_| false).is_ok() {}
            }
            assert_eq!(seen(&world), [], "{steps:?}");
            (0..3).for_each(|name| rmdir(PLACES[name]).unwrap());
            assert_eq!(mount::check_groups(), 0, "groups are left");
        });
    });
}
