//! Devices that a test plays, over memory-mapped registers, with several queues. What the driver asks is shown to a closure of the test, which answers at once,
//! later ([`Fake::finish`]), or with a lie.
#![forbid(unsafe_code)]

use std::boxed::Box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::vec::Vec;

use ::virtio::{Transport, Width};
use vm::PhysAddr;
use vm::frame::hosted::{device_reads, device_writes};

use super::find::{self, Driver};
use super::{Device, Event};
use crate::arch::Registers;

/// A part of what is asked: where it is, how long, whether the device writes it.
pub type Part = (u64, u32, bool);

/// What the device does with what it is asked.
pub enum Answer {
    /// It is done, and has written so many bytes.
    Done(u32),
    /// It keeps it for now.
    Keep,
    /// It says that this chain is done.
    Chain(u32),
    /// It says that so many more are done.
    Jump(u16),
}

type Answers = Box<dyn Fn(usize, &[Part]) -> Answer + Send + Sync>;

#[derive(Default, Clone)]
struct Ring {
    size: u16,
    ready: u32,
    tables: [u32; 6],
    seen: u16,
    used: u16,
}

#[derive(Default)]
struct State {
    status: u32,
    feature_word: u32,
    selected: usize,
    rings: [Ring; 4],
    kept: Vec<(usize, u16, Vec<Part>)>,
    configuration: [u8; 16],
}

pub struct Fake {
    kind: u32,
    offered: u32,
    answer: Answers,
    state: Mutex<State>,
    device: OnceLock<&'static Device>,
    /// A reset is not carried out.
    pub is_stuck: AtomicBool,
    pub resets: AtomicU32,
}

fn word<const N: usize>(at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    device_reads(PhysAddr(at), &mut bytes);
    bytes
}

impl Ring {
    fn table(&self, n: usize) -> u64 {
        u64::from(self.tables[2 * n]) | u64::from(self.tables[2 * n + 1]) << 32
    }

    fn chain(&self, head: u16) -> Vec<Part> {
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

    fn put(&mut self, chain: u32, written: u32, jump: u16) {
        let element = self.table(2) + 4 + 8 * u64::from(self.used % self.size);
        device_writes(PhysAddr(element), &[chain.to_le_bytes(), written.to_le_bytes()].concat());
        self.used = self.used.wrapping_add(jump);
        device_writes(PhysAddr(self.table(2) + 2), &self.used.to_le_bytes());
    }
}

impl Fake {
    /// A device that is up and has begun. It stays, as a machine's does.
    pub(super) fn begin(
        kind: u32,
        driver: &Driver,
        offered: u32,
        configuration: &[u8],
        answer: impl Fn(usize, &[Part]) -> Answer + Send + Sync + 'static,
    ) -> (&'static Device, Arc<Fake>) {
        let mut state = State::default();
        state.configuration[..configuration.len()].copy_from_slice(configuration);
        let fake = Arc::new(Fake {
            kind,
            offered,
            answer: Box::new(answer),
            state: Mutex::new(state),
            device: OnceLock::new(),
            is_stuck: AtomicBool::new(false),
            resets: AtomicU32::new(0),
        });
        let (transport, ..) = Transport::mmio(Registers(fake.clone())).unwrap().unwrap();
        let (device, features) = find::start(transport, driver, |_, _, _| Ok(())).unwrap();
        let device: &'static Device = Box::leak(Box::new(device));
        fake.device.set(device).ok().unwrap();
        driver.begin_for_test(device, features);
        (device, fake)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it keeps of queue `n`.
    pub fn kept(&self, n: usize) -> Vec<Vec<Part>> {
        self.lock().kept.iter().filter(|kept| kept.0 == n).map(|kept| kept.2.clone()).collect()
    }

    pub fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.lock().configuration[at..at + 4].try_into().unwrap())
    }

    /// The device changes its configuration, and says so.
    pub fn set_word(&self, at: usize, value: u32) {
        self.lock().configuration[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.change();
    }

    /// It says that its configuration has changed.
    pub fn change(&self) {
        self.device.get().unwrap().tell(Event::Changed);
    }

    fn interrupt(&self) {
        if let Some(device) = self.device.get() {
            device.lines.iter().for_each(|line| line.look(device));
        }
    }

    /// Is done with the first that it keeps of queue `n`, into whose writable parts it writes `bytes`. False: it keeps none.
    pub fn finish(&self, n: usize, bytes: &[u8]) -> bool {
        {
            let mut state = self.lock();
            let Some(at) = state.kept.iter().position(|kept| kept.0 == n) else { return false };
            let (_, head, parts) = state.kept.remove(at);
            let mut rest = bytes;
            for (address, len, _) in parts.iter().filter(|part| part.2) {
                let (now, later) = rest.split_at(rest.len().min(*len as usize));
                device_writes(PhysAddr(*address), now);
                rest = later;
            }
            state.rings[n].put(u32::from(head), bytes.len() as u32, 1);
        }
        self.interrupt();
        true
    }

    fn work(&self, n: usize) {
        loop {
            let (head, parts) = {
                let mut state = self.lock();
                let ring = &mut state.rings[n];
                if ring.ready == 0 || u16::from_le_bytes(word(ring.table(1) + 2)) == ring.seen {
                    break;
                }
                let at = u64::from(ring.seen % ring.size);
                let head = u16::from_le_bytes(word(ring.table(1) + 4 + 2 * at));
                ring.seen = ring.seen.wrapping_add(1);
                (head, ring.chain(head))
            };
            let answer = (self.answer)(n, &parts);
            let mut state = self.lock();
            match answer {
                Answer::Keep => state.kept.push((n, head, parts)),
                Answer::Done(written) => state.rings[n].put(u32::from(head), written, 1),
                Answer::Chain(chain) => state.rings[n].put(chain, 0, 1),
                Answer::Jump(jump) => state.rings[n].put(u32::from(head), 0, jump),
            }
        }
        self.interrupt();
    }
}

impl ::virtio::Registers for Fake {
    fn len(&self) -> usize {
        0x200
    }

    fn read(&self, at: usize, width: Width) -> u32 {
        let state = self.lock();
        match at {
            0 => 0x7472_6976,
            4 => 2,
            8 => self.kind,
            0x10 => [self.offered, 1][state.feature_word as usize],
            0x34 => 64,
            0x44 => state.rings[state.selected].ready,
            0x70 => state.status,
            0x100..0x110 => {
                let bytes = &state.configuration[at - 0x100..][..width as usize];
                bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
            }
            _ => 0,
        }
    }

    fn write(&self, at: usize, _: Width, value: u32) {
        let mut state = self.lock();
        let selected = state.selected;
        match at {
            0x14 => state.feature_word = value,
            0x30 => state.selected = value as usize,
            0x38 => state.rings[selected].size = value as u16,
            0x44 => state.rings[selected].ready = value,
            0x70 if value == 0 => {
                self.resets.fetch_add(1, SeqCst);
                if !self.is_stuck.load(SeqCst) {
                    state.status = 0;
                    state.rings = Default::default();
                    state.kept.clear();
                }
            }
            0x70 => state.status = value,
            0x80 | 0x84 => state.rings[selected].tables[(at - 0x80) / 4] = value,
            0x90 | 0x94 => state.rings[selected].tables[2 + (at - 0x90) / 4] = value,
            0xa0 | 0xa4 => state.rings[selected].tables[4 + (at - 0xa0) / 4] = value,
            0x50 => {
                drop(state);
                self.work(value as usize);
            }
            0x100..0x10d => state.configuration[at - 0x100..][..4].copy_from_slice(&value.to_le_bytes()),
            _ => {}
        }
    }
}
