//! What a thread refers to and exchanges by itself: its descriptors, its root and working directory, its space, its credentials.
//!
//! The running thread looks at them without a lock and without counting (`sync::Private`), so threads that have one file table or space
//! write no common line. To its callers this is safe, since no exchange frees what they may have been lent:
//!
//! | reference   | exchanged by | what was lent before                                                                          |
//! |-------------|--------------|-----------------------------------------------------------------------------------------------|
//! | credentials | set*id       | nothing leaves this file: ids are copied, the whole is counted                                |
//! | files, space | exec        | stays: the old ones are kept until no code is left that was lent them (`before_user_mode`)     |
//! | files, fs   | unshare, setns | stays likewise                                                                                 |
//! | files, fs, space | exit    | is not used any more: `give_up` does not return, and goes on in a function that was lent nothing |
//!
//! A `Current` is not kept: nothing but the running code's stack has one.

use super::capabilities::{Capability, Sets};
use super::credentials::{Credentials, Ids};
use super::{Current, Process, Session, Thread, Threads};
use crate::arch::UserRegs;
use crate::errno::{Errno, Result};
use crate::fs::{File, FileTable, FsContext, Shown};
use crate::lock_order as level;
use crate::memory::Space;
use crate::sched::{self, Work};
use alloc::sync::Arc;
use core::sync::atomic::{Ordering::Acquire, fence};
use sync::rcu::{Lent, Listed, Place, RcuArc};
use sync::{Private, SpinLock, lock_class, rcu};

lock_class! {
    static REFERENCES: LockClass = ("thread's references", level::ThreadReference);
    static REPLACED: LockClass = ("references that exec replaced", level::ThreadReference);
}

/// Work flag: an exec has replaced what the thread referred to.
const HAS_REPLACED: u32 = Work::PROCESS << 3;

/// The references of a thread.
pub(super) struct References {
    files: Private<FileTable, level::ThreadReference>,
    fs: Private<FsContext, level::ThreadReference>,
    space: Private<Space, level::ThreadReference>,
    /// Others look at them under RCU.
    credentials: RcuArc<Credentials>,
    replaced: SpinLock<Replaced, level::ThreadReference>,
}

/// What the thread referred to before an exec, or an unshare.
#[derive(Default)]
struct Replaced {
    files: Option<Arc<FileTable>>,
    fs: Option<Arc<FsContext>>,
    space: Option<Arc<Space>>,
}

/// What a thread that ends referred to.
pub(super) struct GivenUp {
    pub files: Option<Arc<FileTable>>,
    pub fs: Option<Arc<FsContext>>,
    pub space: Option<Arc<Space>>,
}

impl References {
    pub fn new(
        files: Arc<FileTable>,
        fs: Arc<FsContext>,
        space: Arc<Space>,
        credentials: Arc<Credentials>,
    ) -> Self {
        Self {
            files: Private::new(files, &REFERENCES),
            fs: Private::new(fs, &REFERENCES),
            space: Private::new(space, &REFERENCES),
            credentials: RcuArc::new(Some(credentials)),
            replaced: SpinLock::new(Replaced { files: None, fs: None, space: None }, &REPLACED),
        }
    }
}

/// Takes `thread`, which runs or was never started, off the threads of its process.
pub(super) fn take_off(threads: &Threads, thread: &Arc<Thread>) {
    let taken = threads.lock().remove(thread);
    if let Some(taken) = taken {
        // SAFETY: its task has a reference, and is itself dropped a grace period after it has run for the last time, or was given up.
        unsafe { taken.drop_now() };
    }
}

/// Where a thread stands.
pub enum Standing {
    /// It runs, or is about to.
    Runs,
    /// It sleeps, or is the one that asks, with these registers of its program.
    Sleeps(UserRegs),
    /// It has exited.
    Gone,
}

