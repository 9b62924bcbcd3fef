//! Disks that a test plays, over memory-mapped registers: honest ones, ones that lie, and ones that take their time.

use std::boxed::Box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::vec;
use std::vec::Vec;

use ::virtio::{Transport, Width};
use vm::PhysAddr;
use vm::frame::hosted::{device_reads, device_writes};

use super::disk::{Disk, Error, SECTOR, WINDOW};
use super::{Device, find};
use crate::arch::Registers;
use crate::testing::{fork, in_process, syscall, thread, until};
use linux_raw_sys::general as abi;

/// 192 KiB: three windows.
const BYTES: usize = 192 << 10;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    None,
    /// The used ring says that this chain is done.
    Chain(u32),
    /// So many bytes more were written than are true.
    Longer(u32),
    /// The index says so many more.
    Jump(u16),
    /// The status of each request.
    Status(u8),
    /// Says that it has read a sector less.
    Short,
}

/// A disk's registers and contents.
struct Fake {
    lie: Lie,
    /// Requests wait until somebody calls `work`.
    is_slow: AtomicBool,
    state: Mutex<State>,
    device: OnceLock<&'static Device>,
}

#[derive(Default)]
struct State {
    status: u32,
    feature_word: u32,
    size: u16,
    ready: u32,
    tables: [u32; 6],
    seen: u16,
    used: u16,
    contents: Vec<u8>,
}

fn word<const N: usize>(at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    device_reads(PhysAddr(at), &mut bytes);
    bytes
}

impl State {
    fn table(&self, n: usize) -> u64 {
        u64::from(self.tables[2 * n]) | u64::from(self.tables[2 * n + 1]) << 32
    }

    /// The buffers of a chain: where, how long, whether writable.
    fn chain(&self, head: u16) -> Vec<(u64, u32, bool)> {
        let (mut parts, mut at) = (Vec::new(), head);
        loop {
            let descriptor = self.table(0) + u64::from(at) * 16;
            let flags = u16::from_le_bytes(word(descriptor + 12));
            let len = u32::from_le_bytes(word(descriptor + 8));
            parts.push((u64::from_le_bytes(word(descriptor)), len, flags & 2 != 0));
            if flags & 1 == 0 {
                return parts;
            }
            at = u16::from_le_bytes(word(descriptor + 14));
        }
    }

    /// Does what one chain asks; how many bytes were written.
    fn serve(&mut self, head: u16, status: u8) -> u32 {
        let parts = self.chain(head);
        let header: [u8; 16] = word(parts[0].0);
        let kind = u32::from_le_bytes(header[..4].try_into().unwrap());
        let mut at = (u64::from_le_bytes(header[8..].try_into().unwrap()) * SECTOR) as usize;
        let mut written = 0;
        for &(address, len, writable) in &parts[1..parts.len() - 1] {
            let here = &mut self.contents[at..at + len as usize];
            match kind {
                0 if writable => {
                    device_writes(PhysAddr(address), here);
                    written += len;
                }
                1 if !writable => device_reads(PhysAddr(address), here),
                other => panic!("a request {other} with data"),
            }
            at += len as usize;
        }
        let &(address, len, writable) = parts.last().unwrap();
        assert_eq!((len, writable), (1, true));
        device_writes(PhysAddr(address), &[status]);
        written + 1
    }
}

