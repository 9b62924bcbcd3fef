//! Races of the name cache, each made to happen by a gate.

use super::super::cache::Cache;
use super::testfs::When;
use super::tree::ROOT;
use super::*;
use crate::errno::*;
use crate::fs::caller;
use crate::process;
use crate::testing::{Memory, fork, in_process, is_asleep, syscall, until};
use linux_raw_sys::general::{
    __NR_access, __NR_bind, __NR_connect, __NR_sendto, __NR_socket, __NR_truncate, SIGKILL,
};

const KINDS: [Cache; 2] = [Cache::Cached, Cache::Revalidated];

fn in_both(test: impl Fn(World) + Send + Sync + Copy + 'static) {
    for cache in KINDS {
        in_process(move || test(World::new(cache)));
    }
}

#[test]
fn one_name_is_asked_for_once_and_others_go_in_parallel() {
    in_both(|world| {
        *super::testfs::lock(&world.fs.lifetime) = u64::MAX;
        world
            .fs
            .elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular).and(tree.make(ROOT, b"y", Kind::Regular)))
            .unwrap();
        let gate = world.fs.gate("lookup", "x", When::Before);
        let first = world.spawn(|_| number("x"));
        until(|| gate.arrived() == 1);
        let second = world.spawn(|_| number("x"));
        until(|| is_asleep(second.tid));
        // Not held up by the two.
        number("y").unwrap();
        create("z").unwrap();
        assert_eq!(gate.arrived(), 1);
        gate.open();
        assert_eq!(first.join().unwrap(), second.join().unwrap());
        assert_eq!(world.fs.calls("lookup", "x"), 1);
    });
}

#[test]
fn a_lookup_that_fails_leaves_the_next_to_ask_itself() {
    in_both(|world| {
        world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular)).unwrap();
        world.fs.fail("lookup", 0, EIO);
        let gate = world.fs.gate("lookup", "x", When::Before);
        let first = world.spawn(|_| number("x"));
        until(|| gate.arrived() == 1);
        let second = world.spawn(|_| number("x"));
        until(|| is_asleep(second.tid));
        gate.open();
        assert_eq!(first.join(), Err(EIO));
        second.join().unwrap();
        assert_eq!(world.fs.calls("lookup", "x"), 2);
    });
}

#[test]
fn killed_lookups_and_waiters_leave_nothing_behind() {
    in_both(|world| {
        world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular)).unwrap();
        let gate = world.fs.gate("lookup", "x", When::Before);
        // One asks, and one waits for it.
        let asking = fork(|| assert_eq!(number("x"), Err(EINTR)));
        until(|| gate.arrived() == 1);
        let waiting = fork(|| assert_eq!(number("x"), Err(EINTR)));
        until(|| is_asleep(waiting.pid));
        for child in [waiting, asking] {
            caller::signal_process(child.pid, SIGKILL);
            child.wait();
        }
        let third = world.spawn(|_| number("x"));
        until(|| gate.arrived() == 2);
        gate.open();
        third.join().unwrap();
        assert!(process::current_pid() != 0);
    });
}

/// A change of `x` begins while a lookup of it is on its way with the answer from before: it waits, and what it does is seen.
fn change_waits(setup: fn(&World), change: fn() -> Result, before: bool, after: bool) {
    for cache in KINDS {
        in_process(move || {
            let world = World::new(cache);
            setup(&world);
            let gate = world.fs.gate("lookup", "x", When::After);
            let asks = world.spawn(|_| number("x"));
            until(|| gate.arrived() == 1);
            let changes = world.spawn(move |_| change());
            until(|| is_asleep(changes.tid));
            gate.open();
            assert_eq!(asks.join().is_ok(), before);
            changes.join().unwrap();
            assert_eq!(number("x").is_ok(), after, "the lookup's answer outlived the change");
            assert_eq!(list(".").unwrap().contains(&"x".into()), after);
        });
    }
}

fn with_x(world: &World) {
    world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular)).unwrap();
}

fn with_dir_x(world: &World) {
    world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Directory)).unwrap();
}

fn with_y(world: &World) {
    world.fs.elsewhere(|tree| tree.make(ROOT, b"y", Kind::Regular)).unwrap();
}

#[test]
fn changes_wait_for_a_lookup_of_their_name() {
    change_waits(with_x, || unlink("x"), true, false);
    change_waits(with_dir_x, || rmdir("x"), true, false);
    change_waits(with_x, || mv("x", "z", 0), true, false);
    change_waits(|_| (), || create("x"), false, true);
    change_waits(|_| (), || mkdir("x"), false, true);
    change_waits(with_y, || mv("y", "x", 0), false, true);
    change_waits(with_y, || link("y", "x"), false, true);
}

