//! What comes while a page is replaced by its copy, or on its way to another mapping: at the flush, where the entry is busy or the page is out.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{alone, anon, space};
use soft::{Soft, read, switch_to, write};
use std::sync::{Arc, Mutex};
use std::thread;
use sync::machine::hosted::as_cpu;
use vm::*;

/// A page that two spaces have, and whose translations two CPUs may hold in one of them: a write on one of them copies it, and is waited for.
/// While it waits, `meanwhile` runs. Returns the space, the page, and what the write said.
fn write_while(
    meanwhile: impl FnOnce(&Arc<Space<Soft>>, usize) + Send + 'static,
) -> (Arc<Space<Soft>>, usize, Result<(), FaultError>) {
    let parent = space();
    let page = parent.map(&anon(2 * PAGE_SIZE)).unwrap().0;
    as_cpu(10, || {
        switch_to(&parent);
        write(&parent, page, 5).unwrap();
    });
    let child = parent.fork().unwrap();
    child.set_multithreaded();
    for cpu in [11, 12] {
        as_cpu(cpu, || {
            switch_to(&child);
            // The leaf is the space's own.
            write(&child, page + PAGE_SIZE, 1).unwrap();
            assert_eq!(read(&child, page), Ok(5));
        });
    }
    let (space, once) = (child.clone(), Mutex::new(Some(meanwhile)));
    soft::on_flush(Box::new(move || {
        if let Some(meanwhile) = once.lock().unwrap().take() {
            meanwhile(&space, page);
        }
    }));
    let mut wrote = Ok(());
    as_cpu(11, || wrote = write(&child, page, 6));
    soft::on_flush(Box::new(|| ()));
    as_cpu(10, || drop(parent));
    (child, page, wrote)
}

fn leave(space: Arc<Space<Soft>>) {
    drop(space);
    for cpu in [10, 11, 12] {
        as_cpu(cpu, sync::rcu::drain);
    }
}

#[test]
fn a_right_that_is_taken_while_a_page_is_copied_is_gone() {
    let _g = alone();
    let (space, page, wrote) = write_while(|space, page| {
        space.protect(VirtAddr(page), PAGE_SIZE, Prot::empty()).unwrap();
    });
    assert_eq!(wrote, Err(FaultError::Denied));
    for cpu in [11, 12] {
        as_cpu(cpu, || assert_eq!(read(&space, page), Err(FaultError::Denied)));
    }
    as_cpu(12, || {
        space.protect(VirtAddr(page), PAGE_SIZE, Prot::READ).unwrap();
        assert_eq!(read(&space, page), Ok(5), "the page has gone with its rights");
    });
    leave(space);
}

#[test]
fn a_page_that_is_being_copied_moves_with_its_mapping() {
    let _g = alone();
    let (moved, place) = std::sync::mpsc::channel();
    let (space, page, wrote) = write_while(move |space, page| {
        let space = space.clone();
        thread::spawn(move || {
            switch_to(&space);
            let to = space.map(&anon(PAGE_SIZE)).unwrap();
            let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
            let to = space.remap(VirtAddr(page), PAGE_SIZE, PAGE_SIZE, flags, to).unwrap();
            drop(space);
            sync::rcu::drain();
            moved.send(to.0).unwrap();
        });
        // It cannot end before the page is there, but may have got that far.
        thread::sleep(std::time::Duration::from_millis(50));
    });
    let to = place.recv().unwrap();
    as_cpu(12, || {
        assert_eq!(read(&space, page), Err(FaultError::NotMapped));
        // The write came before the move, or found nothing any more.
        assert_eq!(read(&space, to), Ok(if wrote.is_ok() { 6 } else { 5 }));
    });
    leave(space);
}

/// What is mapped where pages are being moved to, while they are, gets none of them.
#[test]
fn a_page_that_moves_is_put_in_its_own_mapping_alone() {
    let _g = alone();
    let object = Object::try_new(1).unwrap();
    object.set_size(PAGE_SIZE as u64).unwrap();
    let s = space();
    let a = s.map(&anon(PAGE_SIZE)).unwrap().0;
    let to = s.map(&anon(PAGE_SIZE)).unwrap();
    for cpu in [11, 12] {
        as_cpu(cpu, || {
            switch_to(&s);
            write(&s, a, 5).unwrap();
        });
    }
    let (other, file) = (s.clone(), object.clone());
    soft::on_flush(Box::new(move || {
        let request = MapRequest {
            hint: to,
            len: PAGE_SIZE,
            prot: Prot::READ,
            flags: MapFlags::FIXED | MapFlags::SHARED,
            backing: Backing::Object { object: file.clone(), offset: 0 },
        };
        other.map(&request).unwrap();
    }));
    as_cpu(11, || {
        let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
        assert_eq!(s.remap(VirtAddr(a), PAGE_SIZE, PAGE_SIZE, flags, to), Ok(to));
        soft::on_flush(Box::new(|| ()));
        assert_eq!(read(&s, to.0), Ok(0), "a page of one mapping shows in another");
        assert_eq!(write(&s, to.0, 1), Err(FaultError::Denied));
    });
    drop(object);
    leave(s);
}
