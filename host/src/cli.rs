//! The command line.
#![forbid(unsafe_code)]

mod bench;
mod watching;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::lines::Beside;
use crate::machine::accel::Wanted;
use crate::machine::kernel::Kernel;
use crate::machine::{Disk, Model, Share};
use crate::root::{Addition, Root};
use crate::run::Asked;
use crate::size::parse_bytes;
pub use bench::{Bench, CpuModels, Part};
pub use watching::{Flame, Lockstat, Top};

/// Runs Linux programs on the Darter kernel, each in a virtual machine of its own.
#[derive(Parser)]
#[command(
    name = "darter",
    version,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a program in a fresh machine: streams, exit status and signals as if it ran here
    ///
    /// Exit status: the program's own (128 + n if signal n killed it); 127 if there is no such program and 126 if it
    /// cannot be executed; 2 for wrong usage; 124 when --timeout is reached; 125 when the machine or its kernel failed,
    /// with the kernel's last words on stderr.
    ///
    /// Ctrl-C goes to the program. Where it does not help, three of them end the machine; on a terminal, which is the
    /// program's own, Ctrl-] three times in a row does.
    Run(Box<Run>),
    /// An interactive shell in a fresh machine (Ctrl-] three times in a row ends it, whatever it does)
    Shell(Box<Shell>),
    /// Run the benchmarks, on Darter and beside it on another kernel, and print a table
    Bench(Bench),
    /// Count the cache lines that CPUs take from each other, and name them
    ///
    /// Emulates the machine with a host thread for each CPU and watches every load and store. Counts depend on who comes first;
    /// conflict lines (a writer and another CPU in the same window) do not.
    Lines(Lines),
    /// Count what system calls cost among 10 to 10,000 of what they might look at, and name the growth
    ///
    /// Kernel instructions for one operation among so many processes, threads, descriptors, mappings, names, timers or locks, counted
    /// exactly on one CPU. A cost that grows where Linux's does not is a defect.
    Growth(Growth),
    /// Count how often an operation makes a CPU leave the guest under KVM, by cause
    ///
    /// The machine runs as with `run --accel nested`, and KVM's own trace is counted between marks around the operations.
    Exits(Exits),
    /// Count what malloc and free by threads cost in the kernel, with musl, glibc, jemalloc and mimalloc
    ///
    /// Shared lines, the kernel's instructions and rates of each pattern with each allocator (bench/allocators); `make allocators` fetches
    /// the libraries, and those that are missing are left out.
    Allocators(Allocators),
    /// Measure which part of the CPUs each of many busy processes gets, beside its due, and how late a sleeper wakes among them
    ///
    /// Time is counted in instructions, and CPUs take turns of a few thousand of them, so that the host's own scheduling does not show.
    Shares(Shares),
    /// Run loads that sleep and wake (messages, pairs, wakes, a build): rates, how late who is woken runs, moves between CPUs, instructions
    Loads(Loads),
    /// Build C programs with gcc and tcc, and crates with cargo, on this machine's files (docomp, nativekernel, buildworld, cargo): real, user and system time, cold and warm
    ///
    /// The compilers and headers are this machine's, read through the live root; what is written stays in the guest's memory. `make builds` fetches what is built.
    Builds(Builds),
    /// Say which locks a kernel waited for, and where from, as NetBSD's lockstat(8) does, while a program runs, or in a machine that runs
    ///
    /// The program's streams, signals and exit status are those of `run`; the report comes on stdout when it has ended, or the machine has failed. Locks are told apart by
    /// class. Callers are places in the kernel's source. Without a program the machine of another darter command is watched (--attach), from now on until Ctrl-C or its end.
    Lockstat(Box<Lockstat>),
    /// Show what each CPU does, as DragonFly's `systat -pv` does, while a program runs, or in a machine that runs
    ///
    /// On a terminal a screen, with what the program printed after it; else plain lines on stdout, and the program's stdout on stderr. The exit status is the program's. Keys: q ends the
    /// machine, arrows scroll and choose the column to sort by, r turns the order round, b hides idle CPUs, / asks for a text and shows only CPUs that waited for a lock with it in
    /// its class or caller (--filter; Enter keeps it, Esc clears it). Without a program the machine of another darter command is watched
    /// (--attach), which q leaves as it is.
    Top(Box<Top>),
    /// Draw where CPUs were, in the kernel and in programs, while a program ran, or in a machine that runs: a flame graph
    ///
    /// Stacks are sampled at the CPUs' ticks and walked by frame pointers: a program built without them shows its innermost function, and what is inlined has no frame. CPUs that idle are not
    /// sampled. With --exact nothing is sampled: every instruction is counted, those of CPUs that idle too, and a wide frame is one of many instructions, not of much time.
    /// With --lines cache lines are counted that CPUs take from each other, by who takes them and from whom.
    /// The program's streams, signals and exit status are those of `run`; its addresses are not drawn at random (norandmaps). Without a program the machine of another darter command
    /// is watched (--attach), from now on until Ctrl-C or its end; its programs' addresses are as they are, so one that ended before it was looked at has no names.
    Flame(Box<Flame>),
    /// Run the booted tests in tests/boot
    Test(Test),
    /// Say what this machine lacks, and the command that mends it
    Doctor,
    /// Print the completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Counts a trace of KVM on stdin, for `exits`
    #[command(name = crate::exits::COUNT, hide = true)]
    ExitsCount,
    #[command(name = crate::machine::qemu::GUARD, hide = true)]
    Guard {
        parent: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(Args, Clone)]
