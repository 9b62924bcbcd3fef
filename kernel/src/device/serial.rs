//! The serial ports COM1 to COM4 (16550 UART data sheet). COM1 also carries the kernel log.
//!
//! Receiving: the interrupt handler empties the port's FIFO into a ring that only it fills, and raises
//! `Pending::Serial`; a thread of that CPU then drains the ring into whoever asked for it (`set_receive`). When the ring is
//! full the port's receive interrupt is turned off until it has been drained, so the sender feels it and no byte is lost.
//! Sending: by the thread that writes, up to a FIFO at a time, giving way while the other side does not take the bytes.
//!
//! All ISA lines go to the boot CPU, so a ring has one producer; `draining` lets one thread consume.
//! Locks: a port's sending lock disables interrupts (the log may be written anywhere) and is held for one FIFO or one line.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use crate::lock_order as level;
use sync::lock::IrqSpinLock;
use sync::lock_class;

use crate::arch;
use crate::arch::port::{inb, outb, outsb};

lock_class! { static SENDING: LockClass = ("serial port", level::SerialPort); }

// Registers.
const DATA: u16 = 0;
const INTERRUPT_ENABLE: u16 = 1;
const INTERRUPT_ID: u16 = 2;
const FIFO_CONTROL: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;
const SCRATCH: u16 = 7;

const RECEIVED: u8 = 1 << 0;
const SENT: u8 = 1 << 5;
/// Bytes that the FIFO takes when it is empty.
const FIFO: usize = 16;
/// Bytes received and not yet drained; the host keeps fewer than 4096 on the way.
const RING: usize = 8192;
/// Looks at a busy port before giving way.
const POLLS: u32 = 256;

/// Takes received bytes: port number, bytes. Called in a thread, interrupts on, no lock held.
pub type Receive = fn(usize, &[u8]);

pub struct Port {
    number: usize,
    base: u16,
    line: u8,
    present: AtomicBool,
    sending: IrqSpinLock<(), level::SerialPort>,
    receive: AtomicPtr<()>,
    /// Free-running positions in `ring`; `head` is the interrupt handler's, `tail` the drainer's.
    head: AtomicUsize,
    tail: AtomicUsize,
    draining: AtomicBool,
    /// The receive interrupt is off because the ring was full.
    stopped: AtomicBool,
    ring: [AtomicU8; RING],
}

impl Port {
    const fn new(number: usize, base: u16, line: u8) -> Port {
        Port {
            number,
            base,
            line,
            present: AtomicBool::new(false),
            sending: IrqSpinLock::new((), &SENDING),
            receive: AtomicPtr::new(core::ptr::null_mut()),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            ring: [const { AtomicU8::new(0) }; RING],
        }
    }

    fn read(&self, register: u16) -> u8 {
        // SAFETY: the port's registers belong to this driver; an absent port reads as ones.
        unsafe { inb(self.base + register) }
    }

    fn set(&self, register: u16, value: u8) {
        // SAFETY: as above.
        unsafe { outb(self.base + register, value) };
    }

    /// Sets the port up, 115200 8N1 with FIFOs and no interrupts; false if there is none.
    fn probe(&self) -> bool {
        self.set(SCRATCH, 0x5a);
        if self.read(SCRATCH) != 0x5a {
            return false;
        }
        self.set(INTERRUPT_ENABLE, 0);
        self.set(LINE_CONTROL, 0x80);
        self.set(DATA, 1);
        self.set(INTERRUPT_ENABLE, 0);
        self.set(LINE_CONTROL, 0x03);
        // FIFOs on and emptied; interrupt at 14 bytes or after a pause.
        self.set(FIFO_CONTROL, 0xc7);
        // DTR, RTS, and OUT2, which lets the interrupt through on PCs.
        self.set(MODEM_CONTROL, 0x0b);
        self.present.store(true, Ordering::Relaxed);
        true
    }

    /// Sends the first bytes if the FIFO is empty; how many.
    fn send_some(&self, bytes: &[u8]) -> usize {
        if self.read(LINE_STATUS) & SENT == 0 {
            return 0;
        }
        let part = bytes.get(..FIFO).unwrap_or(bytes);
        // SAFETY: the data register, with an empty FIFO.
        unsafe { outsb(self.base + DATA, part) };
        part.len()
    }

    /// Sends all of `bytes`, in a thread; waits while the other side does not take them.
    pub fn write(&self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut polls = 0;
        while !rest.is_empty() && self.present.load(Ordering::Relaxed) {
            let sent = {
                let _sending = self.sending.lock();
                self.send_some(rest)
            };
            rest = rest.get(sent..).unwrap_or(&[]);
            polls = if sent == 0 { polls + 1 } else { 0 };
            if polls > POLLS {
                super::give_way();
                polls = 0;
            }
        }
    }

