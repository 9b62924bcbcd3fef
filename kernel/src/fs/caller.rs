//! What files ask of the process that calls, in one place: the border to `process`.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::{RLIMIT_NOFILE, SI_USER, SIGPIPE};
use sync::rcu::Lent;

use super::anon::inotify::Inotify;
use super::anon::signalfd::Listeners;
use super::file::mapped;
use super::tty::Tty;
use super::vfs::dentry::Dentry;
use super::vfs::inode::{Inode, Kind};
use super::vfs::mount::{Mount, MountRef};
use super::vfs::notify::{Instance, Late};
use super::vfs::superblock::SuperBlock;
use super::{File, FileTable, FsContext};
use crate::errno::Result;
use crate::process::signal::{self, Info};
use crate::process::{self, Current, session as sessions};

pub use crate::process::capabilities::SecureBits;
pub use crate::process::signal::io::{Band, Owner, OwnerKind};
pub use crate::process::{Capability, Credentials, Current as Caller, file_size_limit, signal_file_size};

/// The running thread.
pub fn current() -> Caller {
    process::current()
}

pub fn pid() -> u32 {
    process::current_pid()
}

pub fn tid() -> u32 {
    process::current().tid()
}

/// So many bytes came from a disk for the running thread, or went to one (/proc/PID/io).
pub fn note_disk(written: bool, bytes: u64) {
    process::io::note_disk(written, bytes);
}

/// Has the running thread all of `what` in effect?
pub fn capable(what: Capability) -> bool {
    current().capable(what)
}

/// May it have more of the machine than others (CAP_SYS_RESOURCE)?
pub fn may_use_resources() -> bool {
    capable(Capability::SYS_RESOURCE)
}

/// Whose a socket is, as the other side is told.
#[derive(Clone)]
pub struct Identity {
    pub pid: u32,
    /// When that process began: the number may be another's later.
    pub started: u64,
    pub credentials: Arc<Credentials>,
}

/// The running thread's.
pub fn identity() -> Identity {
    let thread = current();
    Identity { pid: pid(), started: thread.process.started, credentials: thread.credentials() }
}

/// The process and real ids that go with what the running thread sends.
pub fn sender() -> (u32, u32, u32) {
    let ids = current().ids();
    (pid(), ids.uid, ids.gid)
}

/// The running thread's real user.
pub fn uid() -> u32 {
    current().ids().uid
}

/// Are names to be asked for, whatever is known of them? See `syscall::again`.
#[inline]
pub fn walks_anew() -> bool {
    process::current_if_any().is_some_and(|thread| thread.walks_anew.load(Relaxed) != 0)
}

/// Does a signal wait for the running thread, so that a long call is to end?
pub fn is_interrupted() -> bool {
    process::signal_pending()
}

/// From now on the running thread's descriptors are its own.
///
/// # Errors
/// ENOMEM.
pub fn unshare_files() -> Result {
    current().unshare_files()
}

/// The running thread's descriptors, for the length of a call.
pub struct Files(Current);

impl Deref for Files {
    type Target = FileTable;
    fn deref(&self) -> &FileTable {
        self.0.files()
    }
}

pub fn files() -> Files {
    Files(current())
}

/// The file of one of the running thread's descriptors, for the length of a call.
///
/// # Errors
/// EBADF.
#[inline]
pub fn file(fd: i32) -> Result<Lent<File>> {
    current().file(fd)
}

/// The running thread's root, working directory and umask, for the length of a call.
pub struct Context(Current);

impl Deref for Context {
    type Target = FsContext;
    fn deref(&self) -> &FsContext {
        self.0.fs()
    }
}

pub fn context() -> Context {
    Context(current())
}

/// RLIMIT_NOFILE.
pub fn descriptor_limit() -> usize {
    usize::try_from(process::limit_now(RLIMIT_NOFILE)).unwrap_or(usize::MAX)
}

/// The running thread wrote to a pipe that nobody reads.
pub fn signal_pipe() {
    let _ = signal::send::queue_own(&current(), Info::user(SIGPIPE, SI_USER as i32), false);
}

/// `mask` holds while the call waits (ppoll, pselect6, epoll_pwait). If a signal ends it, delivery puts the old mask back.
pub fn set_temporary_mask(mask: u64) {
    let thread = current();
    let old = thread.blocked.get();
    thread.saved_mask.set(old);
    signal::deliver::set_blocked(&thread, mask);
}

/// The wait is over and no signal ended it.
pub fn end_temporary_mask() {
    let thread = current();
    if let Some(mask) = thread.saved_mask.take() {
        signal::deliver::set_blocked(&thread, mask);
    }
}

pub fn session() -> u32 {
    current().process.session_id()
}

