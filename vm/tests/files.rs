//! Mappings of files, on the software machine: what is shared, what is a copy, and what truncation takes away.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, alone, at, file, object, space};
use soft::{free_frames, read, switch_to, write};
use vm::frame::{SharedBytes, SharedBytesMut};
use vm::*;

#[test]
fn a_shared_mapping_of_a_file_open_for_reading_never_becomes_writable() {
    let _g = alone();
    let s = space();
    let object = Object::try_new(0).unwrap();
    object.set_size(4096).unwrap();
    let flags = MapFlags::SHARED | MapFlags::NO_WRITE;
    let a = s.map(&MapRequest { prot: Prot::READ, flags, ..file(&object, true, 4096) }).unwrap().0;
    assert_eq!(s.protect(VirtAddr(a), 4096, RW), Err(VmError::Access));
    assert_eq!(s.protect(VirtAddr(a), 4096, Prot::empty()), Ok(()));
    assert_eq!(s.protect(VirtAddr(a), 4096, Prot::READ), Ok(()));
}

#[test]
fn a_shared_mapping_is_the_file_and_a_private_one_is_a_copy() {
    let _g = alone();
    let object = object(1 << 20);
    let s = space();
    let shared = s.map(&file(&object, true, 1 << 20)).unwrap().0;
    let private = s.map(&file(&object, false, 1 << 20)).unwrap().0;
    write(&s, shared + 4096, 7).unwrap();
    assert_eq!(read(&s, private + 4096), Ok(7));
    write(&s, private + 4096, 8).unwrap();
    assert_eq!(read(&s, shared + 4096), Ok(7));
    let mut word = [0; 8];
    object.read(4096, 8, |b| b.copy_to(&mut word)).unwrap();
    assert_eq!(u64::from_le_bytes(word), 7);
    object.write(8192, 8, |mut b| b.copy_from(9u64.to_le_bytes()[..].into())).unwrap();
    assert_eq!(read(&s, private + 8192), Ok(9));
    let child = s.fork().unwrap();
    switch_to(&child);
    write(&child, shared, 5).unwrap();
    write(&child, private, 6).unwrap();
    switch_to(&s);
    assert_eq!(read(&s, shared), Ok(5));
    assert_eq!(read(&s, private), Ok(5));
}

#[test]
fn truncation_takes_pages_away_from_every_mapping() {
    let _g = alone();
    let object = object(1 << 20);
    let s = space();
    let shared = s.map(&file(&object, true, 1 << 20)).unwrap().0;
    for page in 0..256 {
        write(&s, shared + page * 4096, 7).unwrap();
    }
    let child = s.fork().unwrap();
    assert_eq!(object.resident_pages(), 256);
    object.set_size(4096 + 8).unwrap();
    assert_eq!(object.resident_pages(), 2);
    assert_eq!(read(&s, shared + 8192), Err(FaultError::Bus));
    assert_eq!(read(&s, shared + 4096 + 8), Ok(0));
    assert_eq!(read(&s, shared + 4096), Ok(7));
    switch_to(&child);
    assert_eq!(read(&child, shared + 8192), Err(FaultError::Bus));
    object.set_size(1 << 20).unwrap();
    assert_eq!(read(&child, shared + 8192), Ok(0));
}

#[test]
fn pages_mapped_beside_others_of_a_leaf_are_found_by_the_next_cut() {
    let _g = alone();
    for shared in [true, false] {
        let object = object(16 << 12);
        let (s, other) = (space(), space());
        let piece = |space: &Space<soft::Soft>, page: u64, len: usize| {
            let backing = Backing::Object { object: object.clone(), offset: page << 12 };
            let mut request = MapRequest { backing, ..file(&object, shared, len << 12) };
            request.hint = VirtAddr((1 << 30) + ((page as usize) << 12));
            request.flags |= MapFlags::FIXED;
            let at = space.map(&request).unwrap().0;
            write(space, at, 1 + page).unwrap();
            at
        };
        switch_to(&other);
        piece(&other, 0, 16);
        switch_to(&s);
        let first = piece(&s, 4, 1);
        // The leaf has its place among those that a cut looks at.
        object.set_size(16 << 12).unwrap();
        object.set_size(12 << 12).unwrap();
        object.set_size(16 << 12).unwrap();
        let (below, above) = (piece(&s, 1, 1), piece(&s, 14, 2));
        object.set_size(14 << 12).unwrap();
        assert_eq!(read(&s, above), Err(FaultError::Bus));
        object.set_size(2 << 12).unwrap();
        assert_eq!((read(&s, first), read(&s, below)), (Err(FaultError::Bus), Ok(2)));
        object.set_size(1 << 12).unwrap();
        assert_eq!(read(&s, below), Err(FaultError::Bus));
        drop((s, other, object));
        sync::rcu::drain();
    }
}

