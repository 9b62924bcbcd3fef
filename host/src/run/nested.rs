//! `--accel nested`: the machine runs under KVM, in a larger machine that is emulated whole.
//!
//! QEMU emulates AMD's virtualization, nested paging included. So the outer machine boots Linux with its modules for KVM, and
//! in it runs this same program, with QEMU and what it needs, which starts the inner machine with `--accel kvm`. The inner
//! program's streams and status go through both. Nothing here is fast, but what KVM does differs from emulation: its clock,
//! its interrupts, its CPUID, and that a CPU leaves the guest.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cli::MachineOptions;
use crate::exit::usage;
use crate::machine::Model;
use crate::machine::accel::Wanted;
use crate::machine::kernel::Kernel;
use crate::machine::qemu::QEMU;
use crate::paths::{Tree, program};
use crate::root::{self, Addition, Root};

/// The tree in the outer machine.
const INSIDE: &str = "/darter";
/// This program there.
pub const DARTER: &str = "/darter/bin/darter";
/// In the order in which they are loaded.
const MODULES: [&str; 4] = ["irqbypass", "ccp", "kvm", "kvm-amd"];
/// What QEMU loads for a machine without disk and network.
const ROMS: [&str; 7] = [
    "bios-256k.bin",
    "bios-microvm.bin",
    "kvmvapic.bin",
    "linuxboot_dma.bin",
    "multiboot_dma.bin",
    "pvh.bin",
    "qboot.rom",
];
const ROM_FOLDERS: [&str; 4] =
    ["/usr/share/qemu", "/usr/share/seabios", "/usr/local/share/qemu", "/usr/lib/ipxe/qemu"];
/// The outer Linux with QEMU and this program, beside the inner machine's memory and files.
const OUTER_MEMORY: u64 = 768 << 20;
/// A CPU of the outer machine for each of the inner one and one for what else runs there, up to so many. Six on two CPUs were reset within minutes, and once the
/// outer machine was, which runs Linux. By KVM's trace the guest ended
/// as an interrupt was injected, before its next instruction; why is not known.
const MOST_CPUS: u32 = 16;
/// Seconds for the outer machine, beside what its inner machine may take.
const OUTER_SECONDS: f64 = 240.0;
const LOAD: &str = "for module in /modules/*.ko; do insmod $module || exit 125; done";
/// KVM notes why its machine's CPUs left it.
const TRACE: &str =
    "mount -t tracefs tracefs /sys/kernel/tracing && echo 64 > /sys/kernel/tracing/buffer_size_kb || exit 125
    echo 1 > /sys/kernel/tracing/events/kvm/kvm_exit/enable || exit 125";
/// A machine that is reset says nothing itself: where its CPUs were.
const RUN: &str = "\"$@\" || {
    status=$?
    [ $status = 125 ] && { echo \"KVM's last exits:\"; tail -n 24 /sys/kernel/tracing/trace; } >&2
    exit $status
    }";

/// What the outer machine does around the run of the inner one.
#[derive(Default)]
pub struct Around {
    /// Shell commands before it, when KVM is there.
    pub before: String,
    /// Those after it, if its program ended well.
    pub after: String,
}

/// The outer machine, and the command in it that runs the inner one.
pub fn outer(
    paths: &Tree,
    inner: &MachineOptions,
    json: bool,
    command: &[String],
    around: &Around,
) -> Result<(MachineOptions, Vec<String>)> {
    if inner.deterministic {
        return Err(usage("--deterministic counts instructions, which needs emulation: --accel tcg"));
    }
    if !inner.disk.is_empty() {
        return Err(usage("--disk: --accel nested has no disks"));
    }
    if !inner.share.is_empty() || !inner.rw.is_empty() {
        return Err(usage("--share, --rw: --accel nested shares no folders"));
    }
    if inner.gdb.is_some() {
        return Err(usage(
            "--gdb: --accel nested has its machine inside another, where gdb does not reach it",
        ));
    }
    if inner.user.is_some() {
        return Err(usage("--user: --accel nested runs programs as root"));
    }
    if inner.root.live().is_some() {
        return Err(usage(
            "--root host, --root DIR: --accel nested has no live root; give FILE.tar, or busybox and --add",
        ));
    }
    let files = match &inner.initramfs {
        Some(made) => made.clone(),
        None => root::prepare(paths, &inner.root, &inner.add, &[], inner.memory)?,
    };
    let about = std::fs::metadata(&files).with_context(|| format!("cannot read {}", files.display()))?;
    let mut add = tools()?;
    add.extend(modules(paths)?);
    add.push(Addition { source: files, destination: inside("initramfs") });
    let image = inner.kernel.image(paths)?;
    let kernel = match &inner.kernel {
        Kernel::File(_) => Kernel::File(inside("kernel")),
        known => known.clone(),
    };
    add.push(Addition { source: image, destination: kernel.path(&Tree::at(INSIDE)) });
    let outer = MachineOptions {
        kernel: Kernel::Linux,
        machine: Model::Q35,
        cpus: inner.cpus.saturating_add(1).clamp(2, MOST_CPUS),
        sockets: 1,
        threads: 1,
        // The archive stands there as itself, with the job behind it, and in the inner machine's memory.
        memory: (inner.memory + OUTER_MEMORY + about.len() * 4) >> 20 << 20,
        root: Root::Busybox,
        add,
        accel: Wanted::Tcg,
        cpu_model: "max".into(),
        deterministic: false,
        no_balloon: true,
        disk: Vec::new(),
        share: Vec::new(),
        rw: Vec::new(),
        gdb: None,
        user: None,
        append: Vec::new(),
        qemu_arg: Vec::new(),
        env: Vec::new(),
        timeout: inner.timeout.map(|seconds| seconds + OUTER_SECONDS),
        boot_timeout: OUTER_SECONDS,
        verbose: false,
        initramfs: None,
    };
    let Around { before, after } = around;
    let script = format!("{LOAD}\n{TRACE}\nexport DARTER_ROOT={INSIDE}\n{before}\n{RUN}\n{after}");
    let mut words: Vec<String> = vec!["sh".into(), "-c".into(), script, "sh".into()];
    words.extend([DARTER.into(), "run".into()]);
    words.extend(run_words(inner, &kernel.name(), json));
    words.push("--".into());
    words.extend(command.iter().cloned());
    Ok((outer, words))
}