/// For other threads; None once the thread has exited.
impl Thread {
    pub fn standing(&self) -> Standing {
        let threads = self.process.threads.lock();
        if !threads.has(self) {
            return Standing::Gone;
        }
        // SAFETY: a thread's task; it takes the thread off that list, under its lock, before it comes to its end.
        let regs = self.look_at_task(|task| unsafe { task.user_regs() });
        // One without a task has not begun.
        regs.flatten().map_or(Standing::Runs, Standing::Sleeps)
    }

    /// What `f` makes of its descriptors. The caller may sleep: should the thread exit meanwhile, they are closed here.
    pub fn with_files<R>(&self, f: impl FnOnce(Shown<'_>) -> R) -> Option<R> {
        let files = self.references.files.shared()?;
        let result = f(files.show());
        FileTable::give_up(files);
        Some(result)
    }

    /// The same, where `f` is short and takes no lock: nothing is counted, and nothing closed here.
    pub fn look_at_files<R>(&self, f: impl FnOnce(Shown<'_>) -> R) -> Option<R> {
        self.references.files.look_locked(|files| f(files.show()))
    }

    /// What `f`, which is short and takes no lock, says of its root, working directory and umask, which are not counted for it.
    pub fn look_at_fs<R>(&self, f: impl FnOnce(&FsContext) -> R) -> Option<R> {
        self.references.fs.look_locked(f)
    }

    /// Its root, working directory and umask.
    pub fn fs_of(&self) -> Option<Arc<FsContext>> {
        self.references.fs.shared()
    }

    /// Its space.
    pub(crate) fn space_of(&self) -> Option<Arc<Space>> {
        self.references.space.shared()
    }

    /// Where its space lies, which tells spaces apart.
    pub(super) fn space_place(&self) -> Option<usize> {
        self.references.space.look_locked(|space| core::ptr::from_ref(space).addr())
    }

    pub fn credentials_of(&self) -> Option<Arc<Credentials>> {
        self.references.credentials.get(&rcu::read())
    }

    /// What `f` says of its credentials, which are not counted for it. `f` does not sleep.
    #[inline]
    pub fn look_at_credentials<R>(&self, f: impl FnOnce(&Credentials) -> R) -> Option<R> {
        self.references.credentials.load(&rcu::read()).map(f)
    }
}

// SAFETY: a field of the thread, which nobody else gives. Its maker puts a thread on the list of its process, which lies in an `Arc`.
unsafe impl Listed for Thread {
    fn place(&self) -> &Place<Self> {
        &self.place
    }
}

// SAFETY of the looks below: a `Current` is the running thread, which owns its references, and what they lend outlives whoever is lent it,
// as the head of the file says.
impl Current {
    pub fn files(&self) -> &FileTable {
        // SAFETY: as above.
        unsafe { self.references.files.look() }.unwrap_or_else(|| given_up())
    }

    /// The file of a descriptor, for the length of a call. It is counted only where others have the table too, and so may close the descriptor.
    ///
    /// # Errors
    /// EBADF.
    #[inline]
    pub fn file(&self, fd: i32) -> Result<Lent<File>> {
        self.find_file(fd).ok_or(Errno::EBADF)
    }

    fn find_file(&self, fd: i32) -> Option<Lent<File>> {
        let references = &self.references.files;
        // SAFETY: as above.
        let (alone, files) = unsafe { (references.references() == 1, references.look()?) };
        // What others who had the table did to it is seen.
        fence(Acquire);
        let read = sync::rcu::read();
        if !alone {
            return self.count_file(fd);
        }
        match files.own_place(fd, &read) {
            // SAFETY: this thread's reference to the table is the only one, and no other thread makes one by which it could change the table: others
            // are shown it (`with_files`), and children share it by `share_files`, which is called by this thread and while nothing is lent. Where
            // the table goes over to another image, that holds the files too. What the table closes is settled with its lender. The table is kept
            // until `before_user_mode`, as the head of the file says.
            Some(place) => unsafe { Lent::lend(place, files.lender(), &read) },
            None => self.count_file(fd),
        }
    }

    #[cold]
    fn count_file(&self, fd: i32) -> Option<Lent<File>> {
        self.files().get(fd).ok().map(Lent::counted)
    }

    /// A counted reference to its descriptors, for a child that shares them.
    pub(super) fn share_files(&self) -> Arc<FileTable> {
        assert!(!self.files().lender().is_lending(), "a table that lends is shared");
        // SAFETY: as above.
        unsafe { self.references.files.count() }.unwrap_or_else(|| given_up())
    }

    pub fn fs(&self) -> &FsContext {
        // SAFETY: as above.
        unsafe { self.references.fs.look() }.unwrap_or_else(|| given_up())
    }

    /// How many references to them are counted.
    pub(super) fn fs_references(&self) -> usize {
        // SAFETY: as above.
        unsafe { self.references.fs.references() }
    }

    /// A counted reference to its root and working directory, for a child that shares them.
    pub(super) fn share_fs(&self) -> Arc<FsContext> {
        // SAFETY: as above.
        unsafe { self.references.fs.count() }.unwrap_or_else(|| given_up())
    }

    pub fn space(&self) -> &Space {
        self.space_if_any().unwrap_or_else(|| given_up())
    }

    /// Its space; None while it exits.
    #[inline]
    pub(super) fn space_if_any(&self) -> Option<&Space> {
        // SAFETY: as above.
        unsafe { self.references.space.look() }
    }

    /// A counted reference to its space, for a child that shares it.
    pub(super) fn share_space(&self) -> Arc<Space> {
        // SAFETY: as above.
        unsafe { self.references.space.count() }.unwrap_or_else(|| given_up())
    }

    /// How many references to its space are counted.
    pub(super) fn space_references(&self) -> usize {
        // SAFETY: as above.
        unsafe { self.references.space.references() }
    }

    /// Has another process the same memory? One that looks into it just now counts as well.
    pub fn shares_space(&self) -> bool {
        // The thread's reference, its task's and its process's.
        self.space_references() > 3
    }

    /// Puts `space` in place of its own. The old one is kept until `before_user_mode`.
    pub(super) fn replace_space(&self, space: Arc<Space>) {
        // SAFETY: as above; what is returned is kept until nobody has a look at it.
        let old = unsafe { self.references.space.replace(Some(space)) };
        let before = core::mem::replace(&mut self.references.replaced.lock().space, old);
        note_replaced(before);
    }

    /// How many references to its descriptors are counted.
    pub(super) fn file_table_references(&self) -> usize {
        // SAFETY: as above.
        unsafe { self.references.files.references() }
    }

    /// Descriptors that are shared with other processes (CLONE_FILES) stay theirs: the thread gets a table of its own.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn unshare_files(&self) -> Result {
        // A thread whose end is not yet over counts as well; then the table is copied in vain.
        if self.file_table_references() > 1 {
            self.replace_files(self.files().try_clone()?);
        }
        Ok(())
    }

    /// Puts `files` in place of its own descriptors. The old ones are kept until `before_user_mode`.
    pub(super) fn replace_files(&self, files: Arc<FileTable>) {
        // SAFETY: as above; what is returned is kept until nobody has a look at it.
        let old = unsafe { self.references.files.replace(Some(files)) };
        let before = core::mem::replace(&mut self.references.replaced.lock().files, old);
        note_replaced(before);
    }

    /// Root, working directory and umask that are shared with other threads (CLONE_FS) stay theirs: the thread gets its own.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn unshare_fs(&self) -> Result {
        if self.fs_references() > 1 {
            self.replace_fs(self.fs().try_clone()?);
        }
        Ok(())
    }