#[test]
fn truncation_takes_private_copies_away_too() {
    let _g = alone();
    let object = object(1 << 20);
    let s = space();
    let private = s.map(&file(&object, false, 1 << 20)).unwrap().0;
    for page in 0..256 {
        write(&s, private + page * 4096, 7).unwrap();
    }
    let child = s.fork().unwrap();
    switch_to(&child);
    // The child's leaf is a copy now; both refer to the pages.
    write(&child, private, 8).unwrap();
    assert_eq!(object.resident_pages(), 256);
    object.set_size(4096 + 8).unwrap();
    assert_eq!(read(&child, private + 8192), Err(FaultError::Bus));
    assert_eq!(write(&child, private + 8192, 1), Err(FaultError::Bus));
    assert_eq!(read(&child, private + 4096), Ok(7), "a copy of the last page stays as it is");
    switch_to(&s);
    assert_eq!(read(&s, private + 8192), Err(FaultError::Bus));
    assert_eq!(read(&s, private), Ok(7));
    object.set_size(1 << 20).unwrap();
    assert_eq!(read(&s, private + 8192), Ok(0));
    write(&s, private + 8192, 9).unwrap();
    object.punch(2, 3).unwrap();
    assert_eq!(read(&s, private + 8192), Ok(9), "a hole leaves private copies alone");
}

#[test]
fn every_one_of_many_sharers_forgets_what_a_truncation_took() {
    let _g = alone();
    let object = object(1 << 20);
    let s = space();
    let shared = s.map(&file(&object, true, 1 << 20)).unwrap().0;
    write(&s, shared, 1).unwrap();
    let children: Vec<_> = (0..40).map(|_| s.fork().unwrap()).collect();
    let on = |i: usize, f: &mut dyn FnMut()| sync::machine::hosted::as_cpu(10 + i as u32, f);
    for (i, child) in children.iter().enumerate() {
        on(i, &mut || {
            switch_to(child);
            assert_eq!(read(child, shared), Ok(1));
        });
    }
    // Those that were flushed first leave while the others are still to be flushed: the list is short then.
    let mut leaving: Vec<_> = children.iter().skip(26).cloned().collect();
    let rest: Vec<_> = children.into_iter().take(26).collect();
    let (ask, asked) = std::sync::mpsc::channel();
    let (answer, answered) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        while let Ok(()) = asked.recv() {
            drop(leaving.pop());
            answer.send(()).unwrap();
        }
    });
    soft::on_flush(Box::new(move || {
        ask.send(()).unwrap();
        answered.recv().unwrap();
    }));
    object.set_size(0).unwrap();
    soft::on_flush(Box::new(|| ()));
    other.join().unwrap();
    for (i, child) in rest.iter().enumerate() {
        on(i, &mut || assert_eq!(read(child, shared), Err(FaultError::Bus), "child {i}"));
    }
    drop((s, rest, object));
    for cpu in 0..40 {
        on(cpu, &mut sync::rcu::drain);
    }
}

/// Takes or gives bytes; at most `most` of them without sleeping.
struct Buffer {
    bytes: Vec<u8>,
    most: usize,
    /// How often it was asked without sleeping, and with.
    asked: (usize, usize),
}

impl Buffer {
    fn take_in(&mut self, bytes: SharedBytes<'_>, most: usize) -> usize {
        let start = self.bytes.len();
        let n = bytes.len().min(most);
        self.bytes.resize(start + n, 0);
        bytes.copy_to(&mut self.bytes[start..])
    }

    fn give_out(&mut self, mut bytes: SharedBytesMut<'_>, most: usize) -> usize {
        let n = bytes.len().min(most);
        let given: Vec<u8> = self.bytes.drain(..n).collect();
        bytes.copy_from(given[..].into())
    }
}

impl Sink for Buffer {
    fn put_now(&mut self, bytes: SharedBytes<'_>) -> usize {
        self.asked.0 += 1;
        self.take_in(bytes, self.most)
    }

    fn put(&mut self, bytes: SharedBytes<'_>) -> usize {
        self.asked.1 += 1;
        self.take_in(bytes, usize::MAX)
    }

    fn rest(&mut self) {}
}