pub struct MachineOptions {
    /// Which kernel to boot: darter, linux (6.12, as `make setup` fetched it) or a file
    #[arg(long, default_value = "darter", value_parser = Kernel::parse, value_name = "darter|linux|FILE")]
    pub kernel: Kernel,
    /// Which machine QEMU makes
    #[arg(long, value_enum, default_value_t = Model::Q35)]
    pub machine: Model,
    /// CPUs of the machine
    #[arg(long, short = 'c', default_value_t = 2, value_name = "N")]
    pub cpus: u32,
    /// Sockets, each a NUMA node with its part of CPUs and memory
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub sockets: u32,
    /// Threads of each core: CPUs 0 to N - 1 are those of the first
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub threads: u32,
    /// Memory of the machine (512M, 4G; a bare number is MiB)
    #[arg(long, short = 'm', default_value = "1G", value_parser = parse_bytes, value_name = "SIZE")]
    pub memory: u64,
    /// The guest's files: busybox, a tar archive, or those of this machine (host) or of a folder as they are now. What the guest writes stays in
    /// its memory. With host the program starts as whoever calls, in the same folder and with the same environment
    #[arg(long, default_value = "busybox", value_parser = Root::parse, value_name = "busybox|host|DIR|FILE.tar")]
    pub root: Root,
    /// Who the program is: a name that the root of host or DIR has, or numbers. Without: whoever calls with --root host, else root
    #[arg(long, value_parser = Asked::parse, value_name = "NAME|UID[:GID]")]
    pub user: Option<Asked>,
    /// Put a file or folder into the guest; a dynamic program brings its interpreter and libraries along.
    /// Without DST an absolute SRC keeps its place, a relative one stands below /root, where programs start
    #[arg(long, value_parser = Addition::parse, value_name = "SRC[:DST]")]
    pub add: Vec<Addition>,
    /// A file of this machine as a disk, /dev/vda, the next /dev/vdb; `:ro` for reading only. What the guest writes is in the file at once (give it
    /// again and again)
    #[arg(long, value_parser = Disk::parse, value_name = "FILE[:ro]")]
    pub disk: Vec<Disk>,
    /// A folder of this machine, which the guest reads at AT (or in the same place) as it is, and cannot change (give it again and again)
    #[arg(long, value_parser = Share::parse, value_name = "DIR[:AT]")]
    pub share: Vec<Share>,
    /// As --share, but what the guest makes, changes and removes in the folder is made, changed and removed in it: nothing outside of it, where links lead or not
    #[arg(long, value_parser = Share::parse_rw, value_name = "DIR[:AT]")]
    pub rw: Vec<Share>,
    /// How to run the machine; auto takes KVM only where the processor offers it
    #[arg(long, value_enum, default_value_t = Wanted::Auto)]
    pub accel: Wanted,
    /// QEMU's CPU model with its features
    #[arg(long, default_value = "max", value_name = "MODEL")]
    pub cpu_model: String,
    /// The same run each time, instruction for instruction (slower; one host thread; programs lie at the same addresses; no source of entropy). Input, disks and
    /// folders of this machine still have a time of their own
    #[arg(long)]
    pub deterministic: bool,
    /// What the guest frees stays with its machine: no virtio balloon, whose work takes the guest some wake-ups after memory was freed
    #[arg(long)]
    pub no_balloon: bool,
    /// Words for the kernel's command line
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// A word for QEMU's command line
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub qemu_arg: Vec<OsString>,
    /// An environment variable of the program; PATH, HOME, USER and TERM are set, and with --root host the caller's are, but for those that name
    /// what the guest does not have (SSH_AUTH_SOCK, DISPLAY, XDG_RUNTIME_DIR and the like)
    #[arg(long, short = 'e', value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// End with status 124 after so many seconds, start of the machine included
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
    /// Give up (status 125) when the kernel has not started its first program after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "300")]
    pub boot_timeout: f64,
    /// Wait for gdb before the first instruction, on a port of this machine; the command that connects it is printed
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1234", conflicts_with = "boot_timeout", value_parser = clap::value_parser!(u16).range(1..), value_name = "PORT")]
    pub gdb: Option<u16>,
    /// Show the kernel's console on stderr
    #[arg(long, short = 'v')]
    pub verbose: bool,
    /// The guest's files as an archive that darter made before, instead of --root and --add: for --accel nested
    #[arg(long, hide = true, value_name = "FILE")]
    pub initramfs: Option<PathBuf>,
}

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Print one JSON object when it is over: status, the streams, times, how the machine ran
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments; one whose name begins with - stands behind --
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD [ARG]")]
    pub command: Vec<String>,
}

