//! The benchmarks: names, command lines, and how many operations an exact count takes.
#![forbid(unsafe_code)]

use crate::exit::usage;

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub name: String,
    /// Program in the guest, and its options beside the number of tasks and the length.
    pub program: String,
    pub options: Vec<String>,
    pub what: &'static str,
    /// Linux: with transparent huge pages for this one (they are off for the others).
    pub huge_pages: bool,
    /// Operations of the shorter of the two runs of an exact count; 0: not in that list.
    pub exact_ops: u64,
    /// Operations of each task in a window whose lines are watched.
    pub window_ops: u64,
}

struct Row(&'static str, &'static str, &'static [&'static str], &'static str, u64);

/// Operations of each of two tasks in a window, by program: as many as take a few tenths of a second with every access watched, and
/// so many that a page which goes from one CPU to another (64 lines) weighs little. Faults come in rounds of 2048.
const WINDOW_OPS: [(&str, u64); 22] = [
    ("brk", 500),
    ("clock", 20_000),
    ("doexec", 100),
    ("faultfile", 32768),
    ("faultzf", 8192),
    ("file-list", 1000),
    ("file-read", 4000),
    ("file-stat", 4000),
    ("file-write", 4000),
    ("forkexec", 100),
    ("forkexit", 200),
    ("getppid", 20_000),
    ("handoff", 1000),
    ("mmap", 1500),
    ("openclose", 4000),
    ("pingpong", 1000),
    ("pipe", 5000),
    ("raise", 3000),
    ("threads", 500),
    ("tick", 50),
    ("tmpfs", 1000),
    ("yield", 3000),
];
const WINDOW_OPS_OF_OTHERS: u64 = 100;

/// The program of bench/calls, each of whose cases may be counted.
const CALLS: &str = "calls";

/// What runs when no benchmark is named.
const USUAL: [Row; 14] = [
    Row("doexec", "doexec", &[], "exec of a program of each task's own, static", 0),
    Row("doexecsh", "doexecsh", &[], "exec of one program by all tasks, static", 0),
    Row("doexec-dynamic", "doexec-dynamic", &[], "the same, dynamic", 0),
    Row("doexecsh-dynamic", "doexecsh-dynamic", &[], "the same, dynamic, one file", 0),
    Row("faultzf", "faultzf", &[], "zero-fill faults; Linux with 4 KiB pages, as Darter", 4096),
    Row("faultzf-thp", "faultzf", &[], "the same with transparent huge pages always", 0),
    Row("faultfile", "faultfile", &[], "read faults on a resident file, a mapping each", 65536),
    Row("forkexec", "forkexec", &[], "fork + exec + exit + wait", 100),
    Row("vforkexec", "forkexec", &["-v"], "vfork + exec + exit + wait", 100),
    Row("forkexit", "forkexit", &[], "fork + exit + wait", 100),
    Row("mmap", "mmap", &[], "map, touch, unmap", 400),
    Row("brk", "brk", &[], "grow the heap, touch, shrink", 400),
    Row("threads", "threads", &[], "create and join a thread", 1000),
    Row("tmpfs", "tmpfs", &[], "create, write, rename, unlink, a directory each", 1000),
];