impl Source for Buffer {
    fn take_now(&mut self, bytes: SharedBytesMut<'_>) -> usize {
        self.asked.0 += 1;
        self.give_out(bytes, self.most)
    }

    fn take(&mut self, bytes: SharedBytesMut<'_>) -> usize {
        self.asked.1 += 1;
        self.give_out(bytes, usize::MAX)
    }

    fn rest(&mut self) {}
}

#[test]
fn what_a_copy_without_sleep_leaves_is_copied_with_sleep() {
    let _g = alone();
    let text: Vec<u8> = (0..3 * 4096).map(|n| (n % 251) as u8).collect();
    for (most, asked) in [(0, (1, 4)), (5, (1, 4)), (4095, (2, 3)), (4096, (4, 0))] {
        let object = Object::try_new(0).unwrap();
        let mut from = Buffer { bytes: text.clone(), most, asked: (0, 0) };
        assert_eq!(object.write_from(4090, text.len(), &mut from), Ok(text.len()));
        assert_eq!((from.bytes.len(), from.asked), (0, asked), "most {most}");
        assert_eq!(object.size(), 4090 + text.len() as u64);
        let mut to = Buffer { bytes: Vec::new(), most, asked: (0, 0) };
        assert_eq!(object.read_to(4090, usize::MAX >> 1, &mut to), Ok(text.len()));
        assert_eq!(to.asked, asked, "most {most}");
        assert!(to.bytes == text, "most {most}");
        // A hole is no page, and is read with sleep.
        object.set_size(1 << 20).unwrap();
        let mut to = Buffer { bytes: Vec::new(), most, asked: (0, 0) };
        assert_eq!(object.read_to(100_000, 10, &mut to), Ok(10));
        assert_eq!((to.bytes, to.asked), (vec![0; 10], (0, 1)));
    }
}

#[test]
fn data_and_holes_are_found_by_the_tree() {
    let _g = alone();
    let object = object(4 << 40);
    let end = object.pages();
    assert_eq!(object.seek(0, end, true), None);
    assert_eq!(object.seek(5, end, false), Some(5));
    let pages = [0, 1, 63, 64, 65, 4095, 4096, 1 << 20, (1 << 20) + 4096, 262_143, end - 1];
    for page in pages {
        object.write(page * 4096, 1, |mut b| b.copy_from([1][..].into())).unwrap();
    }
    let mut data: Vec<u64> = pages.into();
    data.sort_unstable();
    // Every place from which one can look: each page of data, its neighbours, and far ones between.
    for from in
        data.iter().flat_map(|p| [p.saturating_sub(1), *p, p + 1, p + 77, p + 70_000]).filter(|p| *p < end)
    {
        assert_eq!(
            object.seek(from, end, true),
            data.iter().copied().find(|p| *p >= from),
            "data from {from}"
        );
        assert_eq!(
            object.seek(from, end, false),
            (from..end).find(|p| !data.contains(p)),
            "hole from {from}"
        );
        assert_eq!(object.seek(from, from, true), None);
    }
    assert_eq!(object.seek(0, 1 << 20, true), Some(0));
    assert_eq!(object.seek(262_144, 1 << 20, true), None);
    object.punch(0, end).unwrap();
    assert_eq!(object.seek(0, end, true), None, "tables that hold nothing");
}

#[test]
fn processes_share_the_tables_of_shared_memory_for_good() {
    let _g = alone();
    let all = free_frames();
    let object = Object::try_new(0).unwrap();
    object.set_size(8 << 20).unwrap();
    let parent = space();
    let a = 0x4000_0000;
    parent
        .map(&MapRequest {
            hint: VirtAddr(a),
            flags: MapFlags::SHARED | MapFlags::FIXED,
            ..file(&object, true, 8 << 20)
        })
        .unwrap();
    for page in 0..2048 {
        write(&parent, a + page * 4096, 1).unwrap();
    }
    let before = free_frames();
    let children: Vec<_> = (0..8).map(|_| parent.fork().unwrap()).collect();
    for (i, child) in children.iter().enumerate() {
        switch_to(child);
        for page in 0..2048 {
            assert_eq!(read(child, a + page * 4096), Ok(i as u64 + 1));
            write(child, a + page * 4096, i as u64 + 2).unwrap();
        }
    }
    // Three upper tables each, and no leaf.
    assert!(before - free_frames() <= 8 * 3, "{} frames", before - free_frames());
    // Who changes what it means gets a leaf of its own; the others' stays.
    let child = &children[3];
    switch_to(child);
    child.protect(VirtAddr(a + 4096), 4096, Prot::READ).unwrap();
    child.unmap(VirtAddr(a + 8192), 4096).unwrap();
    assert_eq!(write(child, a + 4096, 7), Err(FaultError::Denied));
    assert_eq!(read(child, a + 8192), Err(FaultError::NotMapped));
    write(child, a, 70).unwrap();
    switch_to(&parent);
    assert_eq!(read(&parent, a), Ok(70));
    write(&parent, a + 4096, 71).unwrap();
    write(&parent, a + 8192, 72).unwrap();
    parent.advise(VirtAddr(a), 2 << 20, Advice::DontNeed).unwrap();
    switch_to(&children[4]);
    assert_eq!(read(&children[4], a + 4096), Ok(71));
    object.set_size(4096).unwrap();
    assert_eq!(read(&children[4], a + 4096), Err(FaultError::Bus));
    switch_to(&children[5]);
    assert_eq!(read(&children[5], a + 4096), Err(FaultError::Bus));
    assert_eq!(read(&children[5], a), Ok(70));
    switch_to(&parent);
    drop((object, children, parent));
    assert_eq!(free_frames(), all);
}