    /// Puts `fs` in place of its root, working directory, umask and namespace of mounts; once in a call. The old ones are kept until `before_user_mode`.
    pub fn replace_fs(&self, fs: Arc<FsContext>) {
        // SAFETY: as above; what is returned is kept until nobody has a look at it.
        let old = unsafe { self.references.fs.replace(Some(fs)) };
        let before = core::mem::replace(&mut self.references.replaced.lock().fs, old);
        note_replaced(before);
    }

    /// Its user and group ids.
    #[inline]
    pub fn ids(&self) -> Ids {
        self.with_credentials(|credentials| credentials.ids)
    }

    /// Its user and group ids, and the capabilities that it has in effect.
    #[inline]
    pub fn ids_in_effect(&self) -> (Ids, Capability) {
        self.with_credentials(|credentials| (credentials.ids, credentials.sets.effective))
    }

    /// Has it all of `what` in effect?
    #[inline]
    pub fn capable(&self, what: Capability) -> bool {
        self.with_credentials(|credentials| credentials.capable(what))
    }

    /// Its capabilities.
    pub fn capabilities(&self) -> Sets {
        self.with_credentials(|credentials| credentials.sets)
    }

    /// Is `gid` among its supplementary groups?
    pub fn has_group(&self, gid: u32) -> bool {
        self.with_credentials(|credentials| credentials.groups.binary_search(&gid).is_ok())
    }

