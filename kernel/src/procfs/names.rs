//! The names of /proc: those of its root, and those of each process.
#![forbid(unsafe_code)]

use super::entry::{Entry, LinkTo, Make, MakeOf, Of, What, WhatOf};
use super::manner::Manner;
use super::{general, groups, latency, lockstat, maps, process as files, sched, settings, status, users};

const fn text(name: &'static str, make: Make) -> Entry {
    Entry { name, what: What::Text(make) }
}

pub static ROOT: &[Entry] = &[
    text("cmdline", general::cmdline),
    text("cpuinfo", general::cpuinfo),
    Entry { name: "darter", what: What::Dir(DARTER) },
    text("devices", general::devices),
    text("diskstats", general::diskstats),
    text("filesystems", general::filesystems),
    text("interrupts", general::interrupts),
    text("latency", latency::text),
    text("loadavg", general::loadavg),
    text("locks", general::locks),
    text("lockstat", lockstat::text),
    text("meminfo", general::meminfo),
    Entry { name: "mounts", what: What::Link(general::link_mounts) },
    Entry { name: "net", what: What::Link(general::link_net) },
    text("partitions", general::partitions),
    text("schedstat", sched::schedstat),
    Entry { name: "self", what: What::Link(general::link_self) },
    Entry { name: "slabinfo", what: What::Secret(|| (), general::slabinfo) },
    text("stat", general::stat),
    text("swaps", general::swaps),
    Entry { name: "sys", what: What::Dir(settings::SYS) },
    Entry { name: "thread-self", what: What::Link(general::link_thread_self) },
    text("uptime", general::uptime),
    text("version", general::version),
    text("vmstat", general::vmstat),
];

/// What Linux does not show.
static DARTER: &[Entry] = &[
    #[cfg(all(feature = "lockdep", target_os = "none"))]
    Entry { name: "audit", what: What::Secret(crate::net::collect, |_| crate::audit::audit()) },
    text("groups", groups::groups),
    text("moves", sched::moves),
    text("sched", sched::queues),
    #[cfg(feature = "lockdep")]
    text("stack", super::stack::text),
    text("users", users::users),
];

/// /proc/PID/net. There is one network for all.
static NET: &[Entry] = &[text("unix", crate::net::list::text)];
/// Where the numbers of its entries begin: behind those of all other fixed directories.
const NET_NUMBERS: u64 = 1 << 20;

/// Does anybody write a file with this mode?
const fn is_written(mode: u32) -> bool {
    mode & 0o200 != 0
}

const fn of(name: &'static str, mode: u32, make: MakeOf) -> Of {
    let manner = if is_written(mode) { Manner::WritableLines } else { Manner::Lines };
    Of { name, mode, what: WhatOf::Text(make), manner }
}

const fn inner(name: &'static str, mode: u32, make: MakeOf) -> Of {
    Of { name, mode, what: WhatOf::Inner(make), manner: Manner::Lines }
}

impl Of {
    /// A text in one piece.
    const fn piece(self) -> Of {
        let manner = if is_written(self.mode) { Manner::WritablePiece } else { Manner::Piece };
        self.made(manner)
    }

    const fn made(self, manner: Manner) -> Of {
        Of { manner, ..self }
    }
}

const fn other(name: &'static str, mode: u32, what: WhatOf) -> Of {
    Of { name, mode, what, manner: Manner::Lines }
}

pub static PROCESS: &[Of] = &[
    Of { what: WhatOf::Whole(sched::autogroup), ..of("autogroup", 0o644, sched::autogroup) },
    inner("auxv", 0o400, files::auxv).piece(),
    of("cmdline", 0o444, files::cmdline).piece(),
    of("comm", 0o644, files::comm),
    of("coredump_filter", 0o644, files::coredump_filter).piece(),
    other("cwd", 0o777, WhatOf::Link(files::cwd, LinkTo::Cwd)),
    inner("environ", 0o400, files::environ).piece(),
    other("exe", 0o777, WhatOf::Link(files::exe, LinkTo::Exe)),
    other("fd", 0o500, WhatOf::Fds),
    other("fdinfo", 0o555, WhatOf::FdInfos),
    of("limits", 0o444, files::limits),
    inner("maps", 0o444, maps::maps),
    of("mountinfo", 0o444, files::mountinfo).made(Manner::Mounts),
    of("mounts", 0o444, files::mounts).made(Manner::Mounts),
    other("net", 0o555, WhatOf::Fixed(NET, NET_NUMBERS)),
    of("oom_adj", 0o644, files::oom_adj).piece(),
    of("oom_score", 0o444, files::oom_score),
    of("oom_score_adj", 0o644, files::oom_score_adj).made(Manner::Number),
    other("root", 0o777, WhatOf::Link(files::root, LinkTo::Root)),
    of("sched", 0o644, sched::sched),
    of("schedstat", 0o444, sched::schedstat_of),
    inner("smaps_rollup", 0o444, maps::rollup),
    of("stat", 0o444, status::stat),
    of("statm", 0o444, status::statm),
    of("status", 0o444, status::status),
    other("task", 0o555, WhatOf::Tasks),
    of("timerslack_ns", 0o666, files::timerslack),
    of("wchan", 0o444, files::wchan),
];
