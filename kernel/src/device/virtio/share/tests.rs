//! Devices that a test plays: what their configuration says, and servers that answer when the test lets them.

use std::boxed::Box;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::vec;
use std::vec::Vec;

use ::virtio::{Transport, Width, transport};
use vm::PhysAddr;
use vm::frame::hosted::{device_reads, device_writes};

use super::super::{Device, Failure, find};
use super::{Exchange, FEATURES, HEAD, Share};
use crate::arch::Registers;
use crate::testing::{fork, in_process, syscall, thread, until};
use linux_raw_sys::general as abi;

#[derive(Default)]
struct State {
    status: u32,
    word: u32,
    size: u32,
    ready: u32,
    tables: [u32; 6],
    seen: u16,
}

/// Registers of a device that answers each message with its own first bytes.
struct Fake {
    features: u32,
    /// The configuration, from its start on.
    configuration: Vec<u8>,
    is_slow: AtomicBool,
    state: Mutex<State>,
    device: OnceLock<&'static Device>,
}

fn word<const N: usize>(at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    device_reads(PhysAddr(at), &mut bytes);
    bytes
}

impl Fake {
    /// Answers all that waits.
    fn work(&self) {
        let mut state = self.state.lock().unwrap();
        let tables = state.tables.map(u64::from);
        let table = |n: usize| tables[2 * n] | tables[2 * n + 1] << 32;
        while state.status != 0 && u16::from_le_bytes(word(table(1) + 2)) != state.seen {
            let at = u64::from(state.seen) % u64::from(state.size);
            let head = u16::from_le_bytes(word(table(1) + 4 + 2 * at));
            let first = table(0) + u64::from(head) * 16;
            let next = table(0) + u64::from(u16::from_le_bytes(word(first + 14))) * 16;
            let said: [u8; 8] = word(u64::from_le_bytes(word(first)));
            device_writes(PhysAddr(u64::from_le_bytes(word(next))), &said);
            let used = table(2) + 4 + 8 * at;
            device_writes(PhysAddr(used), &[u32::from(head).to_le_bytes(), 8u32.to_le_bytes()].concat());
            state.seen = state.seen.wrapping_add(1);
            device_writes(PhysAddr(table(2) + 2), &state.seen.to_le_bytes());
        }
        drop(state);
        if let Some(device) = self.device.get() {
            device.lines.iter().for_each(|line| line.look(device));
        }
    }
}

impl ::virtio::Registers for Fake {
    fn len(&self) -> usize {
        0x200
    }

    fn read(&self, at: usize, width: Width) -> u32 {
        let state = self.state.lock().unwrap();
        match at {
            0 => 0x7472_6976,
            4 => 2,
            8 => 9,
            0x10 => [self.features, 1][state.word as usize],
            0x34 => 128,
            0x44 => state.ready,
            0x70 => state.status,
            0x100.. => {
                let byte = |n: usize| u32::from(self.configuration.get(at - 0x100 + n).copied().unwrap_or(0));
                (0..width as usize).map(|n| byte(n) << (8 * n)).sum()
            }
            _ => 0,
        }
    }

    fn write(&self, at: usize, _: Width, value: u32) {
        let mut state = self.state.lock().unwrap();
        match at {
            0x14 => state.word = value,
            0x38 => state.size = value,
            0x44 => state.ready = value,
            0x70 => state.status = value,
            0x80 | 0x84 => state.tables[(at - 0x80) / 4] = value,
            0x90 | 0x94 => state.tables[2 + (at - 0x90) / 4] = value,
            0xa0 | 0xa4 => state.tables[4 + (at - 0xa0) / 4] = value,
            0x50 if !self.is_slow.load(Ordering::SeqCst) => {
                drop(state);
                self.work();
            }
            _ => {}
        }
    }
}

/// The share of a device whose configuration says a tag of `len` bytes, which are those of `tag`. It stays, as a machine's does.
fn share(features: u32, len: u16, tag: &[u8]) -> Result<(&'static Share, Arc<Fake>), transport::Error> {
    let configuration = [&len.to_le_bytes()[..], tag].concat();
    let fake = Arc::new(Fake {
        features,
        configuration,
        is_slow: AtomicBool::new(false),
        state: Mutex::default(),
        device: OnceLock::new(),
    });
    let (transport, ..) = Transport::mmio(Registers(fake.clone())).unwrap().unwrap();
    let (device, features) = find::start(transport, &find::SHARE, |_, _, _| Ok(())).unwrap();
    let device: &'static Device = Box::leak(Box::new(device));
    fake.device.set(device).ok().unwrap();
    Ok((Box::leak(Box::new(Share::try_new(device, features)?)), fake))
}

