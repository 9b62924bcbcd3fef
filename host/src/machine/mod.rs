//! The virtual machine as QEMU's arguments. One description for both kernels, so that a comparison compares kernels.
#![forbid(unsafe_code)]

pub mod accel;
pub mod kernel;
pub mod qemu;
pub mod share;
mod virtio;

pub use share::Share;
pub use virtio::Disk;

use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use crate::exit::usage;
use crate::size::show_bytes;
use accel::Accel;

/// QEMU's q35 without an interrupt-remapping unit.
const MOST_CPUS: u32 = 255;
const MIB: u64 = 1 << 20;

/// QEMU's kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    /// A PC of 2009, with PCI
    Q35,
    /// As little as a kernel can do with: no PCI, one node
    Microvm,
}

impl Model {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Model::Q35 => "q35",
            Model::Microvm => "microvm",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Model::Q35 => "q35,usb=off,sata=off,smbus=off,vmport=off,i8042=off",
            // Our serial ports instead of its own; the wall clock's chip stays.
            // Two interrupt controllers, so that each virtio device has a line of its own.
            Model::Microvm => {
                "microvm,acpi=on,rtc=on,isa-serial=off,pcie=off,ioapic2=on,auto-kernel-cmdline=off"
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct Machine {
    pub model: Model,
    pub cpus: u32,
    /// NUMA nodes, a socket each; CPUs and memory are split evenly.
    pub sockets: u32,
    /// Threads of each core.
    pub threads: u32,
    /// Bytes.
    pub memory: u64,
    pub accel: Accel,
    pub cpu_model: String,
    /// The same run each time, instruction for instruction: one thread, time counted in instructions, and nothing in the machine that does its work when
    /// this machine comes to it.
    pub deterministic: bool,
    pub disks: Vec<Disk>,
    /// What the guest frees goes back to this machine. Not where each run must be the same, nor where lines or rates are measured: it works by itself.
    pub balloon: bool,
    /// The folder that is the guest's live root.
    pub root: Option<PathBuf>,
    pub shares: Vec<Share>,
    /// A port of this machine, on which QEMU waits for gdb before the first instruction.
    pub gdb: Option<u16>,
    /// The user's own words for QEMU, at the end.
    pub extra: Vec<OsString>,
}

/// What a start of the machine adds: files, and QEMU's ends of the three serial ports.
pub struct Boot<'a> {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
    pub command_line: String,
    pub console: Ends<'a>,
    pub terminal: Ends<'a>,
    pub control: Ends<'a>,
}

/// QEMU's ends of a port's two pipes.
#[derive(Clone, Copy)]
pub struct Ends<'a> {
    pub input: BorrowedFd<'a>,
    pub output: BorrowedFd<'a>,
}

impl Machine {
    /// Refuses what QEMU would refuse later with worse words.
    pub fn check(&self) -> Result<()> {
        if self.cpus == 0 || self.cpus > MOST_CPUS {
            return Err(usage(format!("--cpus {}: a machine has 1 to {MOST_CPUS} CPUs", self.cpus)));
        }
        if self.sockets == 0 || !self.cpus.is_multiple_of(self.sockets) {
            return Err(usage(format!(
                "--cpus {} cannot be split evenly over --sockets {}",
                self.cpus, self.sockets
            )));
        }
        if self.threads == 0 || !(self.cpus / self.sockets).is_multiple_of(self.threads) {
            return Err(usage(format!(
                "--cpus {} with --sockets {} cannot be split evenly over cores of --threads {}",
                self.cpus, self.sockets, self.threads
            )));
        }
        if self.model == Model::Microvm && self.sockets > 1 {
            return Err(usage("--machine microvm has one socket"));
        }
        if self.memory / u64::from(self.sockets) < 64 * MIB {
            return Err(usage(format!(
                "--memory {}: a machine needs at least 64 MiB for each socket",
                show_bytes(self.memory)
            )));
        }
        self.check_devices()?;
        if self.deterministic && self.accel == Accel::Kvm {
            return Err(usage("--deterministic counts instructions, which needs emulation: --accel tcg"));
        }
        Ok(())
    }

