//! Terminals with somebody at both ends: a pseudo-terminal's master types, and tasks read.

use super::open::Open;
use super::pty::open_master;
use super::termios::{ECHO, ICANON, ISIG, OPOST, VMIN, VTIME};
use super::*;
use crate::errno::{EAGAIN, EIO, ENXIO, ERESTARTSYS};
use crate::fs::anon;
use crate::fs::file::buffer::{Input as WriteInput, Output};
use crate::fs::file::poll::{self, Poller};
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::fs::vfs::inode::Kind;
use crate::process;
use crate::testing::{Memory, fork, in_process, is_asleep, syscall, thread, until};
use linux_raw_sys::general as abi;
use std::vec;

const TIOCGPTN: u32 = 0x8004_5430;
const TIOCSPTLCK: u32 = 0x4004_5431;
const TCSETS: u32 = 0x5402;
const TCGETS: u32 = 0x5401;
const TIOCSWINSZ: u32 = 0x5414;
const TIOCSTI: u32 = 0x5412;

/// A pseudo-terminal: its master, and the terminal, which becomes the caller's own.
fn terminal() -> (Arc<File>, Arc<File>) {
    let inode = anon::inode(Kind::Character, 0o600).unwrap();
    let flags = OpenFlags::READ_WRITE;
    let master = File::try_anonymous(inode.clone(), "ptmx", open_master().unwrap(), flags).unwrap();
    let word = Memory::of(&[0; 4]);
    master.ops().ioctl(&master, TIOCSPTLCK, word.address).unwrap();
    master.ops().ioctl(&master, TIOCGPTN, word.address).unwrap();
    let number = u32::from_ne_bytes(word.bytes(4).try_into().unwrap());
    let device = device_number::number(pty::MAJOR + u64::from(number / 256), u64::from(number % 256));
    let slave = pty::open_slave(device, flags).unwrap();
    let slave = File::try_anonymous(inode, "pts", slave, flags).unwrap();
    // As if descriptors referred to them: who sleeps keeps them open.
    [&master, &slave].iter().for_each(|file| file.add_open());
    (master, slave)
}

fn write(file: &File, bytes: &[u8]) -> Result<usize> {
    file.write(&mut WriteInput::kernel(bytes))
}

fn read(file: &File) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 4096];
    let n = file.read(&mut Output::kernel(&mut buffer))?;
    buffer.truncate(n);
    Ok(buffer)
}

fn tty(slave: &File) -> &Tty {
    &slave.downcast::<Open>().unwrap().tty
}

fn set_raw(slave: &File, least: u8, tenths: u8) {
    let mut settings = tty(slave).settings.lock();
    settings.local &= !(ICANON | ECHO | ISIG);
    settings.output &= !OPOST;
    settings.chars[VMIN] = least;
    settings.chars[VTIME] = tenths;
    drop(settings);
    tty(slave).input.lock().set_canonical(false);
}

#[test]
fn what_is_typed_is_echoed_and_read_as_a_line() {
    in_process(|| {
        let (master, slave) = terminal();
        let theirs = slave.clone();
        let reader = thread(move || read(&theirs));
        let tid = reader.tid;
        until(|| is_asleep(tid));
        write(&master, b"hi").unwrap();
        assert_eq!(read(&master), Ok(b"hi".to_vec()));
        assert!(is_asleep(tid), "half a line wakes nobody");
        write(&master, b"\r").unwrap();
        assert_eq!(reader.join(), Ok(b"hi\n".to_vec()));
        assert_eq!(read(&master), Ok(b"\r\n".to_vec()));
        write(&slave, b"out\n").unwrap();
        assert_eq!(read(&master), Ok(b"out\r\n".to_vec()));
    });
}

#[test]
fn a_raw_read_waits_for_as_many_bytes_as_vmin_says() {
    in_process(|| {
        let (master, slave) = terminal();
        set_raw(&slave, 3, 0);
        let theirs = slave.clone();
        let reader = thread(move || read(&theirs));
        let tid = reader.tid;
        write(&master, b"ab").unwrap();
        until(|| is_asleep(tid));
        assert_eq!(slave.poll(&mut Poller::Nobody) & poll::IN, 0);
        write(&master, b"cd").unwrap();
        assert_eq!(reader.join(), Ok(b"abcd".to_vec()));
        // Fewer are enough for who asks for fewer.
        write(&master, b"x").unwrap();
        assert_eq!(slave.read(&mut Output::kernel(&mut [0])), Ok(1));
    });
}