    /// Sends a line whole, from anywhere, by polling; gives up on a port that stays busy.
    pub fn write_line(&self, bytes: &[u8]) {
        let _sending = self.sending.lock();
        self.write_polled(bytes);
    }

    fn write_polled(&self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut patience = 10_000_000u32;
        while !rest.is_empty() && patience > 0 {
            let sent = self.send_some(rest);
            rest = rest.get(sent..).unwrap_or(&[]);
            patience -= 1;
        }
    }

    /// Names who takes what is received. Bytes that came before wait in the ring.
    pub fn set_receive(&self, receive: Receive) {
        self.receive.store(receive as *mut (), Ordering::Release);
        self.drain();
    }

    /// First and last of its I/O ports.
    pub fn io_ports(&self) -> (u16, u16) {
        (self.base, self.base.saturating_add(SCRATCH))
    }

    pub fn is_present(&self) -> bool {
        self.present.load(Ordering::Relaxed)
    }

    /// Empties the FIFO into the ring. Interrupt handler: interrupts off, boot CPU.
    fn interrupt(&self) {
        // The line is edge-triggered: go on until the port has nothing to say. Bounded, for a port that is broken.
        for _ in 0..RING {
            if self.read(INTERRUPT_ID) & 1 != 0 {
                break;
            }
            while self.read(LINE_STATUS) & RECEIVED != 0 {
                let head = self.head.load(Ordering::Relaxed);
                if head.wrapping_sub(self.tail.load(Ordering::Acquire)) >= RING {
                    self.stopped.store(true, Ordering::Release);
                    self.set(INTERRUPT_ENABLE, 0);
                    return;
                }
                let byte = self.read(DATA);
                self.ring[head % RING].store(byte, Ordering::Relaxed);
                self.head.store(head.wrapping_add(1), Ordering::Release);
            }
        }
    }

    /// Hands what is in the ring to the receiver. In a thread, interrupts on.
    fn drain(&self) {
        let receive = self.receive.load(Ordering::Acquire);
        if receive.is_null() {
            return;
        }
        // SAFETY: `set_receive` is the only writer and stores a `Receive`.
        let receive: Receive = unsafe { core::mem::transmute::<*mut (), Receive>(receive) };
        // Whoever drains already looks again after letting go, so nothing is left behind.
        while self.head.load(Ordering::Acquire) != self.tail.load(Ordering::Relaxed) {
            if self.draining.swap(true, Ordering::Acquire) {
                return;
            }
            let mut bytes = [0u8; 256];
            loop {
                let tail = self.tail.load(Ordering::Relaxed);
                let ready = self.head.load(Ordering::Acquire).wrapping_sub(tail).min(bytes.len());
                if ready == 0 {
                    break;
                }
                for (i, byte) in bytes.iter_mut().take(ready).enumerate() {
                    *byte = self.ring[tail.wrapping_add(i) % RING].load(Ordering::Relaxed);
                }
                self.tail.store(tail.wrapping_add(ready), Ordering::Release);
                receive(self.number, bytes.get(..ready).unwrap_or(&[]));
            }
            self.draining.store(false, Ordering::Release);
        }
        if self.stopped.swap(false, Ordering::AcqRel) {
            // What waits in the FIFO raises the interrupt again.
            self.set(INTERRUPT_ENABLE, RECEIVED);
        }
    }
}

static PORTS: [Port; 4] =
    [Port::new(0, 0x3f8, 4), Port::new(1, 0x2f8, 3), Port::new(2, 0x3e8, 5), Port::new(3, 0x2e8, 7)];

/// Serial port `n` (0 is COM1, ttyS0), if the machine has it.
pub fn port(n: usize) -> Option<&'static Port> {
    PORTS.get(n).filter(|p| p.is_present())
}

/// Finds the ports; the log can be written from here on. First thing at boot.
pub fn early_init() {
    for port in &PORTS {
        port.probe();
    }
}

/// Turns the receive interrupts on. Once, when threads can run.
pub fn init() {
    for port in PORTS.iter().filter(|p| p.is_present()) {
        if arch::route_isa_line(port.line) {
            port.set(INTERRUPT_ENABLE, RECEIVED);
        } else {
            warn!("no interrupt for serial port {}: it can only be written", port.number);
        }
    }
}

/// ISA line `line` asks for attention. Interrupts are off. True if a port has it.
pub fn interrupt(line: u8) -> bool {
    let mut found = false;
    for port in PORTS.iter().filter(|p| p.line == line && p.is_present()) {
        port.interrupt();
        found = true;
    }
    found
}

/// Hands on what all ports have received: the handler of `Pending::Serial`.
pub fn drain() {
    PORTS.iter().for_each(Port::drain);
}

/// Writes to COM1 by polling, taking no lock: before per-CPU data is there, and in a panic.
pub fn early_write(bytes: &[u8]) {
    if PORTS[0].is_present() {
        PORTS[0].write_polled(bytes);
    }
}
