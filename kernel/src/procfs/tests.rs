//! The text of procfs's files for a process whose state is known, in the formats of proc(5).

use crate::errno::ENOENT;
use crate::process::{self, signal::Action};
use crate::testing::{Memory, fork, get_file, in_process, mount_at, put_file, syscall, thread, until};
use linux_raw_sys::general as abi;
use std::format;
use std::string::String;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::vec::Vec;

fn text(path: &str) -> String {
    String::from_utf8(get_file(path).unwrap()).unwrap()
}

fn fields(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The value of a line `Name:\tvalue` of status.
fn value<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    line.unwrap_or_else(|| panic!("no line {name}"))
}

fn ignore(signal: u32) {
    let action = Action { handler: 1, ..Action::default() };
    process::current().process.signals.set_action(signal, action).unwrap();
}

#[test]
fn stat_has_52_fields_and_the_name_stands_in_brackets() {
    in_process(|| {
        mount_at("proc", "/proc");
        process::current().set_comm(b"a) b (c");
        let pid = process::current_pid();
        let stat = text("/proc/self/stat");
        let rest = stat.strip_prefix(&format!("{pid} (a) b (c) ")).expect("pid and name");
        assert!(rest.ends_with('\n'));
        let fields = fields(rest);
        assert_eq!(fields.len(), 50);
        // State, parent, group, session, no terminal.
        assert_eq!(fields[..6], ["R", "1", &format!("{pid}"), &format!("{pid}"), "0", "-1"]);
        // Priority, nice, threads.
        assert_eq!(fields[15..18], ["20", "0", "1"]);
        assert!(fields[1..].iter().all(|field| field.parse::<i128>().is_ok()), "{rest}");
        assert_eq!(fields[35].parse(), Ok(abi::SIGCHLD));
        assert_eq!(text(&format!("/proc/{pid}/stat")).split(' ').count(), stat.split(' ').count());
    });
}

#[test]
fn stat_shows_signals_as_linux_has_them_in_decimal() {
    in_process(|| {
        mount_at("proc", "/proc");
        ignore(abi::SIGUSR1);
        let thread = process::current();
        process::signal::deliver::set_blocked(&thread, 1 << (abi::SIGHUP - 1));
        process::signal::send::kill(process::current_pid() as i32, abi::SIGHUP).unwrap();
        let stat = text("/proc/self/stat");
        let fields = fields(stat.rsplit(") ").next().unwrap());
        assert_eq!(fields[28..32], ["1", "1", "512", "0"], "pending, blocked, ignored, caught");
    });
}

#[test]
fn status_says_who_a_process_is() {
    let credentials = process::Credentials {
        ids: process::credentials::Ids {
            uid: 1,
            euid: 2,
            suid: 3,
            fsuid: 4,
            gid: 5,
            egid: 6,
            sgid: 7,
            fsgid: 8,
        },
        groups: std::vec![9, 10],
        ..process::Credentials::default()
    };
    in_process(move || {
        mount_at("proc", "/proc");
        process::current().set_credentials(credentials.try_clone().unwrap());
        ignore(abi::SIGUSR2);
        process::current().set_comm(b"a long name that is cut");
        let end = Arc::new(AtomicBool::new(false));
        let told = end.clone();
        let other = thread(move || until(|| told.load(SeqCst)));
        let status = text("/proc/self/status");
        let pid = format!("{}", process::current_pid());
        assert_eq!(value(&status, "Name"), "a long name tha");
        assert_eq!(value(&status, "Umask"), "0022");
        assert_eq!(value(&status, "State"), "R (running)");
        assert_eq!((value(&status, "Tgid"), value(&status, "Pid")), (&pid[..], &pid[..]));
        assert_eq!(value(&status, "PPid"), "1");
        assert_eq!(value(&status, "Uid"), "1\t2\t3\t4");
        assert_eq!(value(&status, "Gid"), "5\t6\t7\t8");
        assert_eq!(value(&status, "Groups"), "9 10 ");
        assert_eq!(value(&status, "Threads"), "2");
        assert_eq!(value(&status, "SigIgn"), "0000000000000800");
        assert_eq!(value(&status, "CapEff"), "0000000000000000", "it is not the superuser");
        end.store(true, SeqCst);
        other.join();
    });
}

#[test]
fn status_counts_memory_in_kib() {
    in_process(|| {
        mount_at("proc", "/proc");
        let kib = |name: &str| {
            let status = text("/proc/self/status");
            value(&status, name).trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap()
        };
        let (size, resident) = (kib("VmSize"), kib("VmRSS"));
        let memory = Memory::new(64 * 4096);
        crate::arch::user::copy_to_user(memory.address, &[1; 8 * 4096]).unwrap();
        // Some pages more hold the names that the calls are made with.
        assert!(kib("VmSize") >= size + 256, "{} after {size}", kib("VmSize"));
        assert!((resident + 32..resident + 64).contains(&kib("VmRSS")), "{} after {resident}", kib("VmRSS"));
        let statm = text("/proc/self/statm");
        assert_eq!(fields(&statm).len(), 7);
        assert!(fields(&statm)[0].parse::<usize>().unwrap() >= (size + 256) / 4);
    });
}