/// A leaf that other mappings keep: what was mapped there once goes with its last mapping.
#[test]
fn an_object_goes_when_nobody_maps_it_any_more() {
    let _g = alone();
    let s = space();
    let stays = s.map(&at(0x4000_0000, 4096, RW)).unwrap().0;
    write(&s, stays, 1).unwrap();
    let map = |object: &ObjectRef, fixed: usize, shared: bool| {
        let flags = if shared { MapFlags::FIXED | MapFlags::SHARED } else { MapFlags::FIXED };
        s.map(&MapRequest { hint: VirtAddr(fixed), flags, ..file(object, shared, 16 * 4096) }).unwrap();
        for page in 0..16 {
            write(&s, fixed + page * 4096, 7).unwrap();
        }
    };
    let before = free_frames();
    for i in 0..80 {
        let object = object(16 * 4096);
        let addr = stays + (1 + i % 3) * 16 * 4096;
        map(&object, addr, i % 5 != 0);
        match i % 4 {
            // In parts, the last one first.
            0 => {
                s.unmap(VirtAddr(addr + 8 * 4096), 8 * 4096).unwrap();
                assert_eq!(read(&s, addr), Ok(7));
                s.unmap(VirtAddr(addr), 8 * 4096).unwrap();
            }
            // By what is mapped in its place.
            1 => {
                s.map(&at(addr, 16 * 4096, RW)).unwrap();
                s.unmap(VirtAddr(addr), 16 * 4096).unwrap();
            }
            // It moves on.
            2 => {
                let to = addr + (64 << 20);
                let how = MremapFlags::MAYMOVE | MremapFlags::FIXED;
                s.remap(VirtAddr(addr), 16 * 4096, 16 * 4096, how, VirtAddr(to)).unwrap();
                assert_eq!(read(&s, to), Ok(7));
                s.unmap(VirtAddr(to), 16 * 4096).unwrap();
            }
            _ => s.unmap(VirtAddr(addr), 16 * 4096).unwrap(),
        }
    }
    let kept = before - free_frames();
    assert!(kept <= 4, "{kept} frames");
}

/// With several threads, and a file that is made shorter while it is unmapped: what another CPU may still read is not freed before it has flushed.
#[test]
fn an_object_outlives_what_other_cpus_may_read_of_it() {
    let _g = alone();
    let s = space();
    let stays = s.map(&at(0x4000_0000, 4096, RW)).unwrap().0;
    write(&s, stays, 1).unwrap();
    s.set_multithreaded();
    let addr = stays + 16 * 4096;
    let before = free_frames();
    for _ in 0..20 {
        let object = object(16 * 4096);
        let flags = MapFlags::FIXED | MapFlags::SHARED;
        s.map(&MapRequest { hint: VirtAddr(addr), flags, ..file(&object, true, 16 * 4096) }).unwrap();
        write(&s, addr, 7).unwrap();
        drop(object);
        sync::machine::hosted::as_cpu(7, || {
            switch_to(&s);
            assert_eq!(read(&s, addr), Ok(7));
        });
        s.unmap(VirtAddr(addr), 16 * 4096).unwrap();
        sync::machine::hosted::as_cpu(7, || assert_eq!(read(&s, addr), Err(FaultError::NotMapped)));
    }
    let kept = before - free_frames();
    assert!(kept <= 16, "{kept} frames");
}