#[derive(Args)]
pub struct Shell {
    #[command(flatten)]
    pub machine: MachineOptions,
}

#[derive(Args)]
pub struct Lines {
    /// Benchmarks, each with its options if it is one word: "faultzf -t"
    #[arg(required_unless_present_any = ["self_test", "gate", "grid", "calls"], value_name = "BENCH")]
    pub benchmarks: Vec<String>,
    /// CPU counts, a machine each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,4",
        default_value_if("calls", "true", "2"),
        value_name = "N,..."
    )]
    pub cpus: Vec<u32>,
    #[command(flatten)]
    pub machine: LineMachine,
    /// The kernel to compare with
    #[arg(long, value_parser = Kernel::parse, value_name = "linux|FILE")]
    pub vs: Option<Kernel>,
    /// Show that the detector finds lines planted in known ways, and calls each by what it is
    #[arg(long, conflicts_with = "benchmarks")]
    pub self_test: bool,
    /// Compare instructions, lines and transfers with the table in tests/gate; status 1 where they differ for the worse; with --calls: shared lines of system calls
    #[arg(long, conflicts_with_all = ["self_test", "vs", "ops"])]
    pub gate: bool,
    /// Which operations share lines when two of them run side by side, every pair of those named
    #[arg(long, conflicts_with_all = ["self_test", "gate", "ops"])]
    pub grid: bool,
    /// Every system call and each variant of it, or the calls and cases named: instructions, shared lines and turns per operation
    #[arg(long, conflicts_with_all = ["self_test", "grid", "cost", "instructions", "predict"])]
    pub calls: bool,
    /// With --calls: also with something else on the last CPU: one that idles, one in a loop that makes no call, or a program that works as a build does
    #[arg(long, requires = "calls", value_delimiter = ',', value_name = "KIND,...")]
    pub beside: Vec<Beside>,
    /// With --calls: write the page of them
    #[arg(long, requires = "calls", value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// With --calls: measure nothing, and show what earlier runs wrote with --json, beside each other
    #[arg(long, requires = "calls", conflicts_with = "gate", value_delimiter = ',', value_name = "FILE,...")]
    pub from: Vec<PathBuf>,
    /// With --calls: measure only what the file of --json does not have, which a run that was broken off has written (not what a changed case would show)
    #[arg(long, requires = "calls", requires = "json", conflicts_with_all = ["gate", "from"])]
    pub resume: bool,
    /// With --grid: name the lines of every pair; with --gate: of every benchmark, shared and rare ones; with --calls: of the other kernel too, or with --gate the lines that some windows showed
    #[arg(long)]
    pub names: bool,
    /// With --grid, --calls or --predict: a picture (a pointer held over a square shows its lines)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Count instructions per operation too, exactly, in another machine
    #[arg(long, short = 'i', conflicts_with_all = ["self_test", "gate", "grid"])]
    pub instructions: bool,
    /// A model of the rates with up to 48 CPUs, from instructions and lines; --cpus 2,4,16,48 gives it something to stand on
    #[arg(long, conflicts_with_all = ["self_test", "gate", "grid"])]
    pub predict: bool,
    #[command(flatten)]
    pub costs: Costs,
    /// With --gate: write the figures into the table instead
    #[arg(long, requires = "gate")]
    pub update: bool,
    /// Show what watching costs: the same operations timed with and without the plugin
    #[arg(long, conflicts_with = "self_test")]
    pub cost: bool,
    /// Operations of each task (default: 4096 faults, 200 of anything else)
    #[arg(long = "ops", short = 'c', value_name = "OPS")]
    pub ops: Option<u64>,
    /// Windows of each benchmark, after one that warms up. Transfers are the last one's; a line is said to conflict if it does in any
    #[arg(long, default_value_t = 1, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub windows: u32,
    /// Lines shown of each run
    #[arg(long, default_value_t = 12, value_name = "N")]
    pub top: usize,
    /// Write all results there too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub struct Growth {
    /// Worlds, operations, or both: children, setsid, "children setsid"; all if none is named
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
    /// The kernel to measure
    #[arg(long, default_value = "darter", value_parser = Kernel::parse, value_name = "darter|linux|FILE")]
    pub kernel: Kernel,
    /// The kernel to compare with
    #[arg(long, value_parser = Kernel::parse, value_name = "linux|FILE")]
    pub vs: Option<Kernel>,
    /// Among how many, ascending; with --gate 10,100,1000
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10,100,1000,10000",
        default_value_if("gate", "true", "10,100,1000"),
        value_name = "N,..."
    )]
    pub sizes: Vec<u32>,
    /// Compare with tests/gate/growth.toml; status 1 where a cost grows that may not
    #[arg(long, conflicts_with_all = ["vs", "page", "json"])]
    pub gate: bool,
    /// With --gate: another file than that
    #[arg(long, requires = "gate", value_name = "FILE")]
    pub bounds: Option<PathBuf>,
    /// With --gate: write the figures into the file instead
    #[arg(long, requires = "gate")]
    pub update: bool,
    /// Measure nothing, and show (with --gate: judge) what earlier runs wrote with --json, beside each other
    #[arg(long, value_delimiter = ',', conflicts_with = "cases", value_name = "FILE,...")]
    pub from: Vec<PathBuf>,
    /// Memory of the machines
    #[arg(long, short = 'm', default_value = "3G", value_parser = parse_bytes, value_name = "SIZE")]
    pub memory: u64,
    /// Words for both kernels' command lines
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// The kernel functions whose costs differ most among the sizes; of one size those that cost most
    #[arg(long, conflicts_with_all = ["gate", "from"])]
    pub profile: bool,
    /// Write the page of them
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Write all results there too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Exits {
    /// Operations; all if none is named (`darter exits list` names them)
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
    /// The kernel to measure
    #[arg(long, default_value = "darter", value_parser = Kernel::parse, value_name = "darter|linux|FILE")]
    pub kernel: Kernel,
    /// The kernel to compare with
    #[arg(long, value_parser = Kernel::parse, value_name = "linux|FILE")]
    pub vs: Option<Kernel>,
    /// CPUs of the machine that is measured
    #[arg(long, short = 'c', default_value_t = 2, value_name = "N")]
    pub cpus: u32,
    /// Memory of that machine
    #[arg(long, short = 'm', default_value = "256M", value_parser = parse_bytes, value_name = "SIZE")]
    pub memory: u64,
    /// Words for both kernels' command lines
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Measure nothing, and show what earlier runs wrote with --json, beside each other
    #[arg(long, value_delimiter = ',', conflicts_with = "cases", value_name = "FILE,...")]
    pub from: Vec<PathBuf>,
    /// Give a kernel up after so many seconds
    #[arg(long, default_value = "400", value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: f64,
    /// Write the page of them
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Write all results there too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Allocators {
    /// Allocators, patterns, or both: jemalloc, churn, "jemalloc churn"; all if none is named
    #[arg(value_name = "ROW")]
    pub rows: Vec<String>,
    /// CPUs, a thread on each
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub cpus: u32,
    #[command(flatten)]
    pub machine: LineMachine,
    /// The kernel to compare with
    #[arg(long, value_parser = Kernel::parse, value_name = "linux|FILE")]
    pub vs: Option<Kernel>,
    /// Boots of each kernel, in turns, that measure rates; 0: no rates
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub runs: u32,
    /// Seconds that each rate is measured for
    #[arg(long, default_value_t = 0.5, value_parser = parse_seconds, value_name = "SECONDS")]
    pub seconds: f64,
    /// Name the lines of the other kernel too
    #[arg(long)]
    pub names: bool,
    /// Measure nothing, and show what earlier runs wrote with --json, beside each other
    #[arg(long, value_delimiter = ',', conflicts_with = "rows", value_name = "FILE,...")]
    pub from: Vec<PathBuf>,
    /// Write the page of them
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Write all results there too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub struct Shares {
    /// CPU counts, a machine each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,4,16,48",
        default_value_if("gate", "true", "2,4,16"),
        value_name = "N,..."
    )]
    pub cpus: Vec<u32>,
    /// Busy processes for each CPU
    #[arg(long, value_delimiter = ',', default_value = "1.5,2.5,10", value_name = "X,...")]
    pub load: Vec<f64>,
    /// Their nice values in turn, by colons; several such patterns by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0,0:5:10",
        allow_hyphen_values = true,
        value_parser = crate::shares::due::Nices::parse,
        value_name = "NICE:NICE:...,..."
    )]
    pub nice: Vec<crate::shares::due::Nices>,
    /// Seconds of the window [default: 4, with more than 16 CPUs 20]
    #[arg(long, value_parser = parse_seconds, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Runs of each case with up to 16 CPUs, each with a little longer a window; figures are their medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub runs: u32,
    /// The kernel to measure
    #[arg(long, default_value = "darter", value_parser = Kernel::parse, value_name = "darter|linux|FILE")]
    pub kernel: Kernel,
    /// The kernel to compare with
    #[arg(long, value_parser = Kernel::parse, value_name = "linux|FILE")]
    pub vs: Option<Kernel>,
    /// Compare with tests/gate/shares.toml; status 1 where a share is further from its due, or the sleeper later, than it says
    #[arg(long, conflicts_with_all = ["vs", "page", "json"])]
    pub gate: bool,
    /// With --gate: another file than that
    #[arg(long, requires = "gate", value_name = "FILE")]
    pub bounds: Option<PathBuf>,
    /// With --gate: write the figures into the file instead
    #[arg(long, requires = "gate")]
    pub update: bool,
    /// Measure nothing, and show (with --gate: judge) what earlier runs wrote with --json, beside each other
    #[arg(long, value_delimiter = ',', value_name = "FILE,...")]
    pub from: Vec<PathBuf>,
    /// Memory of the machines
    #[arg(long, short = 'm', default_value = "2G", value_parser = parse_bytes, value_name = "SIZE")]
    pub memory: u64,
    /// Words for both kernels' command lines
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Write the page of them
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Write all results there too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Loads {
    /// Loads; all if none is named
    #[arg(value_name = "LOAD")]
    pub names: Vec<String>,
    /// CPU counts, a machine each
    #[arg(long, value_delimiter = ',', default_value = "2,4", value_name = "N,...")]
    pub cpus: Vec<u32>,
    /// The kernel to measure
    #[arg(long, default_value = "darter", value_parser = Kernel::parse, value_name = "darter|linux|FILE")]
    pub kernel: Kernel,
    /// The kernel to compare with
    #[arg(long, value_parser = Kernel::parse, value_name = "linux|FILE")]
    pub vs: Option<Kernel>,
    /// Runs of each load, with a little more or less to do; figures are their medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub runs: u32,
    /// Memory of the machines
    #[arg(long, short = 'm', default_value = "1G", value_parser = parse_bytes, value_name = "SIZE")]
    pub memory: u64,
    /// Words for both kernels' command lines
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Write the page of them
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Write all results there too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Builds {
    /// Builds: docomp (docomp-tcc and docomp-gcc), nativekernel, buildworld, buildworld-4, cargo; all if none is named
    #[arg(value_name = "BUILD")]
    pub names: Vec<String>,
    /// CPU counts, a machine each; as many jobs as CPUs
    #[arg(long, value_delimiter = ',', default_value = "2", value_name = "N,...")]
    pub cpus: Vec<u32>,
    /// The kernel to measure
    #[arg(long, default_value = "darter", value_parser = Kernel::parse, value_name = "darter|linux|FILE")]
    pub kernel: Kernel,
    /// The kernel to compare with, alternating
    #[arg(long, value_parser = Kernel::parse, value_name = "linux|FILE")]
    pub vs: Option<Kernel>,
    /// Boots of each kernel for each build; figures are their medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub runs: u32,
    /// Larger builds: all of the library instead of parts, and more crates
    #[arg(long)]
    pub full: bool,
    /// No instructions and lines of a compilation, only times
    #[arg(long)]
    pub times: bool,
    /// Memory of the machines
    #[arg(long, short = 'm', default_value = "2G", value_parser = parse_bytes, value_name = "SIZE")]
    pub memory: u64,
    /// Words for both kernels' command lines
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Write the page of them
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Write all results there too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What the model of --predict takes hardware to cost.
#[derive(Args)]
pub struct Costs {
    /// Model: nanoseconds to take a line from another core of the socket (default: Intel Xeon Platinum 8375C, Ice Lake, median
    /// published by nviennot/core-to-core-latency)
    #[arg(long, default_value_t = 51.0, value_name = "NS", help_heading = "Model")]
    pub cost_local: f64,
    /// Model: from a core of another socket (the same source, two sockets)
    #[arg(long, default_value_t = 108.0, value_name = "NS", help_heading = "Model")]
    pub cost_remote: f64,
    /// Model: CPUs beyond so many are on another socket
    #[arg(long, default_value_t = 24, value_name = "N", help_heading = "Model")]
    pub cores_per_socket: u32,
    /// Model: instructions a cycle (an assumption)
    #[arg(long, default_value_t = 1.0, value_name = "N", help_heading = "Model")]
    pub ipc: f64,
    /// Model: cycles a nanosecond
    #[arg(long, default_value_t = 2.9, value_name = "GHZ", help_heading = "Model")]
    pub ghz: f64,
    /// Model: bytes that a string instruction clears or copies in a cycle (an assumption)
    #[arg(long, default_value_t = 32.0, value_name = "BYTES", help_heading = "Model")]
    pub string_bytes: f64,
}

/// A machine whose lines are watched.
#[derive(Args)]
pub struct LineMachine {
    /// The kernel to measure
    #[arg(long, default_value = "darter", value_parser = Kernel::parse, value_name = "darter|linux|FILE")]
    pub kernel: Kernel,
    /// Sockets, each a NUMA node; lines between them are counted apart
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub sockets: u32,
    /// Model a cache for each CPU too (16 ways, least recently used goes): what it fetches, and from which node's memory
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1M", value_parser = parse_bytes, value_name = "SIZE")]
    pub cache: Option<u64>,
    /// Memory of the machines
    #[arg(long, short = 'm', default_value = "1G", value_parser = parse_bytes, value_name = "SIZE")]
    pub memory: u64,
    /// Words for both kernels' command lines
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
}

#[derive(Args)]
pub struct Test {
    /// Tests whose name contains one of these; all if none is given
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The kernel under test
    #[arg(long, default_value = "darter", env = "DARTER_KERNEL", value_name = "darter|linux|FILE")]
    pub kernel: String,
    /// Only say which there are
    #[arg(long)]
    pub list: bool,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e9).contains(&seconds) => Ok(seconds),
        _ => Err(format!("'{text}' is no number of seconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_the_program_are_not_ours() {
        for line in ["darter run --cpus 4 -- ls --cpus 9", "darter run --cpus 4 ls --cpus 9"] {
            let Command::Run(run) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!() };
            assert_eq!(run.machine.cpus, 4);
            assert_eq!(run.command, ["ls", "--cpus", "9"]);
        }
        assert!(Cli::try_parse_from(["darter", "run"]).is_err());
    }

    #[test]
    fn a_mistyped_option_is_not_the_program() {
        let error = |line: &str| Cli::try_parse_from(line.split(' ')).err().map(|error| error.to_string());
        assert!(error("darter run --cpu 4 true").unwrap().contains("'--cpus'"));
        assert!(error("darter run -cc4 true").is_some());
        assert!(error("darter run -- --cpu 4").is_none());
        assert!(error("darter run true --cpu 4 -- -x").is_none());
    }

    #[test]
    fn gdb_has_a_port() {
        let gdb = |line: &str| match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
            Ok(Command::Run(run)) => run.machine.gdb,
            _ => None,
        };
        assert_eq!(gdb("darter run true"), None);
        assert_eq!(gdb("darter run --gdb true"), Some(1234));
        assert_eq!(gdb("darter run --gdb=2345 true"), Some(2345));
        assert_eq!(gdb("darter run --gdb=0 true"), None);
    }
}
