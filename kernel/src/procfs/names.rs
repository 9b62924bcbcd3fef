//! The names of /proc: those of its root, and those of each process.
#![forbid(unsafe_code)]

use super::darter::{contention, cpus, groups, latency, lockstat, samples, users};
use super::entry::{Entry, LinkTo, Make, MakeOf, Of, What, WhatOf};
use super::knobs::kernel;
use super::manner::Manner;
use super::sched;
use super::space::{Row, maps, numa, smaps};
use super::system::{devices, general, ipc, memory};
use super::task::{self, login, process as files, status};

const fn text(name: &'static str, make: Make) -> Entry {
    Entry { name, what: What::Text(make) }
}

pub static ROOT: &[Entry] = &[
    text("buddyinfo", memory::buddyinfo),
    text("cmdline", general::cmdline),
    text("consoles", devices::consoles),
    text("cpuinfo", general::cpuinfo),
    Entry { name: "darter", what: What::Dir(DARTER) },
    text("devices", general::devices),
    text("diskstats", general::diskstats),
    text("filesystems", general::filesystems),
    Entry { name: "fs", what: What::Dir(&[]) },
    text("interrupts", general::interrupts),
    text("iomem", memory::iomem),
    text("ioports", devices::ioports),
    Entry { name: "kmsg", what: What::Log },
    text("latency", latency::text),
    text("loadavg", general::loadavg),
    Entry { name: "locks", what: What::Locks },
    text("lockstat", lockstat::text),
    text("meminfo", general::meminfo),
    text("misc", devices::nothing),
    text("modules", devices::nothing),
    Entry { name: "mounts", what: What::Link(general::link_mounts) },
    Entry { name: "net", what: What::Link(general::link_net) },
    text("partitions", general::partitions),
    text("schedstat", sched::schedstat),
    Entry { name: "self", what: What::Link(general::link_self) },
    Entry { name: "slabinfo", what: What::Secret(|| (), general::slabinfo) },
    text("softirqs", general::softirqs),
    text("stat", general::stat),
    text("swaps", general::swaps),
    Entry { name: "sys", what: What::Dir(kernel::SYS) },
    Entry { name: "sysvipc", what: What::Dir(ipc::FILES) },
    Entry { name: "thread-self", what: What::Link(general::link_thread_self) },
    Entry { name: "tty", what: What::Dir(TTY) },
    text("uptime", general::uptime),
    text("version", general::version),
    text("vmstat", general::vmstat),
    text("zoneinfo", memory::zoneinfo),
];

static TTY: &[Entry] = &[text("drivers", devices::drivers)];