/// What runs when it is named.
const MORE: [Row; 31] = [
    Row("faultzf-keep", "faultzf", &["-k"], "zero-fill faults without unmapping", 4096),
    Row("faultzf-threads", "faultzf", &["-t"], "zero-fill faults, threads of one process", 0),
    Row("faultzf-span", "faultzf", &["-t", "-o"], "the same, each thread its part of one mapping", 0),
    Row("faultfile-shared", "faultfile", &["-o"], "read faults on one file for all tasks", 65536),
    Row("forkexit-32m", "forkexit", &["-m", "32"], "fork + exit + wait with 32 MiB touched", 50),
    Row("forkexit-32m-thp", "forkexit", &["-m", "32"], "the same with transparent huge pages always", 0),
    Row("mmap-threads", "mmap", &["-t"], "map, touch, unmap, threads of one process", 0),
    Row("tmpfs-one", "tmpfs", &["-o"], "create, write, rename, unlink in one directory", 1000),
    Row("openclose", "openclose", &[], "open and close a file", 1000),
    Row("openclose-one", "openclose", &["-o"], "open and close one file for all tasks", 0),
    Row("pipe", "pipe", &[], "write and read through an own pipe", 1000),
    Row("raise", "raise", &[], "a signal to oneself", 1000),
    Row("raise-threads", "raise", &["-t"], "the same, threads of one process", 1000),
    Row("handoff", "handoff", &[], "wake a thread of one's CPU by a futex, and be woken by it", 5000),
    Row("handoff-across", "handoff", &["-a"], "the same with a thread of the next CPU", 0),
    Row(
        "pingpong",
        "pingpong",
        &[],
        "send a byte to a process of one's CPU by a pipe, and be sent one",
        5000,
    ),
    Row("pingpong-across", "pingpong", &["-a"], "the same with a process of the next CPU", 0),
    Row("yield", "yield", &[], "sched_yield to a process of one's CPU that does the same", 20000),
    Row("tick", "tick", &[], "ten milliseconds in user mode alone, with a timer interrupt", 20),
    Row("getppid", "getppid", &[], "one trivial system call", 2000),
    Row("clock", "clock", &[], "clock_gettime(CLOCK_MONOTONIC)", 2000),
    Row("live-read", "file-read", &["-l"], "read 4 KiB of an open file of a live root", 1000),
    Row("live-read-1m", "file-read", LIVE_1M, "read 1 MiB of it", 20),
    Row("live-stat", "file-stat", &["-l"], "stat a file of a live root by its name", 1000),
    Row("live-list", "file-list", &["-l"], "list a directory of a live root", 200),
    Row("live-openclose", "openclose", &["-l"], "open and close a file of a live root", 1000),
    Row("live-doexec", "doexec", &["-l"], "exec of a program of a live root, static", 100),
    Row(
        "live-doexec-dynamic",
        "doexec-dynamic",
        &["-l"],
        "the same, dynamic, with libraries of a live root",
        50,
    ),
    Row(
        "live-tmpfs",
        "tmpfs",
        &["-l"],
        "create, write, rename, unlink in a live root, a directory each",
        200,
    ),
    Row("live-write", "file-write", &["-l"], "write 4 KiB of an open file of a live root", 1000),
    Row("live-write-1m", "file-write", LIVE_1M, "write 1 MiB of it", 20),
];

/// Many pages an operation, so few operations to warm up.
const LIVE_1M: &[&str] = &["-l", "-b", "1048576", "-w", "20"];

impl From<&Row> for Spec {
    fn from(row: &Row) -> Self {
        Self {
            name: row.0.into(),
            program: row.1.into(),
            options: row.2.iter().map(|&word| word.to_owned()).collect(),
            what: row.3,
            huge_pages: row.0.ends_with("-thp"),
            exact_ops: row.4,
            window_ops: match row.2 {
                // 32 MiB of each task, touched before.
                ["-m", "32"] => 50,
                ["-l", "-b", ..] => 20,
                _ => window_ops(row.1),
            },
        }
    }
}

fn window_ops(program: &str) -> u64 {
    WINDOW_OPS.iter().find(|(name, _)| *name == program).map_or(WINDOW_OPS_OF_OTHERS, |(_, ops)| *ops)
}

impl Spec {
    /// Program and options for so many tasks.
    fn start(&self, tasks: u32) -> String {
        let mut words = vec![self.program.clone(), tasks.to_string()];
        words.extend(self.options.iter().cloned());
        words.join(" ")
    }

    /// Operations of the shorter run of an exact count, for those too that are not in the usual list of counts. Faults come in
    /// rounds of 2048.
    fn or_some_ops(&self) -> u64 {
        match self.exact_ops {
            0 if self.program.starts_with("fault") => 4096,
            0 => 100,
            ops => ops,
        }
    }

    /// The command for a rate.
    pub fn timed(&self, tasks: u32, seconds: f64) -> String {
        format!("{} -q -s {seconds}", self.start(tasks))
    }

    /// Does it use a live root? What it has read comes from a device that answers when QEMU's main loop comes to it: two counts of its instructions differ by some.
    pub fn is_live(&self) -> bool {
        self.options.iter().any(|option| option == "-l")
    }

    /// Are the tasks threads of one process?
    pub fn threads(&self) -> bool {
        self.options.iter().any(|word| word == "-t")
    }

    /// The command that does `ops` operations of this one beside `other_ops` of another; None where the two cannot stand side by side.
    /// If the tasks of either are threads, both are threads of one process, which has one heap to grow.
    pub fn beside(&self, ops: u64, other: &Spec, other_ops: u64) -> Option<String> {
        let threads = self.threads() || other.threads();
        let fits = |spec: &Spec| !(spec.program.starts_with("doexec") || threads && spec.program == "brk");
        let words = |spec: &Spec, ops: u64| {
            let options = spec.options.iter().filter(|word| *word != "-t").map(String::as_str);
            let words: Vec<_> = std::iter::once(spec.program.as_str()).chain(options).collect();
            format!("\"{} -c {ops}\"", words.join(" "))
        };
        (fits(self) && fits(other)).then(|| {
            let threads = if threads { " -t" } else { "" };
            format!("grid{threads} {} {}", words(self, ops), words(other, other_ops))
        })
    }