pub fn group() -> u32 {
    current().process.group()
}

pub fn is_session_leader() -> bool {
    let process = &current().process;
    process.session_id() == process.pid()
}

pub fn controlling_tty() -> Option<Arc<Tty>> {
    tty_of(&current().process)
}

/// The controlling terminal of a process.
pub fn tty_of(process: &process::Process) -> Option<Arc<Tty>> {
    if process.without_tty.load(Relaxed) {
        return None;
    }
    sessions::with(process, |session| session.tty()).flatten()
}

/// The running process does without its session's terminal from now on, and so do the children that it makes.
pub fn leave_tty() {
    current().process.without_tty.store(true, Relaxed);
}

/// The session whose terminal may be the running process's; 0: it does without.
pub fn tty_session() -> u32 {
    let process = &current().process;
    if process.without_tty.load(Relaxed) { 0 } else { process.session_id() }
}

pub fn set_controlling_tty(tty: Option<Arc<Tty>>) {
    if let Some(session) = current().process.session() {
        drop(session.set_tty(tty));
    }
}

/// Another session loses its terminal.
pub fn drop_session_tty(id: u32) {
    if let Some(session) = sessions::find(id) {
        drop(session.set_tty(None));
    }
}

/// Has the session of this number a process group of that one?
pub fn is_group_of(group: u32, session: u32) -> bool {
    process::ids::look_at_group(group, |group| group.session.id()) == Some(session)
}

/// To all of a process group; 0 is none. No spinning lock is held.
pub fn signal_group(group: u32, number: u32) {
    if group != 0 {
        signal::send::to_group(group, Info::kernel(number));
    }
}

/// As `signal_group`, for the lower half of an interrupt.
pub fn signal_group_soon(group: u32, number: u32) {
    if group != 0 {
        signal::send::to_group_soon(group, number);
    }
}

/// To the process with this number, if there is one.
pub fn signal_process(pid: u32, number: u32) {
    if let Some(process) = process::find_process(pid) {
        signal::send::to_process(&process, Info::kernel(number));
    }
}

/// What a read of a signal file gives of one signal (struct signalfd_siginfo).
pub type SignalRecord = [u8; 128];

/// The signals that can be blocked, and so be waited for.
pub const BLOCKABLE: u64 = !signal::UNBLOCKABLE;

/// Takes a signal of `set` that waits for the running thread or its process.
pub fn take_signal(set: u64) -> Option<SignalRecord> {
    signal::take_waiting(&current(), set).map(Info::to_signalfd)
}

/// The signals that wait for the running thread or its process.
pub fn pending_signals() -> u64 {
    let thread = current();
    thread.pending_signals() | thread.process.signals.pending()
}

/// The signal files that the running process has looked at.
pub fn with_signal_listeners<R>(f: impl FnOnce(&Listeners) -> R) -> R {
    f(&current().process.signals.listeners)
}

/// Would the signal have no effect on the running thread: ignored or blocked?
#[expect(clippy::arithmetic_side_effects, reason = "signals are numbered from 1 to 64")]
pub fn is_ignored(number: u32) -> bool {
    let thread = current();
    let blocked = thread.blocked.get() >> (number - 1) & 1 != 0;
    blocked || thread.process.signals.action(number).is_some_and(|a| a.is_ignore())
}

/// Is the running thread's group orphaned?
pub fn is_orphaned() -> bool {
    sessions::is_orphaned(group(), None)
}

pub fn session_of_group(group: u32) -> Option<u32> {
    sessions::of_group(group)
}

/// Does any process run this file as its program, or is about to? Gives way: no spinning lock is held.
pub fn is_executed(inode: &Inode) -> bool {
    let mut found = false;
    process::walk_processes(|p| {
        found = p.executes(|file| ptr::eq(file.inode(), inode));
        !found
    });
    found
}

/// Does any process map shared memory of `object` that it may write, or could be allowed to by mprotect? May sleep.
pub fn is_mapped_writable(object: &vm::Object) -> bool {
    let mut found = false;
    process::walk_processes(|p| {
        if let Some(space) = p.space() {
            space.for_each_mapping(&mut |mapping| {
                let same = mapping.object.is_some_and(|other| ptr::eq(other, object));
                found |= same && mapping.shared && mapping.may_write;
            });
        }
        // It gives way between mappings.
        !found
    });
    found
}

/// Does any process map memory of `object`, but the running one? May sleep.
pub fn is_mapped_by_others(object: &vm::Object) -> bool {
    let own = current().process.clone();
    let mut found = false;
    process::walk_processes(|p| {
        if let Some(space) = p.space().filter(|_| !Arc::ptr_eq(p, &own)) {
            space.for_each_mapping(&mut |mapping| {
                found |= mapping.object.is_some_and(|other| ptr::eq(other, object));
            });
        }
        // It gives way between mappings.
        !found
    });
    found
}