/// What Linux does not show.
static DARTER: &[Entry] = &[
    #[cfg(all(feature = "lockdep", target_os = "none"))]
    Entry { name: "audit", what: What::Secret(crate::net::collect, |_| crate::audit::audit()) },
    Entry { name: "contention", what: What::Setting(&contention::CONTENTION) },
    text("cpus", cpus::text),
    Entry { name: "groups", what: What::Setting(&groups::GROUPS) },
    text("moves", sched::moves),
    Entry { name: "samples", what: What::Hidden(&samples::SAMPLES) },
    text("sched", sched::queues),
    #[cfg(feature = "lockdep")]
    text("stack", super::darter::stack::text),
    text("tlb", super::darter::tlb::text),
    text("users", users::users),
    text("virtio", super::darter::virtio::queues),
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

const fn whole(of: Of, make: MakeOf) -> Of {
    Of { what: WhatOf::Whole(make), ..of }
}

const fn rows(name: &'static str, row: Row) -> Of {
    other(name, 0o444, WhatOf::Rows(row))
}

/// By their names' first letters, which `from_letter` relies on.
pub const PROCESS: &[Of] = &[
    whole(of("autogroup", 0o644, sched::autogroup), sched::autogroup),
    inner("auxv", 0o400, files::auxv).piece(),
    other("children", 0o444, WhatOf::Part(task::children)),
    of("cmdline", 0o444, files::cmdline).piece(),
    of("comm", 0o644, files::comm),
    whole(of("coredump_filter", 0o644, files::coredump_filter).piece(), files::coredump_filter),
    other("cwd", 0o777, WhatOf::Link(files::cwd, LinkTo::Cwd)),
    inner("environ", 0o400, files::environ).piece(),
    other("exe", 0o777, WhatOf::Link(files::exe, LinkTo::Exe)),
    other("fd", 0o500, WhatOf::Fds),
    other("fdinfo", 0o555, WhatOf::FdInfos),
    of("gid_map", 0o644, login::id_map),
    of("io", 0o400, task::io),
    of("limits", 0o444, files::limits),
    of("loginuid", 0o644, login::loginuid).piece(),
    other("map_files", 0o500, WhatOf::MapFiles),
    rows("maps", maps::row),
    other("mem", 0o600, WhatOf::Memory),
    of("mountinfo", 0o444, files::mountinfo).made(Manner::Mounts),
    of("mounts", 0o444, files::mounts).made(Manner::Mounts),
    whole(of("mountstats", 0o400, task::mountstats), task::mountstats),
    other("net", 0o555, WhatOf::Fixed(NET, NET_NUMBERS)),
    other("ns", 0o511, WhatOf::Spaces),
    rows("numa_maps", numa::numa_maps),
    of("oom_adj", 0o644, files::oom_adj).piece(),
    of("oom_score", 0o444, files::oom_score),
    of("oom_score_adj", 0o644, files::oom_score_adj).made(Manner::Number),
    other("pagemap", 0o400, WhatOf::Pagemap),
    of("personality", 0o400, task::personality),
    of("projid_map", 0o644, login::id_map),
    other("root", 0o777, WhatOf::Link(files::root, LinkTo::Root)),
    of("sched", 0o644, sched::sched),
    of("schedstat", 0o444, sched::schedstat_of),
    of("sessionid", 0o444, login::sessionid).piece(),
    of("setgroups", 0o644, login::setgroups),
    rows("smaps", smaps::smaps),
    inner("smaps_rollup", 0o444, smaps::rollup),
    of("stat", 0o444, status::stat),
    of("statm", 0o444, status::statm),
    of("status", 0o444, status::status),
    of("syscall", 0o400, task::syscall),
    other("task", 0o555, WhatOf::Tasks),
    whole(of("timers", 0o444, task::timers), task::timers),
    whole(of("timerslack_ns", 0o666, files::timerslack), files::timerslack),
    of("uid_map", 0o644, login::id_map),
    of("wchan", 0o444, files::wchan),
];

/// For each letter where the first name with it or a later one is.
static LETTERS: [u8; 26] = {
    let (mut letters, mut at, mut letter) = ([0; 26], 0, 0);
    while letter < letters.len() {
        while at < PROCESS.len() && PROCESS[at].name.as_bytes()[0] < b'a' + letter as u8 {
            at += 1;
        }
        letters[letter] = at as u8;
        letter += 1;
    }
    letters
};

/// The entries from the first letter of `name` on, and how many come before.
pub fn from_letter(name: &[u8]) -> Option<(usize, &'static [Of])> {
    let before = usize::from(*LETTERS.get(usize::from(name.first()?.wrapping_sub(b'a')))?);
    Some((before, PROCESS.get(before..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_from_its_letter() {
        assert!(PROCESS.is_sorted_by_key(|entry| entry.name.as_bytes()[0]));
        for (at, entry) in PROCESS.iter().enumerate() {
            let (before, entries) = from_letter(entry.name.as_bytes()).unwrap();
            assert_eq!(entries[at - before].name, entry.name);
        }
        assert!(from_letter(b"").is_none() && from_letter(b"1").is_none() && from_letter(b"Z").is_none());
        assert!(from_letter(b"zebra").unwrap().1.is_empty());
    }
}
