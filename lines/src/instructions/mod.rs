//! Instruction mode: how many instructions each CPU executes in a window, the user's and the kernel's apart.
//!
//! Exact: every instruction has a callback of its own, made before it executes, so a block that an exception leaves
//! early counts only what was begun (an instruction that faults counts again when it is begun anew). Under icount QEMU
//! calls back once for each iteration of a repeated string instruction; an instruction begun again on the same CPU with
//! none between is an iteration, counted apart. (So is the look at the count that ends it: n iterations make n + 1 calls.)
//!
//! Invariant CountLocal: a CPU's counts are written by the thread that runs it; others read them when it has closed.
#![forbid(unsafe_code)]

mod expensive;

use crate::code;
use crate::lines::directory::MAX_CPUS;
use expensive::{Kind, NAMES};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// One instruction of the guest, by virtual address. Lives as long as the plugin.
pub struct Site {
    pc: u64,
    /// Never 0: tells sites apart where their addresses are the same.
    id: u64,
    /// What it is, if it costs more than others.
    kind: Option<Kind>,
    executions: AtomicU64,
    iterations: AtomicU64,
}

#[repr(align(128))]
struct Cpu {
    open: AtomicBool,
    /// The site that this CPU executed last, while open.
    last: AtomicU64,
    user: AtomicU64,
    kernel: AtomicU64,
    user_iterations: AtomicU64,
    kernel_iterations: AtomicU64,
}

/// An address and what stands there, since a kernel patches its code and programs have the same addresses: whether it repeats, and its kind.
type Place = (u64, bool, Option<Kind>);

pub struct Counter {
    cpus: [Cpu; MAX_CPUS],
    sites: Mutex<Option<HashMap<Place, &'static Site>>>,
}

/// Adds one on the only thread that writes this count.
fn add(count: &AtomicU64) {
    count.store(count.load(Relaxed) + 1, Relaxed);
}

impl Cpu {
    const fn new() -> Cpu {
        Cpu {
            open: AtomicBool::new(false),
            last: AtomicU64::new(0),
            user: AtomicU64::new(0),
            kernel: AtomicU64::new(0),
            user_iterations: AtomicU64::new(0),
            kernel_iterations: AtomicU64::new(0),
        }
    }
}

impl Counter {
    pub const fn new() -> Counter {
        Counter { cpus: [const { Cpu::new() }; MAX_CPUS], sites: Mutex::new(None) }
    }

    /// The site of an instruction, made when it is first translated.
    pub fn site(&self, pc: u64, bytes: &[u8]) -> &'static Site {
        let (repeats, kind) = (code::repeats(bytes), Kind::of(bytes));
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let sites = sites.get_or_insert_default();
        let id = sites.len() as u64 + 1;
        sites.entry((pc, repeats, kind)).or_insert_with(|| {
            let (executions, iterations) = (AtomicU64::new(0), AtomicU64::new(0));
            Box::leak(Box::new(Site { pc, id, kind, executions, iterations }))
        })
    }

    pub fn open(&self, cpu: usize) {
        if let Some(cpu) = self.cpus.get(cpu) {
            cpu.last.store(0, Relaxed);
            cpu.open.store(true, Relaxed);
        }
    }

    pub fn close(&self, cpu: usize) {
        if let Some(cpu) = self.cpus.get(cpu) {
            cpu.open.store(false, Relaxed);
        }
    }

    /// An instruction that does not repeat is about to execute.
    pub fn executed(&self, cpu: usize, site: &Site) {
        if let Some(cpu) = self.cpus.get(cpu)
            && cpu.open.load(Relaxed)
        {
            cpu.last.store(site.id, Relaxed);
            add(if code::in_kernel(site.pc) { &cpu.kernel } else { &cpu.user });
            add(&site.executions);
        }
    }

    /// A repeated string instruction is about to execute, or its next iteration.
    pub fn repeated(&self, index: usize, site: &Site) {
        let Some(cpu) = self.cpus.get(index) else { return };
        if cpu.last.load(Relaxed) != site.id {
            self.executed(index, site);
        } else if cpu.open.load(Relaxed) {
            add(if code::in_kernel(site.pc) { &cpu.kernel_iterations } else { &cpu.user_iterations });
            add(&site.iterations);
        }
    }

    /// The fields of the window's entry. All counts begin anew.
    pub fn harvest(&self, profile: bool) -> String {
        let mut cpus = String::new();
        let mut sum = [0; 4];
        for (index, cpu) in self.cpus.iter().enumerate() {
            let counts = [&cpu.user, &cpu.kernel, &cpu.user_iterations, &cpu.kernel_iterations];
            let counts = counts.map(|count| count.swap(0, Relaxed));
            if counts == [0; 4] {
                continue;
            }
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += count;
            }
            let comma = if cpus.is_empty() { "" } else { "," };
            let _ = write!(cpus, "{comma}{{\"cpu\":{index},{}}}", fields(counts));
        }
        let mut text = format!("\"cpus\":[{cpus}],{}", fields(sum));
        let executed = self.take_sites();
        let mut amounts = [0; NAMES.len()];
        for (site, executions, iterations) in &executed {
            if let Some(kind) = site.kind {
                amounts[kind.place()] += kind.amount(*executions, *iterations);
            }
        }
        let expensive: Vec<String> =
            NAMES.iter().zip(amounts).map(|(name, amount)| format!("\"{name}\":{amount}")).collect();
        let _ = write!(text, ",\"expensive\":{{{}}}", expensive.join(","));
        if profile {
            text.push_str(",\"profile\":[");
            for (index, (Site { pc, .. }, executions, iterations)) in executed.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let _ = write!(text, "{comma}[{pc},{executions},{iterations}]");
            }
            text.push(']');
        }
        text
    }

    /// The kernel's sites that were executed, by address, with their counts, which begin anew.
    fn take_sites(&self) -> Vec<(&'static Site, u64, u64)> {
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let mut executed: Vec<_> = sites
            .iter()
            .flat_map(HashMap::values)
            .map(|&site| (site, site.executions.swap(0, Relaxed), site.iterations.swap(0, Relaxed)))
            .filter(|&(site, executions, iterations)| code::in_kernel(site.pc) && executions + iterations > 0)
            .collect();
        executed.sort_unstable_by_key(|&(site, ..)| (site.pc, site.id));
        executed
    }
}