#[test]
fn maps_shows_each_mapping_with_its_rights() {
    in_process(|| {
        mount_at("proc", "/proc");
        put_file("/a file", &[1; 5000], 0o644);
        let path = Memory::of_str("/a file").address;
        let fd = syscall(abi::__NR_open, &[path, abi::O_RDONLY as usize]).unwrap();
        let (read, private) = (abi::PROT_READ as usize, abi::MAP_PRIVATE as usize);
        let at = syscall(abi::__NR_mmap, &[0, 4096, read, private, fd, 4096]).unwrap();
        let shared = (abi::MAP_SHARED | abi::MAP_ANONYMOUS) as usize;
        let both = (abi::PROT_READ | abi::PROT_WRITE) as usize;
        let anon = syscall(abi::__NR_mmap, &[0, 8192, both, shared, usize::MAX, 0]).unwrap();
        let maps = text("/proc/self/maps");
        let line = |start: usize| {
            let key = format!("{start:08x}-");
            maps.lines().find(|line| line.starts_with(&key)).unwrap_or_else(|| panic!("{key} of\n{maps}"))
        };
        let file = line(at);
        let parts = fields(file);
        assert_eq!(parts[..3], [&format!("{at:08x}-{:08x}", at + 4096)[..], "r--p", "00001000"]);
        assert_eq!(file.find("/a file"), Some(73), "names stand in one column");
        let parts = fields(line(anon));
        assert_eq!(parts[..3], [&format!("{anon:08x}-{:08x}", anon + 8192)[..], "rw-s", "00000000"]);
        let starts: Vec<_> =
            maps.lines().map(|l| usize::from_str_radix(l.split('-').next().unwrap(), 16).unwrap()).collect();
        assert!(starts.is_sorted());
    });
}

#[test]
fn mounts_shows_what_is_mounted_below_the_root_with_blanks_escaped() {
    in_process(|| {
        mount_at("proc", "/proc");
        mount_at("tmpfs", "/a b");
        let mounts = text("/proc/self/mounts");
        let lines: Vec<_> = mounts.lines().collect();
        assert_eq!(lines.len(), 2, "others' mounts are not seen:\n{mounts}");
        assert!(lines[0].starts_with("proc /proc proc rw"), "{mounts}");
        assert!(lines[1].starts_with("tmpfs /a\\040b tmpfs rw"), "{mounts}");
        assert!(lines.iter().all(|line| line.ends_with(" 0 0") && fields(line).len() == 6));
        let info = text("/proc/self/mountinfo");
        let parts: Vec<_> = info.lines().map(fields).collect();
        assert_eq!((parts[1][3], parts[1][4]), ("/", "/a\\040b"));
        assert_eq!(parts[1][7..9], ["tmpfs", "tmpfs"]);
    });
}

#[test]
fn a_zombie_shows_its_name_and_state() {
    in_process(|| {
        mount_at("proc", "/proc");
        let child = fork(|| process::current().set_comm(b"gone"));
        let pid = child.pid;
        until(|| process::find_process(pid).is_some_and(|process| process.is_zombie()));
        let stat = text(&format!("/proc/{pid}/stat"));
        assert!(stat.starts_with(&format!("{pid} (gone) Z {} ", process::current_pid())), "{stat}");
        assert_eq!(fields(&stat).len(), 52);
        assert_eq!(value(&text(&format!("/proc/{pid}/status")), "State"), "Z (zombie)");
        assert_eq!(text(&format!("/proc/{pid}/statm")), "0 0 0 0 0 0 0\n");
        assert_eq!(text(&format!("/proc/{pid}/comm")), "gone\n");
        child.wait();
        assert_eq!(get_file(&format!("/proc/{pid}/stat")).err(), Some(ENOENT));
    });
}

#[test]
fn a_stopped_process_says_so() {
    in_process(|| {
        mount_at("proc", "/proc");
        let child = fork(|| until(process::signal_pending));
        process::signal::send::kill(child.pid as i32, abi::SIGKILL).unwrap();
        let _ = child.wait();
        let child = fork(|| {
            process::signal::send::kill(process::current_pid() as i32, abi::SIGSTOP).unwrap();
            let _ = syscall(abi::__NR_getpid, &[]);
        });
        let path = format!("/proc/{}/status", child.pid);
        until(|| value(&text(&path), "State") == "T (stopped)");
        process::signal::send::kill(child.pid as i32, abi::SIGCONT).unwrap();
        assert_eq!(child.wait(), 0);
    });
}

#[test]
fn files_of_the_machine_have_their_columns() {
    in_process(|| {
        mount_at("proc", "/proc");
        // Tests of the balloon, which run beside this one, take memory away and give it back: a moment is looked for in which none does.
        let (managed, meminfo) = loop {
            let managed = vm::frame::managed_frames();
            let meminfo = text("/proc/meminfo");
            if managed == vm::frame::managed_frames() {
                break (managed, meminfo);
            }
        };
        let total = meminfo.lines().next().unwrap();
        assert_eq!(fields(total)[0], "MemTotal:");
        assert_eq!(fields(total)[1].parse(), Ok(managed * 4));
        assert!(meminfo.lines().all(|line| line.len() >= 27 && line.ends_with(" kB")));
        let uptime = text("/proc/uptime");
        assert_eq!(fields(&uptime).len(), 2);
        assert!(
            fields(&uptime).iter().all(|field| field.split('.').nth(1).is_some_and(|part| part.len() == 2))
        );
        let stat = text("/proc/stat");
        assert!(stat.lines().filter(|line| line.starts_with("cpu")).all(|line| fields(line).len() == 11));
        let loadavg = text("/proc/loadavg");
        assert_eq!(fields(&loadavg).len(), 5);
    });
}