/// Does any process have open what this name leads to, run it, or stand in it? What is in messages alone is not found. May sleep.
pub fn uses_dentry(dentry: &Dentry) -> bool {
    let mut used = false;
    process::walk_processes(|p| {
        let is = |path: &super::Path| ptr::eq(&*path.dentry, dentry);
        if dentry.inode.is_dir() {
            p.walk_threads(|thread| {
                if let Some(context) = thread.fs_of() {
                    used |= context.cwd().is_ok_and(|p| is(&p)) || context.root().is_ok_and(|p| is(&p));
                }
            });
        } else {
            used |= p.executes(|file| file.path().is_some_and(is));
        }
        p.walk_files(|file| used |= file.path().is_some_and(is) && !file.is_closed());
        !used
    });
    used
}

/// Gives `note` to what the running thread tells of files when it goes back to its program, or ends, by `keep`. A thread of the kernel's does not, nor one
/// that has ended: the note comes back.
pub fn tell_on_return<T>(note: T, keep: impl FnOnce(&Late, T) -> Option<T>) -> Option<T> {
    let Some(thread) = process::current_if_any() else { return Some(note) };
    let left = keep(&thread.late, note);
    thread.task().work.set(process::TELLS);
    left
}

/// Shows `f` each inotify instance that a process has open, perhaps more than once. May sleep.
pub fn for_each_inotify(mut f: impl FnMut(&Instance)) {
    process::walk_processes(|p| {
        p.walk_files(|file| {
            if let Some(inotify) = file.downcast::<Inotify>() {
                f(&inotify.instance);
            }
        });
        true
    });
}

/// Whoever stands at `from`, or has it for his root, stands at `to` from now on, or has that. Of one that forks just now the child may be left out, as on Linux.
///
/// # Errors
/// ENOMEM: some are left as they were.
pub fn replace_root(from: &super::Path, to: &super::Path) -> Result {
    let mut outcome = Ok(());
    process::walk_processes(|p| {
        p.walk_threads(|thread| {
            if let Some(context) = thread.fs_of() {
                outcome = outcome.and(context.replace(from, to));
            }
        });
        true
    });
    outcome
}

/// Does any process have something open on the mount, or stand in it?
pub fn uses_mount(mount: &Mount) -> bool {
    let mut busy = false;
    process::walk_processes(|p| {
        let inside = |path: &super::Path| ptr::eq(&*path.mount, mount);
        p.walk_threads(|thread| {
            if let Some(context) = thread.fs_of() {
                busy |= context.cwd().is_ok_and(|p| inside(&p)) || context.root().is_ok_and(|p| inside(&p));
            }
        });
        p.walk_files(|file| busy |= file.path().is_some_and(inside));
        !busy
    });
    busy
}

/// Does any process have a file of one of these mounts open for writing, or one of their file systems mapped so that it may write it? A mapping does not know
/// the mount that it was made by. May sleep.
pub fn writes_to_mounts(mounts: &[MountRef]) -> bool {
    writes_where(
        |file, mount| is_writer(file) && mounts.iter().any(|one| ptr::eq::<Mount>(&**one, mount)),
        |device| mounts.iter().any(|mount| mount.superblock.device == device),
    )
}

/// As `writes_to_mounts`, by whatever mount of the file system; or has a file of it open that has lost its last name, and is yet to be removed. May sleep.
pub fn writes_to_superblock(superblock: &Arc<SuperBlock>) -> bool {
    writes_where(
        |file, mount| {
            let counts = is_writer(file) || file.inode().links() == 0;
            counts && Arc::ptr_eq(&mount.superblock, superblock)
        },
        |device| device == superblock.device,
    )
}

fn is_writer(file: &File) -> bool {
    file.flags().writes() && matches!(file.inode().kind, Kind::Regular | Kind::Directory)
}

fn writes_where(counts: impl Fn(&File, &Mount) -> bool, is_device: impl Fn(u64) -> bool) -> bool {
    let writes = |file: &File| file.path().is_some_and(|path| counts(file, &path.mount));
    let mut found = false;
    process::walk_processes(|p| {
        p.walk_files(|file| found = found || writes(file) && !file.is_closed());
        if let Some(space) = p.space().filter(|_| !found) {
            space.for_each_mapping(&mut |mapping| {
                let written = mapping.object.filter(|_| mapping.shared && mapping.may_write && !found);
                if let Some(device) = written.and_then(mapped::find).map(|label| label.device) {
                    found = is_device(device);
                }
            });
        }
        !found
    });
    found
}