    /// The command for an exact count: one task.
    pub fn counted(&self, ops: u64) -> String {
        self.counted_on(1, ops)
    }

    /// The command for a window of the gate: as many operations with four tasks as with two.
    pub fn window(&self, tasks: u32) -> String {
        self.counted_on(tasks, (self.window_ops * 2 / u64::from(tasks.max(1))).max(1))
    }

    /// The command for so many operations of each task.
    pub fn counted_on(&self, tasks: u32, ops: u64) -> String {
        match self.program.as_str() {
            CALLS => format!("{CALLS} run {} {tasks} {ops}", self.options.join(" ")),
            _ => format!("{} -q -c {ops}", self.start(tasks)),
        }
    }
}

fn find(name: &str) -> Option<Spec> {
    USUAL.iter().chain(&MORE).find(|row| row.0 == name).map(Spec::from)
}

/// The named ones, "all", or the usual ones. A name with blanks is a command of one's own: "faultzf -t -m 8".
pub fn choose(names: &[String]) -> anyhow::Result<Vec<Spec>> {
    if names.is_empty() {
        return Ok(USUAL.iter().map(Spec::from).collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        if name == "all" {
            chosen.extend(USUAL.iter().chain(&MORE).map(Spec::from));
        } else if let Some(spec) = find(name) {
            chosen.push(spec);
        } else if let Some((program, options)) = name.split_once(' ')
            && let Some(base) = find(program)
        {
            let options = options.split_whitespace().map(str::to_owned).collect();
            chosen.push(Spec { name: name.clone(), options, what: "", ..base });
        } else {
            let known: Vec<&str> = USUAL.iter().chain(&MORE).map(|row| row.0).collect();
            return Err(usage(format!("there is no benchmark '{name}'; there are: {}", known.join(" "))));
        }
    }
    Ok(chosen)
}

/// A case of bench/calls: "calls sync", "calls sync threads".
fn call(name: &str) -> Option<Spec> {
    let mut words = name.split_whitespace();
    let (program, case) = (words.next()?, words.next()?);
    let options = vec![case.to_owned(), words.next().unwrap_or("processes").to_owned()];
    (program == CALLS && words.next().is_none()).then(|| Spec {
        name: name.to_owned(),
        program: program.to_owned(),
        options,
        what: "",
        huge_pages: false,
        exact_ops: 0,
        window_ops: WINDOW_OPS_OF_OTHERS,
    })
}

/// Those of which an exact count is asked for; cases of `lines --calls` too: "calls CASE [FORM]".
pub fn choose_exact(names: &[String]) -> anyhow::Result<Vec<Spec>> {
    if !names.is_empty() {
        let mut chosen = Vec::new();
        for name in names {
            match call(name) {
                Some(spec) => chosen.push(spec),
                None => chosen.extend(choose(std::slice::from_ref(name))?),
            }
        }
        for spec in &mut chosen {
            spec.exact_ops = spec.or_some_ops();
        }
        return Ok(chosen);
    }
    Ok(USUAL.iter().chain(&MORE).map(Spec::from).filter(|spec| spec.exact_ops > 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_chosen_by_name_or_by_its_own_words() {
        let chosen = choose(&["faultzf".into(), "faultzf -t -m 8".into()]).unwrap();
        assert_eq!(chosen[0].timed(4, 0.5), "faultzf 4 -q -s 0.5");
        assert_eq!(chosen[1].counted(100), "faultzf 1 -t -m 8 -q -c 100");
        let beside = |one: usize, other: usize| chosen[one].beside(8, &chosen[other], 9);
        assert_eq!(beside(0, 0).unwrap(), "grid \"faultzf -c 8\" \"faultzf -c 9\"");
        assert_eq!(beside(0, 1).unwrap(), "grid -t \"faultzf -c 8\" \"faultzf -m 8 -c 9\"");
        let brk = &choose(&["brk".into()]).unwrap()[0];
        assert!(brk.beside(1, brk, 1).is_some() && brk.beside(1, &chosen[1], 1).is_none());
        assert!(choose(&["nothing".into()]).is_err());
        assert!(choose(&["all".into()]).unwrap().len() > choose(&[]).unwrap().len());
        let calls = choose_exact(&["calls sync".into(), "calls read one".into()]).unwrap();
        assert_eq!(calls[0].counted(100), "calls run sync processes 1 100");
        assert_eq!(calls[1].counted(100), "calls run read one 1 100");
        assert!(choose_exact(&["calls".into()]).is_err() && choose(&["calls sync".into()]).is_err());
        assert!(choose_exact(&[]).unwrap().iter().all(|spec| spec.exact_ops > 0 && !spec.huge_pages));
    }
}