/// A lookup of `x` begins while a change of it is under way: it waits, and sees the change.
fn lookup_waits(setup: fn(&World), op: &'static str, on: &'static str, change: fn() -> Result, after: bool) {
    for cache in KINDS {
        in_process(move || {
            let world = World::new(cache);
            setup(&world);
            let gate = world.fs.gate(op, on, When::After);
            let changes = world.spawn(move |_| change());
            until(|| gate.arrived() == 1);
            let asks = world.spawn(|_| number("x"));
            // Where the cache knows the name from before the change the walk may pass; then it saw that.
            until(|| is_asleep(asks.tid) || process::find_thread(asks.tid).is_none());
            let asked = world.spawn(|_| number("other"));
            until(|| is_asleep(asked.tid));
            gate.open();
            changes.join().unwrap();
            asks.join().ok();
            assert_eq!(asked.join(), Err(ENOENT));
            assert_eq!(number("x").is_ok(), after);
        });
    }
}

#[test]
fn lookups_that_come_during_a_change_end_with_it() {
    lookup_waits(|_| (), "create", "x", || create("x"), true);
    lookup_waits(with_x, "unlink", "x", || unlink("x"), false);
    lookup_waits(with_dir_x, "rmdir", "x", || rmdir("x"), false);
    lookup_waits(with_x, "rename", "x", || mv("x", "z", 0), false);
    lookup_waits(with_y, "rename", "y", || mv("y", "x", 0), true);
}

#[test]
fn a_lookup_in_a_directory_that_is_removed_meanwhile_finds_nothing_and_enters_nothing() {
    in_both(|world| {
        mkdir("d").unwrap();
        if world.superblock.cache == Cache::Cached {
            // Not known whole, so that the file system is asked.
            world.names().shrink(10);
            world.names().shrink(10);
        }
        let held = find("d").unwrap();
        held.dentry.directory.as_ref().unwrap().claims.as_ref().unwrap().set_whole(false);
        // Found, and gone before the answer comes.
        let d = held.dentry.inode.number;
        world.fs.elsewhere(|tree| tree.make(d, b"x", Kind::Regular)).unwrap();
        let gate = world.fs.gate("lookup", "x", When::After);
        let asks = world.spawn(|_| number("d/x"));
        until(|| gate.arrived() == 1);
        world.fs.elsewhere(|tree| tree.remove(d, b"x")).unwrap();
        rmdir("d").unwrap();
        gate.open();
        assert_eq!(asks.join(), Err(ENOENT));
        let names = held.dentry.directory.as_ref().unwrap().names.lock();
        assert!(names.dead && names.is_empty());
    });
}

/// Takes out all names that can go, whatever was used lately.
fn shrink(world: &World) {
    while world.names().shrink(usize::MAX / 4) > 0 {}
}

#[test]
fn a_name_that_is_asked_about_is_not_evicted() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        create("x").unwrap();
        create("y").unwrap();
        world.fs.forget_calls();
        let gate = world.fs.gate("revalidate", "x", When::After);
        let asks = world.spawn(|_| number("x"));
        until(|| gate.arrived() == 1);
        shrink(&world);
        assert_eq!(world.names().len(), 1, "x stays, and nothing else");
        gate.open();
        asks.join().unwrap();
        number("x").unwrap();
        assert_eq!(world.fs.calls("lookup", "x"), 0);
    });
}

#[test]
fn a_directory_in_which_a_name_is_asked_for_is_not_evicted() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        let d = world.fs.elsewhere(|tree| tree.make(ROOT, b"d", Kind::Directory)).unwrap();
        world.fs.elsewhere(|tree| tree.make(d, b"x", Kind::Regular)).unwrap();
        let gate = world.fs.gate("lookup", "x", When::After);
        let asks = world.spawn(|_| number("d/x"));
        until(|| gate.arrived() == 1);
        shrink(&world);
        gate.open();
        let answer = asks.join().unwrap();
        assert_eq!(number("d/x"), Ok(answer));
        assert_eq!((world.fs.calls("lookup", "d"), world.fs.calls("lookup", "x")), (1, 1));
    });
}

#[test]
fn a_directory_without_a_place_is_not_forgotten_while_a_name_in_it_is_asked_for() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        let d = world.fs.elsewhere(|tree| tree.make(ROOT, b"d", Kind::Directory)).unwrap();
        world.fs.elsewhere(|tree| tree.make(d, b"x", Kind::Regular)).unwrap();
        let gate = world.fs.gate("lookup", "x", When::After);
        let asks = world.spawn(|_| number("d/x"));
        until(|| gate.arrived() == 1);
        world.fs.elsewhere(|tree| tree.leave(ROOT, b"d")).unwrap();
        assert_eq!(number("d"), Err(ENOENT));
        // Grace periods pass, after which it would be let go if nobody held it.
        for _ in 0..4 {
            sync::rcu::synchronize();
            shrink(&world);
        }
        world.fs.elsewhere(|tree| tree.enter(ROOT, b"back", d)).unwrap();
        find("back").unwrap();
        gate.open();
        let answer = asks.join().unwrap();
        assert_eq!(number("back/x"), Ok(answer));
        assert_eq!(world.fs.calls("lookup", "x"), 1, "the answer went into another directory's table");
    });
}