impl Fake {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves all that waits, and interrupts.
    fn work(&self) {
        let mut state = self.lock();
        let (available, used) = (state.table(1), state.table(2));
        while state.status != 0 && u16::from_le_bytes(word(available + 2)) != state.seen {
            let at = u64::from(state.seen % state.size);
            let head = u16::from_le_bytes(word(available + 4 + 2 * at));
            state.seen = state.seen.wrapping_add(1);
            let status = if let Lie::Status(status) = self.lie { status } else { 0 };
            let written = state.serve(head, status);
            let said = match self.lie {
                Lie::Longer(more) => written.wrapping_add(more),
                Lie::Short => written.saturating_sub(SECTOR as u32),
                _ => written,
            };
            let chain = if let Lie::Chain(chain) = self.lie { chain } else { u32::from(head) };
            let element = used + 4 + 8 * u64::from(state.used % state.size);
            device_writes(PhysAddr(element), &[chain.to_le_bytes(), said.to_le_bytes()].concat());
            state.used = state.used.wrapping_add(if let Lie::Jump(jump) = self.lie { jump } else { 1 });
            device_writes(PhysAddr(used + 2), &state.used.to_le_bytes());
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

    fn read(&self, at: usize, _: Width) -> u32 {
        let state = self.lock();
        match at {
            0 => 0x7472_6976,
            4 => 2,
            8 => 2,
            // A cache that is flushed; modern.
            0x10 => [1 << 9, 1][state.feature_word as usize],
            0x34 => 64,
            0x44 => state.ready,
            0x70 => state.status,
            0x100 => (BYTES as u64 / SECTOR) as u32,
            _ => 0,
        }
    }

    fn write(&self, at: usize, _: Width, value: u32) {
        let mut state = self.lock();
        match at {
            0x14 => state.feature_word = value,
            0x38 => state.size = value as u16,
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

/// A disk of zeros. It stays, as a machine's does.
fn disk(lie: Lie) -> (&'static Disk, Arc<Fake>) {
    let state = Mutex::new(State { contents: vec![0; BYTES], ..State::default() });
    let fake = Arc::new(Fake { lie, is_slow: AtomicBool::new(false), state, device: OnceLock::new() });
    let (transport, kind, _) = Transport::mmio(Registers(fake.clone())).unwrap().unwrap();
    assert_eq!(kind, 2);
    let (device, features) = find::start(transport, &find::DISK, |_, _, _| Ok(())).unwrap();
    let device: &'static Device = Box::leak(Box::new(device));
    fake.device.set(device).ok().unwrap();
    (Box::leak(Box::new(Disk::try_new(device, features).unwrap())), fake)
}

fn put(disk: &'static Disk, at: u64, bytes: &[u8]) -> Result<usize, Error> {
    let end = at + bytes.len() as u64;
    let mut rest = bytes;
    disk.write(at, end, |blocks| {
        blocks.each(at, end, |piece| {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
            piece.len()
        })
    })
}

fn got(disk: &'static Disk, at: u64, len: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    disk.read(at, at + len)?.each(at, at + len, |piece| {
        bytes.extend_from_slice(piece);
        piece.len()
    });
    Ok(bytes)
}

#[test]
fn bytes_are_where_they_were_put_and_nowhere_else() {
    in_process(|| {
        let (disk, fake) = disk(Lie::None);
        assert_eq!((disk.shape.bytes(), disk.shape.block), (BYTES as u64, 512));
        let mut model = vec![0; BYTES];
        for (n, (at, len)) in
            [(0, 512), (5, 1), (511, 2), (4000, 9000), (65_000, 536), (65_536, 65_536), (130_000, 77)]
                .into_iter()
                .enumerate()
        {
            let bytes = vec![n as u8 + 1; len];
            assert_eq!(put(disk, at as u64, &bytes), Ok(len));
            model[at..at + len].copy_from_slice(&bytes);
            assert_eq!(got(disk, at as u64, len as u64).unwrap(), bytes);
        }
        assert!(fake.lock().contents == model);
        assert_eq!(disk.flush(), Ok(()));
    });
}

#[test]
fn a_disk_that_lies_is_reset_and_used_no_more() {
    in_process(|| {
        for lie in [
            Lie::Chain(7),
            Lie::Chain(u32::MAX),
            Lie::Longer(1),
            Lie::Longer(u32::MAX / 2),
            Lie::Jump(2),
            Lie::Jump(300),
        ] {
            let (disk, fake) = disk(lie);
            assert_eq!(got(disk, 0, 512).unwrap_err(), Error::Io, "{lie:?}");
            assert_eq!(fake.lock().status, 0, "{lie:?}: not reset");
            assert_eq!(put(disk, 0, &[1; 512]).unwrap_err(), Error::Io);
            assert_eq!(put(disk, 3, &[1]).unwrap_err(), Error::Io);
            assert_eq!(disk.requests_under_way(), 0);
        }
    });
}

#[test]
fn a_request_that_fails_fails_alone() {
    in_process(|| {
        for (status, error) in [(1, Error::Io), (2, Error::Unsupported), (255, Error::Io), (77, Error::Io)] {
            let (disk, fake) = disk(Lie::Status(status));
            assert_eq!(got(disk, 0, 512).unwrap_err(), error);
            assert_eq!(put(disk, 100, &[1; 700]).unwrap_err(), error);
            assert_ne!(fake.lock().status, 0);
        }
        // What it says it has not read is not shown.
        assert_eq!(got(disk(Lie::Short).0, 0, 1024).unwrap_err(), Error::Io);
    });
}

#[test]
fn a_killed_writer_leaves_its_place_to_others_when_the_disk_is_done() {
    in_process(|| {
        let (disk, fake) = disk(Lie::None);
        fake.is_slow.store(true, Ordering::SeqCst);
        let child = fork(move || {
            let _ = put(disk, 0, &[1; 512]);
        });
        until(|| disk.requests_under_way() == 1);
        syscall(abi::__NR_kill, &[child.pid as usize, 9]).unwrap();
        // It ends though the disk does nothing.
        child.wait();
        let next = thread(move || put(disk, 0, &[2; 512]));
        let elsewhere = thread(move || put(disk, WINDOW, &[3; 512]));
        until(|| disk.requests_under_way() == 2);
        // The one to the same place is not under way yet: the first and the one elsewhere are.
        fake.work();
        assert_eq!(elsewhere.join(), Ok(512));
        until(|| disk.requests_under_way() == 1);
        fake.work();
        assert_eq!(next.join(), Ok(512));
        assert_eq!(got_at_once(&fake, 0), 2);
        assert_eq!(got_at_once(&fake, WINDOW as usize), 3);
    });
}

fn got_at_once(fake: &Fake, at: usize) -> u8 {
    fake.lock().contents[at]
}

#[test]
fn requests_that_wait_on_a_disk_that_lies_fail_too() {
    in_process(|| {
        let (disk, fake) = disk(Lie::Jump(100));
        fake.is_slow.store(true, Ordering::SeqCst);
        let waiting: Vec<_> = (0..3).map(|n| thread(move || put(disk, n * WINDOW, &[1; 512]))).collect();
        until(|| disk.requests_under_way() == 3);
        fake.work();
        for thread in waiting {
            assert_eq!(thread.join(), Err(Error::Io));
        }
    });
}
