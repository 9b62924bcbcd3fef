//! Consoles that a test plays.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::vec::Vec;
use std::{vec, vec::Vec as Bytes};

use vm::PhysAddr;
use vm::frame::hosted;

use super::super::fake::{Answer, Fake, Part};
use super::super::find::CONSOLE as DRIVER;
use super::*;
use crate::testing::in_process;

/// What the ends of each console have been told.
#[derive(Default)]
struct Told {
    bytes: Bytes<u8>,
    longest: usize,
    rooms: u32,
    sizes: Vec<(u16, u16)>,
    failures: u32,
}

static TOLD: [Mutex<Option<Told>>; MOST] = [const { Mutex::new(None) }; MOST];

fn told<R>(n: usize, f: impl FnOnce(&mut Told) -> R) -> R {
    f(TOLD[n].lock().unwrap().get_or_insert_default())
}

static ENDS: Ends = Ends {
    receive: |n, bytes| {
        told(n, |told| {
            told.bytes.extend_from_slice(bytes);
            told.longest = told.longest.max(bytes.len());
        });
    },
    room: |n| told(n, |told| told.rooms += 1),
    resized: |n, rows, columns| told(n, |told| told.sizes.push((rows, columns))),
    failed: |n| told(n, |told| told.failures += 1),
};

fn begin(
    features: u64,
    answer: impl Fn(usize, &[Part]) -> Answer + Send + Sync + 'static,
) -> (&'static Console, Arc<Fake>) {
    let (device, fake) = Fake::begin(3, &DRIVER, features as u32, &[80, 0, 25, 0], answer);
    let console = of(device).expect("a console");
    console.attach(&ENDS);
    (console, fake)
}

fn bytes_of(parts: &[Part]) -> Bytes<u8> {
    let mut all = Bytes::new();
    for &(address, len, _) in parts {
        let mut bytes = vec![0; len as usize];
        hosted::device_reads(PhysAddr(address), &mut bytes);
        all.extend(bytes);
    }
    all
}

#[test]
fn input_comes_in_parts_and_goes_on_for_ever() {
    in_process(|| {
        let (console, fake) = begin(0, |_, _| Answer::Keep);
        assert_eq!(fake.kept(RECEIVE).len(), INPUT_PAGES);
        let mut sent = Bytes::new();
        for n in 0..100_usize {
            let piece = vec![n as u8; [1, 300, 4096][n % 3]];
            assert!(fake.finish(RECEIVE, &piece));
            sent.extend(piece);
        }
        told(console.number, |told| {
            assert!(told.bytes == sent);
            assert!(told.longest <= PIECE);
            assert!(told.sizes.is_empty(), "no such feature");
        });
        assert_eq!(fake.kept(RECEIVE).len(), INPUT_PAGES);
    });
}

#[test]
fn output_waits_for_nobody_and_nothing_is_lost() {
    in_process(|| {
        let (console, fake) = begin(0, |_, _| Answer::Keep);
        let (mut written, mut n) = (Bytes::new(), 0_u8);
        while console.has_room() {
            let piece = [n; 1000];
            assert!(console.append(&piece), "there was room");
            written.extend(piece);
            n = n.wrapping_add(1);
        }
        console.flush();
        assert!(!console.append(&[0]), "the device has all pages");
        let shown: Bytes<u8> = fake.kept(SEND).iter().flat_map(|parts| bytes_of(parts)).collect();
        assert!(shown == written);
        assert_eq!(fake.kept(SEND).len(), OUTPUT_PAGES);
        assert!(fake.finish(SEND, &[]));
        told(console.number, |told| assert_eq!(told.rooms, 1));
        assert!(console.has_room() && console.append(b"more"));
        console.flush();
        assert_eq!(bytes_of(fake.kept(SEND).last().unwrap()), b"more");
    });
}

#[test]
fn the_windows_size_is_told_at_first_and_when_it_changes() {
    in_process(|| {
        let (console, fake) = begin(SIZE, |_, _| Answer::Keep);
        told(console.number, |told| assert_eq!(told.sizes, [(25, 80)]));
        fake.set_word(0, 132 | 43 << 16);
        told(console.number, |told| assert_eq!(told.sizes, [(25, 80), (43, 132)]));
    });
}

#[test]
fn a_console_that_lies_is_reset_and_its_writers_go_on() {
    in_process(|| {
        let lies: [fn() -> Answer; 3] = [|| Answer::Chain(77), || Answer::Jump(9), || Answer::Done(1)];
        for lie in lies {
            let lied = AtomicU32::new(0);
            let (console, fake) = begin(0, move |queue, _| match queue {
                SEND if lied.fetch_add(1, SeqCst) == 3 => lie(),
                _ => Answer::Keep,
            });
            let resets = fake.resets.load(SeqCst);
            for _ in 0..4 {
                assert!(console.append(b"text"));
                console.flush();
            }
            assert_eq!(fake.resets.load(SeqCst), resets + 1);
            assert!(console.has_failed() && console.has_room());
            told(console.number, |told| assert_eq!(told.failures, 1));
            console.append(b"text");
            console.flush();
        }
        // More than there is room for.
        let (console, fake) = begin(0, |_, _| Answer::Keep);
        fake.finish(RECEIVE, &[1; PAGE_SIZE + 1]);
        assert!(console.has_failed());
        told(console.number, |told| assert!(told.bytes.is_empty()));
    });
}