    /// A counted reference to its credentials.
    pub fn credentials(&self) -> Arc<Credentials> {
        self.references.credentials.get(&rcu::read()).unwrap_or_else(|| given_up())
    }

    /// Credentials for a child: the same, in memory of its own.
    pub(super) fn copy_credentials(&self) -> Result<Arc<Credentials>> {
        self.with_credentials(Credentials::try_clone)
    }

    pub fn set_credentials(&self, to: Arc<Credentials>) {
        // Of looks without a read section none is alive: `with_credentials` is private, and no function given to it comes here.
        self.references.credentials.swap(Some(to));
    }

    /// `look` does not exchange the credentials.
    #[inline(always)]
    fn with_credentials<R>(&self, look: impl FnOnce(&Credentials) -> R) -> R {
        // SAFETY: as above. The look ends here.
        look(unsafe { self.references.credentials.look() }.unwrap_or_else(|| given_up()))
    }

    /// The thread ends: it refers to nothing but its credentials any more, and goes on in `then` with `status`.
    pub(super) fn give_up(self, status: i32, then: fn(GivenUp, i32) -> !) -> ! {
        let references = &self.references;
        // SAFETY: as above. Whoever was lent something is a caller of this function, which does not return, and `then` was lent nothing.
        let given_up = unsafe {
            GivenUp {
                files: references.files.replace(None),
                fs: references.fs.replace(None),
                space: references.space.replace(None),
            }
        };
        then(given_up, status)
    }
}

/// An exec has replaced a reference. That one replaced `before` has not come to `before_user_mode` does not happen; if it did, a look at it
/// might be alive, so it is leaked.
fn note_replaced<T>(before: Option<Arc<T>>) {
    debug_assert!(before.is_none());
    core::mem::forget(before);
    sched::current().work.set(HAS_REPLACED);
}

#[cold]
fn given_up() -> ! {
    panic!("a thread that ends has used what it had given up");
}

/// Threads of `process` that begin from now on have the session's share of the CPUs. The process has just become the session's leader.
pub(super) fn share_with(process: &Process, session: &Session) {
    // SAFETY: the session keeps the group as long as it has members, and for a grace period more (`Session::drop`). A process with several threads keeps the
    // session that it leaves until all have left that's group (`session::create`).
    unsafe { process.sched.set(session.sched()) };
}

/// Lets go of what the running thread has exchanged since it entered the kernel. Says whether there was anything. May sleep.
///
/// # Safety
/// The thread is on its way to user mode: no code goes on that it ran in the kernel before.
#[inline]
pub unsafe fn before_user_mode() -> bool {
    let has_replaced = sched::current().work.any(HAS_REPLACED);
    if has_replaced {
        // SAFETY: as the caller says.
        unsafe { drop_replaced() };
    }
    has_replaced
}

/// # Safety
/// As `before_user_mode`.
#[cold]
unsafe fn drop_replaced() {
    sched::current().work.clear(HAS_REPLACED);
    let Replaced { files, fs, space } = core::mem::take(&mut *super::current().references.replaced.lock());
    drop(fs);
    files.into_iter().for_each(FileTable::give_up);
    space.into_iter().for_each(Space::let_go);
}