fn ask(share: &'static Share, word: &[u8; 8]) -> Result<Vec<u8>, Failure> {
    let mut exchange = Exchange::try_new(0).unwrap();
    exchange.message()[..8].copy_from_slice(word);
    let tag = share.tag(None)?;
    let (mut exchange, written) = share.ask(exchange, 8, Some(tag), None)?;
    Ok(exchange.head()[..written].to_vec())
}

fn numbers_taken(share: &Share) -> u32 {
    share.numbers.iter().map(|word| word.load(Ordering::SeqCst).count_ones()).sum()
}

#[test]
fn a_tag_is_what_the_configuration_says_if_it_can_be() {
    in_process(|| {
        let tag = |len, tag: &[u8]| share(FEATURES as u32, len, tag).map(|(share, _)| share.tag.clone());
        assert_eq!(tag(4, b"host, and more").unwrap(), b"host");
        assert_eq!(tag(3, b"\0\xff/").unwrap(), b"\0\xff/");
        for len in [0, 255, 256, 1000, u16::MAX] {
            // 254 bytes are all that there is room for.
            let error = tag(len, b"host").unwrap_err();
            assert!(matches!(error, transport::Error::Configuration), "{len}");
        }
        assert!(share(0, 4, b"host").is_err(), "it says no tag");
    });
}

#[test]
fn messages_under_way_have_numbers_of_their_own() {
    in_process(|| {
        let (share, _) = share(FEATURES as u32, 1, b"t").unwrap();
        let tags: Vec<_> = (0..256).map(|_| share.tag(None).unwrap()).collect();
        assert_eq!(tags.iter().map(super::Tag::number).collect::<BTreeSet<_>>().len(), 256);
        assert!(share.try_tag().is_none());
        let waits = thread(|| share.tag(None).unwrap().number());
        drop(tags.into_iter().nth(77));
        assert!(waits.join() < 256);
    });
}

#[test]
fn a_number_is_free_again_when_the_server_is_done_whoever_was_killed() {
    in_process(|| {
        let (share, fake) = share(FEATURES as u32, 1, b"t").unwrap();
        assert_eq!(ask(share, b"12345678").unwrap(), b"12345678");
        assert_eq!(numbers_taken(share), 0);
        fake.is_slow.store(true, Ordering::SeqCst);
        let child = fork(move || drop(ask(share, b"abcdefgh")));
        until(|| share.device.in_flight() == 1);
        syscall(abi::__NR_kill, &[child.pid as usize, 9]).unwrap();
        child.wait();
        assert_eq!((numbers_taken(share), share.device.in_flight()), (1, 1));
        fake.work();
        assert_eq!((numbers_taken(share), share.device.in_flight()), (0, 0));
    });
}

#[test]
fn one_client_has_a_share_at_a_time() {
    in_process(|| {
        let (share, _) = share(FEATURES as u32, 1, b"t").unwrap();
        let soon = || crate::arch::time::now().saturating_add(1_000_000).into();
        share.claim(soon()).unwrap();
        assert!(share.claim(soon()).is_err());
        let next = thread(move || share.claim(u64::MAX.into()).is_ok());
        share.disclaim();
        assert!(next.join());
    });
}

#[test]
fn an_answer_lies_in_its_head_and_then_in_pages() {
    in_process(|| {
        let bytes: Vec<u8> = (0..9000).map(|n| n as u8).collect();
        for data in [0, 1, 4096, 8192] {
            let mut exchange = Exchange::try_new(data).unwrap();
            exchange.answer(&bytes);
            let room = if data == 0 { HEAD } else { 11 + data };
            for len in [0, 7, 11, 12, 4107, 4108, 8203, 9000] {
                let mut out = vec![];
                exchange.copy(len, &mut out).unwrap();
                assert!(out == bytes[..len.min(room)], "{len} of {data}");
            }
        }
        let mut exchange = Exchange::try_new(3 * 4096).unwrap();
        exchange.answer(&vec![9; 3 * 4096 + 11]);
        let mut pages = exchange.into_pages(4100);
        assert_eq!(pages.len(), 2);
        assert!(pages[0].bytes().iter().all(|&byte| byte == 9));
        assert!(pages[1].bytes()[..4].iter().all(|&byte| byte == 9));
        assert!(pages[1].bytes()[4..].iter().all(|&byte| byte == 0));
    });
}