#[test]
fn a_raw_read_without_vmin_ends_at_once_or_after_vtime() {
    in_process(|| {
        let (master, slave) = terminal();
        set_raw(&slave, 0, 0);
        assert_eq!(read(&slave), Ok(Vec::new()));
        set_raw(&slave, 0, 1);
        let began = crate::arch::time::now();
        assert_eq!(read(&slave), Ok(Vec::new()));
        assert!(crate::arch::time::now() - began >= 100_000_000);
        write(&master, b"x").unwrap();
        assert_eq!(read(&slave), Ok(b"x".to_vec()));
    });
}

#[test]
fn with_both_the_clock_runs_between_bytes_and_not_before_the_first() {
    in_process(|| {
        let (master, slave) = terminal();
        set_raw(&slave, 5, 1);
        let theirs = slave.clone();
        let reader = thread(move || read(&theirs));
        let tid = reader.tid;
        let began = crate::arch::time::now();
        until(|| crate::arch::time::now() - began > 150_000_000);
        assert!(is_asleep(tid), "no byte, no clock");
        write(&master, b"ab").unwrap();
        assert_eq!(reader.join(), Ok(b"ab".to_vec()));
    });
}

#[test]
fn a_terminal_that_shall_not_wait_says_so() {
    in_process(|| {
        let (master, slave) = terminal();
        slave.set_flags(OpenFlags::NONBLOCK);
        assert_eq!(read(&slave), Err(EAGAIN));
        write(&master, b"half").unwrap();
        assert_eq!(read(&slave), Err(EAGAIN));
        set_raw(&slave, 9, 0);
        assert_eq!(read(&slave), Ok(b"half".to_vec()), "less than VMIN, but it is there");
    });
}

#[test]
fn settings_are_set_and_got_and_a_bad_address_is_a_fault() {
    in_process(|| {
        let (_master, slave) = terminal();
        let memory = Memory::new(64);
        slave.ops().ioctl(&slave, TCGETS, memory.address).unwrap();
        let mut bytes = memory.bytes(termios::SIZE);
        bytes[12] &= !(ICANON as u8);
        let changed = Memory::of(&bytes);
        slave.ops().ioctl(&slave, TCSETS, changed.address).unwrap();
        assert!(!tty(&slave).settings().local(ICANON));
        let bad = memory.end(termios::SIZE - 1);
        assert_eq!(slave.ops().ioctl(&slave, TCGETS, bad), Err(crate::errno::EFAULT));
        assert_eq!(slave.ops().ioctl(&slave, TCSETS, bad), Err(crate::errno::EFAULT));
        assert_eq!(slave.ops().ioctl(&slave, 0x5499, 0), Err(crate::errno::ENOTTY));
    });
}

#[test]
fn the_interrupt_character_ends_the_foreground_job() {
    in_process(|| {
        let (master, slave) = terminal();
        assert_eq!(tty(&slave).foreground(), process::current_process().group());
        let job = fork(move || {
            process::session::set_group(0, 0).unwrap();
            // As a shell gives its job the terminal.
            tty(&slave).foreground.store(process::current_pid(), SeqCst);
            assert_eq!(read(&slave), Err(ERESTARTSYS));
            // On its way back to the program the signal ends it.
            let _ = syscall(abi::__NR_getpid, &[]);
        });
        until(|| is_asleep(job.pid));
        write(&master, b"\x03").unwrap();
        assert_eq!(job.wait(), abi::SIGINT as i32);
    });
}

