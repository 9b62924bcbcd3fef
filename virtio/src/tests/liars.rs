//! Devices whose registers do not do what they should.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::device::Told;
use crate::pci::{Layout, MsiX};
use crate::registers::Width;
use crate::transport::{Error, Transport, VERSION_1};

// Offsets of memory-mapped registers.
const FEATURE: usize = 0x10;
const QUEUE_MOST: usize = 0x34;
const QUEUE_READY: usize = 0x44;
const STATUS: usize = 0x70;
const GENERATION: usize = 0xfc;

/// A modern device over memory-mapped registers that offers everything; `lie` answers first.
fn mmio(lie: impl Fn(usize) -> Option<u32> + Send + 'static) -> (Transport<Arc<Told>>, Arc<Told>) {
    let told = Told::new(0x200, move |at, _| {
        lie(at).or(match at {
            0 => Some(0x7472_6976),
            4 => Some(2),
            8 => Some(4),
            FEATURE => Some(u32::MAX),
            QUEUE_MOST => Some(1000),
            _ => None,
        })
    });
    let (transport, kind, _) = Transport::mmio(told.clone()).unwrap().unwrap();
    assert_eq!(kind, 4);
    (transport, told)
}

#[test]
fn an_honest_device_comes_up() {
    let (mut transport, told) = mmio(|_| None);
    assert_eq!(transport.begin(0b101), Ok(VERSION_1 | 0b101));
    assert_eq!(transport.queue_size(0, 256), Ok(256));
    assert_eq!(transport.queue_size(0, 100), Ok(64));
    transport.set_queue(0, 64, [0x1_0000_1000, 0x2000, 0x3000], 0).unwrap();
    // No second time.
    assert_eq!(transport.set_queue(0, 64, [0; 3], 0), Err(Error::Queue));
    transport.go();
    transport.notify(0);
    let written = told.written.lock().unwrap();
    for register in
        [(0x80, 0x1000), (0x84, 1), (0x90, 0x2000), (0x38, 64), (QUEUE_READY, 1), (0x50, 0), (STATUS, 15)]
    {
        assert!(written.contains(&register), "{register:x?} in {written:x?}");
    }
}

#[test]
fn what_is_no_modern_device_is_not_used() {
    let at = |magic: u32, version: u32, kind: u32| {
        let told = Told::new(0x200, move |at, _| {
            [(0, magic), (4, version), (8, kind)].into_iter().find(|x| x.0 == at).map(|x| x.1)
        });
        Transport::mmio(told).map(|found| found.is_some())
    };
    assert_eq!(at(0x7472_6976, 2, 2), Ok(true));
    assert_eq!(at(0x7472_6976, 2, 0), Ok(false));
    assert_eq!(at(0x7472_6976, 1, 2), Err(Error::NotModern));
    assert_eq!(at(u32::MAX, u32::MAX, u32::MAX), Err(Error::NotModern));
    assert_eq!(mmio(|at| (at == FEATURE).then_some(0)).0.begin(0), Err(Error::NotModern));
}

#[test]
fn a_device_that_does_not_reset_or_agree_is_not_used() {
    assert_eq!(mmio(|at| (at == STATUS).then_some(0x40)).0.begin(0), Err(Error::Reset));
    assert_eq!(mmio(|at| (at == STATUS).then_some(u32::MAX)).0.begin(0), Err(Error::Reset));
    let (transport, told) = mmio(|at| (at == STATUS).then_some(0));
    assert_eq!(transport.begin(0), Err(Error::Features));
    assert_eq!(told.written.lock().unwrap().last(), Some(&(STATUS, 128)));
}

#[test]
fn a_queue_that_is_not_there_is_an_error() {
    assert_eq!(mmio(|at| (at == QUEUE_MOST).then_some(0)).0.queue_size(0, 256), Err(Error::Queue));
    assert_eq!(mmio(|at| (at == QUEUE_READY).then_some(1)).0.queue_size(0, 256), Err(Error::Queue));
    assert_eq!(mmio(|at| (at == QUEUE_MOST).then_some(u32::MAX)).0.queue_size(0, 256), Ok(256));
}

#[test]
fn configuration_is_of_one_moment_or_an_error() {
    let fields = [(0, Width::Word), (4, Width::Word), (8, Width::Half)];
    // It changes once, then stands still.
    let reads = AtomicU32::new(0);
    let (transport, _) = mmio(move |at| match at {
        GENERATION => Some(reads.fetch_add(1, Ordering::Relaxed).min(3)),
        0x100..0x200 => Some(at as u32),
        _ => None,
    });
    assert_eq!(transport.configuration(fields), Ok([0x100, 0x104, 0x108]));
    // It never does.
    let reads = AtomicU32::new(0);
    let (transport, _) = mmio(move |at| (at == GENERATION).then(|| reads.fetch_add(1, Ordering::Relaxed)));
    assert_eq!(transport.configuration(fields), Err(Error::Configuration));
    // It does not reach so far.
    assert_eq!(mmio(|_| None).0.configuration([(0xfd, Width::Word)]), Err(Error::Configuration));
    assert_eq!(mmio(|_| None).0.configuration([(usize::MAX, Width::Byte)]), Err(Error::Configuration));
}

fn pci(notify: usize, lie: impl Fn(usize) -> Option<u32> + Send + 'static) -> Transport<Arc<Told>> {
    let window = crate::pci::Window { address: 0x1000, len: 0x1000 };
    let space = Told::new(56, move |at, _| {
        lie(at).or(match at {
            4 => Some(u32::MAX),
            18 => Some(2),
            24 => Some(128),
            30 => Some(3),
            _ => None,
        })
    });
    let layout = layout_of(window);
    Transport::pci(&layout, space, Told::new(notify, |_, _| None), None)
}

fn layout_of(window: crate::pci::Window) -> Layout {
    Layout {
        common: window,
        notify: window,
        notify_multiplier: 4,
        isr: window,
        device: None,
        msi_x: MsiX::for_test(window, 3),
    }
}

#[test]
fn a_pci_queue_is_notified_inside_its_window_or_not_set_up() {
    let mut transport = pci(14, |_| None);
    transport.begin(0).unwrap();
    assert_eq!(transport.queue_size(1, 256), Ok(128));
    assert_eq!(transport.queue_size(2, 256), Err(Error::Queue));
    assert_eq!(transport.set_queue(0, 128, [0; 3], 0), Ok(()));
    assert_eq!(transport.configuration([(0, Width::Byte)]), Err(Error::Configuration));
    assert_eq!(pci(13, |_| None).set_queue(0, 128, [0; 3], 0), Err(Error::Queue));
    assert_eq!(pci(14, |at| (at == 30).then_some(0xffff)).set_queue(0, 128, [0; 3], 0), Err(Error::Queue));
    // A vector that it does not take.
    assert_eq!(pci(14, |at| (at == 26).then_some(0xffff)).set_queue(0, 128, [0; 3], 0), Err(Error::Vector));
}

#[test]
fn a_vector_has_its_entry_in_the_table_or_none() {
    let window = crate::pci::Window { address: 0x1000, len: 48 };
    let msi_x = MsiX::for_test(window, 3);
    let table = Told::new(48, |_, _| None);
    let message = crate::pci::Message { address: 0xfee0_1000, data: 0x40 };
    assert!(msi_x.set(&table, 2, message));
    assert!(!msi_x.set(&table, 3, message));
    assert_eq!(*table.written.lock().unwrap(), [(44, 1), (32, 0xfee0_1000), (36, 0), (40, 0x40), (44, 0)]);
}