fn fields([user, kernel, user_iterations, kernel_iterations]: [u64; 4]) -> String {
    format!(
        "\"user\":{user},\"kernel\":{kernel},\"user_iterations\":{user_iterations},\"kernel_iterations\":{kernel_iterations}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u64 = 0xffff_ffff_8100_0000;
    const NOP: &[u8] = &[0x90];
    const REP_STOSQ: &[u8] = &[0xf3, 0x48, 0xab];

    #[test]
    fn nothing_counts_outside_a_window() {
        let counter = Counter::new();
        let site = counter.site(KERNEL, NOP);
        counter.executed(0, site);
        counter.repeated(0, counter.site(KERNEL + 8, REP_STOSQ));
        counter.open(0);
        counter.executed(0, site);
        counter.executed(1, site);
        counter.close(0);
        counter.executed(0, site);
        let text = counter.harvest(false);
        assert!(text.contains("\"user\":0,\"kernel\":1,"), "{text}");
        assert!(counter.harvest(false).contains("\"cpus\":[],\"user\":0,\"kernel\":0"));
    }

    #[test]
    fn a_repeated_instruction_counts_once_and_its_iterations_apart() {
        let counter = Counter::new();
        let (stos, other) = (counter.site(KERNEL, REP_STOSQ), counter.site(0x1000, NOP));
        counter.open(3);
        for _ in 0..4097 {
            counter.repeated(3, stos);
        }
        counter.executed(3, other);
        for _ in 0..3 {
            counter.repeated(3, stos);
        }
        counter.close(3);
        let text = counter.harvest(true);
        for part in [
            "\"cpus\":[{\"cpu\":3,\"user\":1,\"kernel\":2,\"user_iterations\":0,\"kernel_iterations\":4098}],",
            "],\"user\":1,\"kernel\":2,\"user_iterations\":0,\"kernel_iterations\":4098,\"expensive\":{",
            "\"filled_bytes\":32784,\"copied_bytes\":0},",
            &format!(",\"profile\":[[{KERNEL},2,4098]]"),
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_kernels_expensive_instructions_are_counted_by_kind() {
        const XCHG: &[u8] = &[0x48, 0x87, 0x07];
        let counter = Counter::new();
        let sites =
            [(KERNEL, XCHG), (0x1000, XCHG), (KERNEL, &[0x0f, 0x30]), (KERNEL + 9, &[0xf0, 0xff, 0x03])];
        let sites = sites.map(|(pc, bytes)| counter.site(pc, bytes));
        counter.open(0);
        sites.iter().for_each(|site| counter.executed(0, site));
        counter.close(0);
        let text = counter.harvest(false);
        assert!(text.contains("\"expensive\":{\"locked\":2,\"fence\":0,"), "{text}");
        assert!(text.contains("\"wrmsr\":1,"), "{text}");
        assert!(counter.harvest(false).contains("\"locked\":0,"));
    }

    #[test]
    fn a_string_instruction_of_another_window_is_no_iteration() {
        let counter = Counter::new();
        let stos = counter.site(0x2000, REP_STOSQ);
        for _ in 0..2 {
            counter.open(0);
            counter.repeated(0, stos);
            counter.close(0);
        }
        assert!(counter.harvest(false).contains("\"user\":2,\"kernel\":0,\"user_iterations\":0"));
    }

    #[test]
    fn a_cpu_beyond_the_last_is_left_out() {
        let counter = Counter::new();
        counter.open(MAX_CPUS);
        counter.executed(MAX_CPUS, counter.site(0, NOP));
        counter.repeated(MAX_CPUS, counter.site(0, REP_STOSQ));
        counter.close(MAX_CPUS);
        assert!(counter.harvest(false).starts_with("\"cpus\":[],"));
    }
}