/// As if the number of a job that has ended had gone to it.
#[test]
fn a_group_of_another_session_is_not_told() {
    static DONE: AtomicBool = AtomicBool::new(false);
    in_process(|| {
        let (master, slave) = terminal();
        let other = fork(|| {
            process::session::create().unwrap();
            until(|| DONE.load(SeqCst));
            assert_eq!(process::current_process().signals.pending(), 0);
        });
        until(|| process::find_process(other.pid).is_some_and(|p| p.session_id() == other.pid));
        tty(&slave).foreground.store(other.pid, SeqCst);
        write(&master, b"\x03").unwrap();
        DONE.store(true, SeqCst);
        assert_eq!(other.wait(), 0);
    });
}

#[test]
fn a_background_job_that_reads_is_sent_sigttin() {
    in_process(|| {
        let (_master, slave) = terminal();
        let job = fork(move || {
            process::session::set_group(0, 0).unwrap();
            assert_eq!(read(&slave), Err(ERESTARTSYS));
            assert_ne!(process::current_process().signals.pending() & 1 << (abi::SIGTTIN - 1), 0);
        });
        assert_eq!(job.wait(), 0);
    });
}

#[test]
fn a_change_of_size_is_told_to_the_foreground_group() {
    in_process(|| {
        let (_master, slave) = terminal();
        let thread = process::current();
        thread.blocked.change(1 << (abi::SIGWINCH - 1));
        let size = Memory::of(&[24, 0, 80, 0, 0, 0, 0, 0]);
        let pending = || process::current_process().signals.pending() & 1 << (abi::SIGWINCH - 1) != 0;
        slave.ops().ioctl(&slave, TIOCSWINSZ, size.address).unwrap();
        assert!(pending());
        assert!(process::signal::take_waiting(&thread, u64::MAX).is_some());
        slave.ops().ioctl(&slave, TIOCSWINSZ, size.address).unwrap();
        assert!(!pending(), "the same size is no change");
    });
}

#[test]
fn only_the_superuser_types_for_others() {
    let user = process::Credentials {
        ids: process::credentials::Ids { uid: 5, euid: 5, ..Default::default() },
        ..Default::default()
    };
    crate::testing::in_process_of(user, || {
        let (_master, slave) = terminal();
        let byte = Memory::of(b"x");
        assert_eq!(slave.ops().ioctl(&slave, TIOCSTI, byte.address), Err(crate::errno::EPERM));
    });
}

#[test]
fn a_master_that_closes_hangs_the_terminal_up() {
    in_process(|| {
        let (master, slave) = terminal();
        // SIGHUP would end the test.
        let ignore = process::signal::Action { handler: 1, ..Default::default() };
        process::current().process.signals.set_action(abi::SIGHUP, ignore).unwrap();
        let theirs = slave.clone();
        let reader = thread(move || read(&theirs));
        let tid = reader.tid;
        until(|| is_asleep(tid));
        master.ops().release(&master);
        assert_eq!(reader.join(), Ok(Vec::new()), "end of file");
        assert_eq!(write(&slave, b"x"), Err(EIO));
        assert_eq!(slave.poll(&mut Poller::Nobody) & poll::HUP, poll::HUP);
        assert!(crate::fs::caller::controlling_tty().is_none());
    });
}

#[test]
fn a_terminal_that_nobody_has_open_ends_its_masters_reads() {
    in_process(|| {
        let (master, slave) = terminal();
        write(&slave, b"last").unwrap();
        slave.ops().release(&slave);
        assert_eq!(read(&master), Ok(b"last".to_vec()));
        assert_eq!(read(&master), Err(EIO));
        assert_eq!(write(&master, b"x"), Err(EIO));
        assert_eq!(master.poll(&mut Poller::Nobody) & poll::HUP, poll::HUP);
    });
}

#[test]
fn stopped_output_goes_on_when_it_is_let() {
    in_process(|| {
        let (master, slave) = terminal();
        write(&master, b"\x13").unwrap();
        let theirs = slave.clone();
        let writer = thread(move || write(&theirs, b"text"));
        let tid = writer.tid;
        until(|| is_asleep(tid));
        assert_eq!(slave.poll(&mut Poller::Nobody) & poll::OUT, 0);
        write(&master, b"\x11").unwrap();
        assert_eq!(writer.join(), Ok(4));
        assert_eq!(read(&master), Ok(b"text".to_vec()));
    });
}