#[test]
fn a_mount_on_a_name_that_is_just_found_stale_stays_and_a_later_one_finds_no_name() {
    for mounted_first in [true, false] {
        in_process(move || {
            let world = World::new(Cache::Revalidated);
            mkdir("d").unwrap();
            let point = find("d").unwrap();
            let (other, inner) = TestFs::mount(Cache::Uncached);
            other.elsewhere(|tree| tree.make(ROOT, b"inside", Kind::Regular)).unwrap();
            let mount =
                || mount::mount(inner.clone(), inner.root()?, b"x", 0, point.clone(), namespace::first());
            world.fs.elsewhere(|tree| tree.remove(ROOT, b"d")).unwrap();
            // The file system has said that it is gone, and the cache has not heard it yet.
            let gate = world.fs.gate("revalidate", "d", When::After);
            let walks = world.spawn(|_| number("d/inside"));
            until(|| gate.arrived() == 1);
            if mounted_first {
                mount().unwrap();
            }
            gate.open();
            assert_eq!(walks.join().is_ok(), mounted_first);
            if mounted_first {
                number("d/inside").unwrap();
                mount::unmount(&find("d").unwrap(), true, namespace::first(), |_| false).unwrap();
            }
            assert_eq!(number("d"), Err(ENOENT));
            assert_eq!(mount(), Err(ENOENT));
        });
    }
}

#[test]
fn a_mount_below_a_directory_that_is_just_found_stale_stays_with_those_who_are_there() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        mkdir("d").unwrap();
        mkdir("d/point").unwrap();
        mkdir("d/free").unwrap();
        let (d, point, free) = (find("d").unwrap(), find("d/point").unwrap(), find("d/free").unwrap());
        let (_other, inner) = TestFs::mount(Cache::Uncached);
        world.fs.elsewhere(|tree| tree.leave(ROOT, b"d")).unwrap();
        let gate = world.fs.gate("revalidate", "d", When::After);
        let walks = world.spawn(|_| number("d"));
        until(|| gate.arrived() == 1);
        mount::mount(inner.clone(), inner.root().unwrap(), b"x", 0, point.clone(), namespace::first())
            .unwrap();
        gate.open();
        assert_eq!(walks.join(), Err(ENOENT));
        assert!(d.dentry.is_removed() && free.dentry.is_removed() && !point.dentry.is_removed());
        let context = caller::context();
        let inside = lookup::resolve(&context, &Cred::root(), Start::At(&d), b"point", true).unwrap();
        assert!(core::ptr::eq(&*inside.dentry, &*inner.root().unwrap()));
        mount::unmount(&inside, true, namespace::first(), |_| false).unwrap();
    });
}

#[test]
fn a_file_moves_between_directories_while_a_directory_is_moved() {
    in_both(|world| {
        for name in ["a", "a/dir", "b", "d", "e"] {
            mkdir(name).unwrap();
        }
        create("d/x").unwrap();
        create("e/y").unwrap();
        let gate = world.fs.gate("rename", "dir", When::Before);
        let directory = world.spawn(|_| mv("a/dir", "b/dir", 0));
        until(|| gate.arrived() == 1);
        let file = world.spawn(|_| mv("d/x", "e/x", 0).and_then(|()| mv("e/y", "d/x", rename::NO_REPLACE)));
        until(|| number("d/x").is_ok() && number("e/x").is_ok());
        file.join().unwrap();
        assert_eq!(number("e/y"), Err(ENOENT));
        gate.open();
        directory.join().unwrap();
        number("b/dir").unwrap();
    });
}

