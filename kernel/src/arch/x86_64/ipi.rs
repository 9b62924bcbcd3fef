//! Calls on other CPUs: TLB flushes and the rare rest.
//!
//! Each CPU has one request of its own and an inbox with one bit per asking CPU. The asker fills its request, sets its
//! bit in each target's inbox and interrupts those whose inbox was empty; a target takes all bits at once, runs each request and counts
//! down in it. So one call moves only the lines of the request and of the inboxes.
//!
//! The asker waits with interrupts as they were and serves its own inbox meanwhile, so two CPUs that ask each other
//! both get on. Callers hold no lock that the called function, or an interrupt handler, takes.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use sync::per_cpu;

use super::cpu::percpu::MAX_CPUS;
use super::kvm::Interrupts;
use super::{cpu_id, irq};

/// Runs on the called CPU with interrupts off; the argument is what the asker gave.
pub type Call = fn(usize);

#[repr(align(128))]
struct Request {
    call: AtomicUsize,
    argument: AtomicUsize,
    /// Targets that have not answered.
    left: AtomicU32,
}

#[repr(align(128))]
struct Inbox([AtomicU64; MAX_CPUS / 64]);

per_cpu! {
    static REQUEST: Request = Request { call: AtomicUsize::new(0), argument: AtomicUsize::new(0), left: AtomicU32::new(0) };
    static INBOX: Inbox = Inbox([const { AtomicU64::new(0) }; MAX_CPUS / 64]);
}

/// Runs `call(argument)` on each of `targets` (this CPU, if among them, is left out) and waits until all have done so.
///
/// Not from interrupt handlers: a CPU has one request.
pub fn call_others(targets: impl Iterator<Item = u32>, call: Call, argument: usize) {
    call_others_by(targets, call, argument, irq::CALL);
}

/// As [`call_others`], with the vector that the interrupt is counted under.
pub fn call_others_by(targets: impl Iterator<Item = u32>, call: Call, argument: usize, vector: u8) {
    let own = cpu_id();
    let request = REQUEST.this();
    request.call.store(call as usize, Ordering::Relaxed);
    request.argument.store(argument, Ordering::Relaxed);
    // One too many until all are asked, so that early answers do not end the call.
    request.left.store(1, Ordering::Relaxed);
    let (word, bit) = (own as usize / 64, 1u64 << (own % 64));
    let mut interrupts = Interrupts::new(vector);
    for cpu in targets.filter(|&cpu| cpu != own) {
        request.left.fetch_add(1, Ordering::Relaxed);
        // Release: whoever takes the bit sees the request.
        let before = INBOX.of(cpu).0[word].fetch_or(bit, Ordering::AcqRel);
        if before == 0 {
            interrupts.add(cpu);
        }
    }
    interrupts.send();
    request.left.fetch_sub(1, Ordering::Release);
    // Acquire: what the targets did before they answered is seen after this.
    while request.left.load(Ordering::Acquire) != 0 {
        serve();
        core::hint::spin_loop();
    }
}

/// A CPU that has not taken up the call that this CPU waits for.
pub fn waited_for() -> Option<u32> {
    let own = cpu_id();
    let (word, bit) = (own as usize / 64, 1u64 << (own % 64));
    (0..super::online_cpus()).find(|&cpu| INBOX.of(cpu).0[word].load(Ordering::Relaxed) & bit != 0)
}

/// Runs what other CPUs asked of this one.
pub fn serve() {
    let inbox = &INBOX.this().0;
    if inbox.iter().all(|word| word.load(Ordering::Relaxed) == 0) {
        return;
    }
    let was = super::disable_interrupts();
    for (base, word) in (0u32..).step_by(64).zip(inbox) {
        let mut bits = if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::AcqRel) };
        while bits != 0 {
            let asker = base + bits.trailing_zeros();
            bits &= bits - 1;
            let request = REQUEST.of(asker);
            let call = request.call.load(Ordering::Relaxed);
            let argument = request.argument.load(Ordering::Relaxed);
            // SAFETY: an asker whose bit is set has stored a `Call` and keeps its request until this CPU answers.
            let call: Call = unsafe { core::mem::transmute::<usize, Call>(call) };
            call(argument);
            request.left.fetch_sub(1, Ordering::Release);
        }
    }
    if was {
        super::enable_interrupts();
    }
}