/// The inner machine as options of `darter run`.
fn run_words(inner: &MachineOptions, kernel: &str, json: bool) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut option = |name: &str, value: String| words.push(format!("--{name}={value}"));
    option("accel", "kvm".into());
    option("kernel", kernel.into());
    option("initramfs", format!("{INSIDE}/initramfs"));
    option("machine", inner.machine.name().into());
    option("cpus", inner.cpus.to_string());
    option("sockets", inner.sockets.to_string());
    option("threads", inner.threads.to_string());
    option("memory", (inner.memory >> 20).to_string());
    option("cpu-model", inner.cpu_model.clone());
    option("boot-timeout", inner.boot_timeout.to_string());
    if let Some(seconds) = inner.timeout {
        option("timeout", seconds.to_string());
    }
    inner.append.iter().for_each(|word| option("append", word.clone()));
    inner.env.iter().for_each(|word| option("env", word.clone()));
    inner.qemu_arg.iter().for_each(|word| option("qemu-arg", word.to_string_lossy().into_owned()));
    words.extend(inner.no_balloon.then(|| "--no-balloon".into()));
    words.extend(inner.verbose.then(|| "--verbose".into()));
    words.extend(json.then(|| "--json".into()));
    words
}

fn inside(name: &str) -> PathBuf {
    Path::new(INSIDE).join(name)
}

/// This program, QEMU, and the code that QEMU puts into machines; each with its libraries.
fn tools() -> Result<Vec<Addition>> {
    let qemu = program(QEMU).with_context(|| format!("there is no {QEMU} in PATH: run 'make setup'"))?;
    let myself = std::env::current_exe().context("cannot find this program's own file")?;
    let mut add = vec![
        Addition { source: qemu, destination: Path::new("/usr/bin").join(QEMU) },
        Addition { source: myself, destination: DARTER.into() },
    ];
    let places =
        ROM_FOLDERS.iter().flat_map(|folder| ROMS.iter().map(move |rom| Path::new(folder).join(rom)));
    let roms = places.filter(|file| file.is_file());
    add.extend(roms.map(|file| Addition { source: file.clone(), destination: file }));
    Ok(add)
}

/// Under names whose order is that of their loading.
fn modules(paths: &Tree) -> Result<Vec<Addition>> {
    let folder = paths.linux_modules();
    let mut add = Vec::new();
    for (at, name) in MODULES.iter().enumerate() {
        let source = folder.join(format!("{name}.ko"));
        if !source.is_file() {
            bail!("{} is missing: run 'make setup'", source.display());
        }
        add.push(Addition { source, destination: format!("/modules/{at}-{name}.ko").into() });
    }
    Ok(add)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command, Run};

    fn parse(line: &[String]) -> Run {
        let words = ["darter".into(), "run".into()].into_iter().chain(line.iter().cloned());
        let Command::Run(run) = Cli::try_parse_from(words).unwrap().command else { panic!("not run") };
        *run
    }

    #[test]
    fn the_inner_machine_is_as_it_was_asked_for() {
        let line = "--accel nested --machine microvm -c 8 --sockets 2 --threads 2 -m 512M -e A=b --append -x=1 --timeout 9 -v -- ls -l";
        let asked = parse(&line.split(' ').map(String::from).collect::<Vec<_>>());
        let mut words = run_words(&asked.machine, "darter", true);
        words.extend(["--".into(), "true".into()]);
        let inner = parse(&words);
        assert!(inner.json && inner.machine.verbose && inner.machine.accel == Wanted::Kvm);
        let facts = |run: &Run| {
            let machine = &run.machine;
            let numbers = (
                machine.cpus,
                machine.sockets,
                machine.threads,
                machine.memory,
                machine.timeout,
                machine.boot_timeout,
            );
            (numbers, machine.machine, machine.env.clone(), machine.append.clone(), machine.cpu_model.clone())
        };
        assert_eq!(facts(&inner), facts(&asked));
    }
}
