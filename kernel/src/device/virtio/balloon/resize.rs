//! Inflation and deflation (5.5.6.1, 5.5.6.2): up to 256 pages at a time, whose numbers the device is told.
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use ::virtio::Width;
use vm::frame::{self, OwnedFrame};

use super::{Balloon, DEFLATE, Failure, INFLATE, Memory, event};
use crate::arch::time;
use crate::sched;

/// Pages of a request.
const BATCH: u64 = 256;
/// Bytes of a page's number.
const NUMBER: usize = 4;
/// Fields of the configuration (5.5.4): pages wanted, pages in the balloon.
const WANTED: (usize, Width) = (0, Width::Word);
const ACTUAL: usize = 4;
/// Pages that a request needs at most, with slabs for what it is made of.
const RESERVE: usize = 16;
/// How long until it is tried again where there is no memory for it.
const PAUSE_NS: u64 = 1_000_000_000;
/// Pages that can be read again and are given up for it at a time.
const SHED: u64 = 4096;

pub(super) struct Size {
    pages: frame::Balloon,
    wanted: u64,
    /// When to go on.
    next: Option<u64>,
    /// Pages with which the device is asked where there are no others ([`Self::relieve`]).
    reserve: frame::Balloon,
}

impl Size {
    pub(super) fn new(takes_away: bool) -> Self {
        Self {
            pages: frame::Balloon::new(takes_away),
            wanted: 0,
            next: None,
            reserve: frame::Balloon::new(false),
        }
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Goes towards what the host wants, until something else is to be done.
    pub(super) fn turn(&mut self, balloon: &'static Balloon, has_changed: bool) {
        if has_changed && let Ok([wanted]) = balloon.device.transport.configuration([WANTED]) {
            self.wanted = u64::from(wanted);
        }
        let now = time::now();
        if !has_changed && self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = loop {
            let (have, wanted) = (self.len(), self.wanted);
            let went_on = match have.cmp(&wanted) {
                core::cmp::Ordering::Equal => break None,
                core::cmp::Ordering::Less => self.inflate(balloon, BATCH.min(wanted.saturating_sub(have))),
                core::cmp::Ordering::Greater => self.deflate(balloon, BATCH.min(have.saturating_sub(wanted))),
            };
            self.show(balloon);
            if !went_on {
                break Some(time::now().saturating_add(PAUSE_NS));
            }
            if sched::give_way() || balloon.is_wanted() {
                break Some(time::now());
            }
        };
    }

    /// Tells host and others how much there is.
    fn show(&self, balloon: &'static Balloon) {
        balloon.pages.store(self.len(), Relaxed);
        let actual = u32::try_from(self.len()).unwrap_or(u32::MAX);
        balloon.device.transport.set_configuration(ACTUAL, actual);
    }

    /// There is no memory for a program: gives a batch back, if that is allowed.
    pub(super) fn relieve(&mut self, balloon: &'static Balloon) {
        if balloon.has(super::feature::DEFLATE_ON_OOM) && !self.pages.is_empty() {
            // To this CPU's magazine, where nobody else comes before the request is made.
            while let Some(page) = self.reserve.pop() {
                drop(page);
            }
            self.deflate(balloon, BATCH.min(self.len()));
            self.fill_reserve();
            self.show(balloon);
            // The host still wants it: later, if there is memory then.
            self.next = Some(time::now().saturating_add(PAUSE_NS));
        }
    }

    fn fill_reserve(&mut self) {
        while self.reserve.len() < RESERVE
            && let Some(page) = frame::alloc_dirty()
        {
            self.reserve.push(page);
        }
    }

    /// Gives the host up to `count` pages; false: there is no memory for it, or the device does not work.
    fn inflate(&mut self, balloon: &'static Balloon, count: u64) -> bool {
        if !frame::has_beyond_reserve(count) {
            vm::shed(SHED);
            sync::rcu::synchronize();
            if !frame::has_beyond_reserve(count) {
                return false;
            }
        }
        self.fill_reserve();
        let Ok(mut request) = Memory::try_new(1) else { return false };
        let mut numbers = request.page(0).chunks_exact_mut(NUMBER);
        let mut taken = 0_usize;
        while (taken as u64) < count
            && let Some(page) = frame::alloc_dirty()
            && let Some(number) = numbers.next()
        {
            put_number(number, &page);
            self.pages.push(page);
            taken = taken.saturating_add(1);
        }
        let asked = match request.add(0, 0..taken.saturating_mul(NUMBER), false) {
            _ if taken == 0 => return false,
            Ok(()) => balloon.ask(INFLATE, request),
            Err(_) => Err(Failure::NoMemory),
        };
        match asked {
            Ok(_) => true,
            // It does not know of them.
            Err(Failure::NoMemory) => {
                (0..taken).for_each(|_| drop(self.pages.pop()));
                false
            }
            // They go with the others when that is seen.
            Err(_) => false,
        }
    }

    /// Takes up to `count` pages back; false: the device does not work, or there is no memory to ask it.
    fn deflate(&mut self, balloon: &'static Balloon, count: u64) -> bool {
        let Ok(mut request) = Memory::try_new(1) else { return false };
        let mut batch = frame::Balloon::new(false);
        let mut taken = 0_usize;
        for number in request.page(0).chunks_exact_mut(NUMBER).take(usize::try_from(count).unwrap_or(0)) {
            let Some(page) = self.pages.pop() else { break };
            put_number(number, &page);
            batch.push(page);
            taken = taken.saturating_add(1);
        }
        let asked = match request.add(0, 0..taken.saturating_mul(NUMBER), false) {
            _ if taken == 0 => return false,
            Ok(()) => balloon.ask(DEFLATE, request),
            Err(_) => Err(Failure::NoMemory),
        };
        // Only now: the host may use a page until it is told, and has said so.
        let is_told = asked.is_ok();
        while let Some(page) = batch.pop() {
            if is_told { drop(page) } else { self.pages.push(page) }
        }
        is_told
    }

    /// The device is used no more. What was reset has let go of all.
    pub(super) fn end(&mut self, balloon: &'static Balloon) {
        self.wanted = 0;
        self.next = None;
        while !balloon.device.is_lost()
            && let Some(page) = self.pages.pop()
        {
            drop(page);
            let _ = sched::give_way();
        }
        while let Some(page) = self.reserve.pop() {
            drop(page);
        }
        balloon.pages.store(self.len(), Relaxed);
    }
}

fn put_number(place: &mut [u8], page: &OwnedFrame) {
    let number = (page.addr().0 / vm::PAGE_SIZE as u64) as u32;
    place.copy_from_slice(&number.to_le_bytes());
}

impl Balloon {
    /// Does the host want another size, or somebody memory?
    pub(super) fn is_wanted(&self) -> bool {
        self.events.load(Acquire) & (event::CHANGED | event::SHORT | event::FAILED) != 0
    }
}