#[test]
fn two_renames_that_cross_do_not_wait_for_each_other_for_ever() {
    in_both(|world| {
        mkdir("d").unwrap();
        mkdir("e").unwrap();
        create("d/x").unwrap();
        create("e/x").unwrap();
        let threads: Vec<_> = (0..4)
            .map(|n| {
                world.spawn(move |_| {
                    for _ in 0..50 {
                        let (a, b) = if n % 2 == 0 { ("d/x", "e/x") } else { ("e/x", "d/x") };
                        mv(a, b, rename::EXCHANGE).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(Joining::join);
        assert_ne!(number("d/x").unwrap(), number("e/x").unwrap());
    });
}

#[test]
fn a_name_on_its_way_out_takes_no_mount_and_a_mount_point_is_not_removed() {
    in_both(|world| {
        mkdir("d").unwrap();
        let (other, inner) = TestFs::mount(Cache::Uncached);
        let point = find("d").unwrap();
        let gate = world.fs.gate("rmdir", "d", When::Before);
        world.fs.fail("rmdir", 0, EIO);
        let removes = world.spawn(|_| rmdir("d"));
        until(|| gate.arrived() == 1);
        let mount = |point: &Path| {
            mount::mount(inner.clone(), inner.root()?, b"x", 0, point.clone(), namespace::first())
        };
        assert_eq!(mount(&point), Err(ENOENT));
        gate.open();
        assert_eq!(removes.join(), Err(EIO));
        mount(&point).unwrap();
        assert_eq!(rmdir("d"), Err(EBUSY));
        assert_eq!(mv("d", "e", 0), Err(EBUSY));
        other.elsewhere(|tree| tree.make(ROOT, b"inside", Kind::Regular)).unwrap();
        number("d/inside").unwrap();
        mount::unmount(&find("d").unwrap(), true, namespace::first(), |_| false).unwrap();
        rmdir("d").unwrap();
        assert_eq!(mount(&point), Err(ENOENT));
    });
}

#[test]
fn who_finds_a_name_made_meanwhile_opens_it_where_it_was_made() {
    in_both(|world| {
        *super::testfs::lock(&world.fs.lifetime) = u64::MAX;
        mkdir("d").unwrap();
        for path in ["/d/x", "d/../d/y"] {
            assert_eq!(number(path), Err(ENOENT));
            let gate = world.fs.gate("create", &path[path.len() - 1..], When::Before);
            let opened = |world: &World| {
                let opens = move |_| open(path, OpenFlags::CREATE).map(|file| file.inode().number);
                world.spawn(opens)
            };
            let first = opened(&world);
            until(|| gate.arrived() == 1);
            // It has found nothing of that name, and waits for who makes it.
            let second = opened(&world);
            until(|| is_asleep(second.tid));
            gate.open();
            let made = first.join().unwrap();
            assert_eq!((second.join(), number(path)), (Ok(made), Ok(made)));
            assert_eq!(list("/").unwrap(), ["d"]);
        }
    });
}

#[test]
fn a_call_is_made_again_where_the_file_was_replaced_meanwhile() {
    in_both(|world| {
        world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular)).unwrap();
        let access = || syscall(__NR_access, &[Memory::of_str("/x").address, 0]);
        world.fs.fail("lookup", 0, ESTALE);
        world.fs.fail("lookup", 0, ESTALE);
        assert_eq!(access(), Ok(0));
        assert_eq!(world.fs.calls("lookup", "x"), 3);
        // Not for ever.
        world.fs.elsewhere(|tree| tree.make(ROOT, b"y", Kind::Regular)).unwrap();
        (0..100).for_each(|_| world.fs.fail("lookup", 0, ESTALE));
        assert_eq!(syscall(__NR_access, &[Memory::of_str("/y").address, 0]), Err(ESTALE));
        assert_eq!(world.fs.calls("lookup", "y"), 17);
    });
}

#[test]
fn calls_with_the_address_of_a_socket_are_made_again() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        let socket = syscall(__NR_socket, &[1, 2, 0]).unwrap();
        // AF_UNIX, in two bytes, and the path.
        let address = |name: &str| Memory::of_str(&std::format!("\u{1}\0/{name}"));
        for (name, call) in [("connected", __NR_connect), ("sent", __NR_sendto), ("bound", __NR_bind)] {
            let (at, len) = (address(name), name.len() + 3);
            let short = [socket, at.address, len];
            let long = [socket, 0, 0, 0, at.address, len];
            world.fs.fail("lookup", 0, ESTALE);
            let expected = if call == __NR_bind { Ok(0) } else { Err(ENOENT) };
            assert_eq!(syscall(call, if call == __NR_sendto { &long } else { &short }), expected, "{name}");
            assert_eq!(world.fs.calls("lookup", name), 2, "{name}");
        }
    });
}

#[test]
fn a_call_that_is_made_again_believes_no_name() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        *super::testfs::lock(&world.fs.lifetime) = u64::MAX;
        mkdir("d").unwrap();
        create("d/x").unwrap();
        let truncate = || syscall(__NR_truncate, &[Memory::of_str("/d/x").address, 0]);
        truncate().unwrap();
        assert_eq!(world.fs.calls("revalidate", "d"), 0);
        world.fs.fail("set_attributes", 0, ESTALE);
        truncate().unwrap();
        assert_eq!((world.fs.calls("revalidate", "d"), world.fs.calls("revalidate", "x")), (1, 1));
        truncate().unwrap();
        assert_eq!(world.fs.calls("revalidate", "x"), 1);
    });
}
