//! The far end of a queue, as a device sees it, and registers that a test decides about.

use std::boxed::Box;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::vec::Vec;

use crate::queue::{AVAILABLE_WORDS, DESCRIPTOR_WORDS, USED_WORDS};
use crate::{Buffer, QueueMemory, Registers, Width};

/// Tables that driver and device share.
#[derive(Clone)]
pub struct Tables(Arc<Inner>);

struct Inner {
    descriptors: Box<[AtomicU64]>,
    available: Box<[AtomicU16]>,
    used: Box<[AtomicU32]>,
}

impl QueueMemory for Tables {
    fn descriptors(&self) -> &[AtomicU64] {
        &self.0.descriptors
    }

    fn available(&self) -> &[AtomicU16] {
        &self.0.available
    }

    fn used(&self) -> &[AtomicU32] {
        &self.0.used
    }

    fn addresses(&self) -> [u64; 3] {
        [0x1000, 0x2000, 0x3000]
    }
}

impl Tables {
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            descriptors: (0..DESCRIPTOR_WORDS).map(|_| AtomicU64::new(0)).collect(),
            available: (0..AVAILABLE_WORDS).map(|_| AtomicU16::new(0)).collect(),
            used: (0..USED_WORDS).map(|_| AtomicU32::new(0)).collect(),
        }))
    }

    /// How many chains the driver has put in.
    pub fn index(&self) -> u16 {
        self.0.available[1].load(Ordering::Acquire)
    }

    /// The head of the chain that was put in as number `n`.
    pub fn head(&self, n: u16, size: u16) -> u16 {
        self.0.available[2 + usize::from(n % size)].load(Ordering::Relaxed)
    }

    /// The buffers of the chain at `head`.
    pub fn chain(&self, head: u16) -> Vec<Buffer> {
        let mut buffers = Vec::new();
        let mut at = usize::from(head);
        loop {
            let address = self.0.descriptors[2 * at].load(Ordering::Relaxed);
            let word = self.0.descriptors[2 * at + 1].load(Ordering::Relaxed);
            buffers.push(Buffer { address, len: word as u32, writable: word >> 32 & 2 != 0 });
            assert!(buffers.len() <= 256, "a chain that loops");
            if word >> 32 & 1 == 0 {
                return buffers;
            }
            at = (word >> 48) as usize;
        }
    }

    /// Writes element `n` of the used ring, without showing it.
    pub fn put_used(&self, n: u16, size: u16, chain: u32, len: u32) {
        let at = 1 + 2 * usize::from(n % size);
        self.0.used[at].store(chain, Ordering::Relaxed);
        self.0.used[at + 1].store(len, Ordering::Relaxed);
    }

    pub fn show_used(&self, index: u16, flags: u16) {
        self.0.used[0].store(u32::from(flags) | u32::from(index) << 16, Ordering::Release);
    }
}

/// What a read of registers gives.
type Answer = Box<dyn FnMut(usize, Width) -> Option<u32> + Send>;

/// Registers that keep what is written, but where `answer` says otherwise.
pub struct Told {
    len: usize,
    state: Mutex<(HashMap<usize, u32>, Answer)>,
    pub written: Mutex<Vec<(usize, u32)>>,
}

impl Told {
    pub fn new(len: usize, answer: impl FnMut(usize, Width) -> Option<u32> + Send + 'static) -> Arc<Told> {
        Arc::new(Told {
            len,
            state: Mutex::new((HashMap::new(), Box::new(answer))),
            written: Mutex::default(),
        })
    }
}

impl Registers for Arc<Told> {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, width: Width) -> u32 {
        if at + width as usize > self.len {
            return u32::MAX;
        }
        let (kept, answer) = &mut *self.state.lock().unwrap();
        answer(at, width).unwrap_or_else(|| kept.get(&at).copied().unwrap_or(0))
    }

    fn write(&self, at: usize, _: Width, value: u32) {
        self.state.lock().unwrap().0.insert(at, value);
        self.written.lock().unwrap().push((at, value));
    }
}