    /// All arguments of qemu-system-x86_64.
    pub fn arguments(&self, boot: &Boot<'_>) -> Result<Vec<OsString>> {
        self.check()?;
        let mut args: Vec<OsString> = Vec::new();
        let mut push = |words: &[&str]| args.extend(words.iter().map(OsString::from));
        push(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-name", "darter"]);
        push(&["-trace", &format!("enable={}", qemu::SHUTDOWN_REQUEST)]);
        push(&["-machine", self.model.words()]);
        match self.accel {
            Accel::Kvm => push(&["-accel", "kvm"]),
            Accel::Tcg if self.deterministic => push(&["-accel", "tcg,thread=single"]),
            Accel::Tcg => push(&["-accel", "tcg,thread=multi"]),
        }
        if self.deterministic {
            push(&["-icount", "shift=1,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]);
            push(&["-cpu", &format!("{},-rdrand,-rdseed", self.cpu_model)]);
        } else {
            push(&["-cpu", &self.cpu_model]);
        }
        let memory = self.memory / MIB;
        push(&["-m", &format!("{memory}M")]);
        push(&[
            "-smp",
            &format!(
                "{},sockets={},cores={},threads={}",
                self.cpus,
                self.sockets,
                self.cpus / self.sockets / self.threads,
                self.threads
            ),
        ]);
        if self.sockets > 1 {
            for words in self.nodes(memory) {
                push(&[&words[0], &words[1]]);
            }
        }
        for (id, ends) in [("console", boot.console), ("terminal", boot.terminal), ("control", boot.control)]
        {
            let (input, output) = (ends.input.as_raw_fd(), ends.output.as_raw_fd());
            push(&["-chardev", &format!("file,id={id},path=/dev/fd/{output},input-path=/dev/fd/{input}")]);
        }
        push(&["-chardev", "null,id=unused"]);
        // A line of its own for each port: two ports on one edge-triggered line lose interrupts.
        for (id, base, line) in
            [("console", 0x3f8, 4), ("terminal", 0x2f8, 3), ("control", 0x3e8, 5), ("unused", 0x2e8, 7)]
        {
            push(&["-device", &format!("isa-serial,chardev={id},iobase={base:#x},irq={line}")]);
        }
        push(&["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
        for word in self.virtio().iter().flat_map(|device| &device.arguments) {
            push(&[word]);
        }
        if let Some(port) = self.gdb {
            push(&["-S", "-gdb", &format!("tcp:127.0.0.1:{port}")]);
        }
        for (option, file) in [("-kernel", &boot.kernel), ("-initrd", &boot.initramfs)] {
            if file.as_os_str().as_encoded_bytes().contains(&b',') {
                bail!("QEMU cannot take a file name with a comma: {}", file.display());
            }
            args.push(option.into());
            args.push(file.into());
        }
        args.push("-append".into());
        let mut line = self.with_devices(&boot.command_line);
        if !self.deterministic {
            line = format!("{} {line}", clock(SystemTime::now()));
        }
        args.push(line.into());
        args.extend(self.extra.iter().cloned());
        Ok(args)
    }

    /// A memory backend and a node for each socket; what does not divide evenly goes to the first.
    fn nodes(&self, memory: u64) -> Vec<[String; 2]> {
        let sockets = u64::from(self.sockets);
        // Whole large pages for each node.
        let each = memory / sockets / 2 * 2;
        let cores = self.cpus / self.sockets;
        let mut words = Vec::new();
        for node in 0..self.sockets {
            let size = if node == 0 { memory - each * (sockets - 1) } else { each };
            let first = node * cores;
            words.push(["-object".into(), format!("memory-backend-ram,id=node{node},size={size}M")]);
            words.push([
                "-numa".into(),
                format!("node,nodeid={node},memdev=node{node},cpus={first}-{}", first + cores - 1),
            ]);
        }
        for from in 0..self.sockets {
            for to in (from + 1)..self.sockets {
                words.push(["-numa".into(), format!("dist,src={from},dst={to},val=20")]);
            }
        }
        words
    }
}

impl Machine {
    /// Which node each piece of physical memory belongs to: (first address, address after it, node).
    pub fn homes(&self) -> Vec<(u64, u64, u32)> {
        let sockets = u64::from(self.sockets);
        let memory = self.memory / MIB * MIB;
        let each = memory / MIB / sockets / 2 * 2 * MIB;
        // q35 puts what does not fit below the devices above 4 GiB, and leaves a larger hole where there is much.
        let low = if memory >= 0xb000_0000 { 0x8000_0000 } else { 0xb000_0000 };
        let mut homes = Vec::new();
        let mut from = 0;
        for node in 0..self.sockets {
            let to = if node == 0 { memory - each * (sockets - 1) } else { from + each };
            if from < low {
                homes.push((from, to.min(low), node));
            }
            if to > low {
                homes.push((from.max(low) - low + (4 << 30), to - low + (4 << 30), node));
            }
            from = to;
        }
        homes
    }
}

/// The word that tells the kernel when its machine was started: QEMU's CMOS clock lacks the part of a second. Linux takes it for an option of a module that it does not have.
fn clock(now: SystemTime) -> String {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("darter.clock={}.{:09}", now.as_secs(), now.subsec_nanos())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn the_clock_is_told_to_the_nanosecond() {
        let now = UNIX_EPOCH + std::time::Duration::new(1_764_385_000, 40);
        assert_eq!(clock(now), "darter.clock=1764385000.000000040");
    }

    #[test]
    fn nodes_lie_one_after_another_around_the_hole_below_4_gib() {
        let homes = machine(4, 2, 1 << 30).homes();
        assert_eq!(homes, [(0, 512 * MIB, 0), (512 * MIB, 1 << 30, 1)]);
        let homes = machine(4, 2, 6 << 30).homes();
        assert_eq!(homes, [(0, 2 << 30, 0), (4 << 30, 5 << 30, 0), (5 << 30, 8 << 30, 1)]);
    }

    pub(super) fn machine(cpus: u32, sockets: u32, memory: u64) -> Machine {
        Machine {
            model: Model::Q35,
            cpus,
            sockets,
            threads: 1,
            memory,
            accel: Accel::Tcg,
            cpu_model: "max".into(),
            deterministic: false,
            disks: Vec::new(),
            balloon: false,
            root: None,
            shares: Vec::new(),
            gdb: None,
            extra: Vec::new(),
        }
    }

    #[test]
    fn memory_and_cpus_are_split_evenly_and_nothing_is_lost() {
        let words = machine(6, 3, 1000 * MIB).nodes(1000);
        assert_eq!(words[0][1], "memory-backend-ram,id=node0,size=336M");
        assert_eq!(words[2][1], "memory-backend-ram,id=node1,size=332M");
        assert_eq!(words[5][1], "node,nodeid=2,memdev=node2,cpus=4-5");
        assert_eq!(words.iter().filter(|w| w[1].starts_with("dist")).count(), 3);
    }

    #[test]
    fn an_impossible_machine_is_a_usage_error() {
        assert!(machine(48, 4, 4096 * MIB).check().is_ok());
        for wrong in [
            machine(0, 1, 1 << 30),
            machine(256, 1, 1 << 30),
            machine(6, 4, 1 << 30),
            machine(4, 4, 128 * MIB),
            Machine { model: Model::Microvm, ..machine(4, 2, 1 << 30) },
            Machine { accel: Accel::Kvm, deterministic: true, ..machine(1, 1, 1 << 30) },
        ] {
            assert_eq!(crate::exit::status_of(&wrong.check().unwrap_err()), crate::exit::USAGE);
        }
    }
}
