//! The order of the kernel's locks, on one page: a lock is taken only while all locks held stand further up in this list.
//!
//! Each level is a type that the locks of the level name (`SpinLock<T, level::Pipe>`), so no lock is without a place here. `sync::level`
//! says how the types prove an order (`lock_in`); where they do not, feature `lockdep` checks it at every lock (`make lockdep`).
//!
//! Three rules give the list its shape:
//! * Sleeping locks come before spinning ones: nobody sleeps under a spinning lock.
//! * Who calls another room holds its own locks: file systems come before vm, whose memory they use, and everybody who wakes others
//!   before the scheduler.
//! * Memory is allocated and freed under any lock but a run queue, so the allocator's locks come last.
//!
//! Two locks of one level are held at once only where `lock_nested_in` says so, with the rule for their order: directories (the upper one
//! first, else by address), page-table nodes (the upper one first), pipes (by address), futex buckets (by address; a bucket before its children).
//!
//! To add a lock: find what is held where it is taken and what is taken under it, and put a level between them.
//!
//! **Chains that types prove.** Whoever takes a later lock of these shows the guard of an earlier one:
//!
//! * rename → directory → another directory → the one that is replaced; directory → the one that is removed from it (`vfs`)
//! * devpts → directory (`tty::devpts`)
//! * file position → inode write, directory, text of a file of /proc (`file::Order`); inode write → what `set_attributes` takes
//! * epoll nesting → interests → ready; epoll nesting → nest
//! * terminal output → settings, echo, pseudo-terminal's output
//! * a process's children → parent, signals → actions; signals → threads → a thread's signals
//! * POSIX timer → timers of processor time
//! * wait queue, or two futex buckets → run queue; state of a futex that lends priority → a task's part in it
//!
//! ```
//! # use lock_order::*;
//! # use sync::{Mutex, level::Held};
//! # fn move_name(rename: &Mutex<(), Rename>, upper: &Mutex<u32, Directory>, lower: &Mutex<u32, Directory>) {
//! let mut clean = Held::clean();
//! let mut still = rename.lock_in(&mut clean);
//! let mut upper = upper.lock_in(still.held());
//! let (from, order) = upper.split();
//! let mut lower = lower.lock_nested_in(order); // below the first one
//! *lower += core::mem::take(from);
//! # }
//! ```
//!
//! The tree's shape is not locked under a directory:
//!
//! ```compile_fail,E0277
//! # use lock_order::*;
//! # use sync::{Mutex, level::Held};
//! # fn move_name(rename: &Mutex<(), Rename>, upper: &Mutex<u32, Directory>) {
//! let mut clean = Held::clean();
//! let mut upper = upper.lock_in(&mut clean);
//! let still = rename.lock_in(upper.held()); // `Directory: Before<Rename>` is not satisfied
//! # }
//! ```
//!
//! nor a second directory as if there were no first:
//!
//! ```compile_fail,E0277
//! # use lock_order::*;
//! # use sync::{Mutex, level::Held};
//! # fn remove(directory: &Mutex<u32, Directory>, removed: &Mutex<u32, Directory>) {
//! let mut directory = directory.lock();
//! let inside = removed.lock_in(directory.held()); // `Directory: Before<Directory>` is not satisfied
//! # }
//! ```
//!
//! nor a file's position by what its inode's writer calls:
//!
//! ```compile_fail,E0277
//! # use lock_order::*;
//! # use sync::{Mutex, level::Held};
//! fn set_attributes(position: &Mutex<u64, FilePosition>, mut locked: Held<'_, InodeWrite>) {
//!     *position.lock_in(&mut locked) = 0; // `InodeWrite: Before<FilePosition>` is not satisfied
//! }
//! ```
//!
//! nor a process's list of children by what looks at one of them:
//!
//! ```compile_fail,E0277
//! # use lock_order::*;
//! # use sync::{SpinLock, level::Held};
//! # fn reparent(children: &SpinLock<u32, ProcessChildren>, parent: &SpinLock<u32, ProcessParent>) {
//! let mut parent = parent.lock();
//! let children = children.lock_in(parent.held()); // `ProcessParent: Before<ProcessChildren>` is not satisfied
//! # }
//! ```
//!
//! nor does anybody wake under a run queue (`sched::runqueue::Order`):
//!
//! ```compile_fail,E0277
//! # use lock_order::*;
//! # use sync::level::Held;
//! fn wake(order: Held<'_, TimerQueue>) {}
//! fn enqueue(run_queue: Held<'_, RunQueue>) {
//!     wake(run_queue.lower()); // `RunQueue: Before<TimerQueue>` is not satisfied
//! }
//! ```
//!
//! **Chains that only the check at run time sees**, and why:
//!
//! * *User memory under a sleeping lock* (pipe, inode write, text of /proc): a page fault begins anew, since it comes from anywhere. So do
//!   vm's operations on objects.
//! * *Waking, signals and timers under the lock of what happened* (terminal input → signals; POSIX timer → signals; any → timers): these doors
//!   are called under most locks and under none, through `fs::caller`, `Watcher` and `Expire`. To show what is held, all between would have
//!   to pass it on.
//! * *Asking a file whether it is ready, under an epoll's interests*: as waking, through `FileOps::poll`.
//! * *Small values of threads under the list of threads* (`for_each_thread` with a closure that takes no order), and a super block's root under
//!   the mounts: one lock each, innermost.
//! * *devtmpfs → directory*: it makes its names as a program would.
//! * *Run queues*: `wake` looks for the queue in a loop, and a guard that is bound to what was shown cannot leave a loop.
//! * *What is only tried* (`try_lock`: shrinking, echo) needs no order.
//! * *Memory and messages*: the allocator, the serial port and the log are under every lock, so nobody could not show one.
#![no_std]
#![forbid(unsafe_code)]
// For the list.
#![recursion_limit = "512"]

sync::lock_order! {
    // Sleeping locks: mappings.

    /// Where a space has segments of shared memory attached. Its holder maps, unmaps, and forks the space. Nested: a child's that nobody else has.
    level Attachments = 1;

    // Sleeping locks: pipes.

    /// What is in a pipe. Programs' memory is copied under it, and splice(2) writes to any file. Nested: by address.
    level Pipe;

    // Sleeping locks: sockets.

    /// What a socket has received. Programs' memory is copied under it.
    level SocketReceive;
    /// The messages in flight that have sockets in them.
    level SocketsInFlight;
    /// A socket is given a name, which may be made in a directory.
    level SocketBind;

    // Sleeping locks: names.

    /// A file system is set up or changed by a descriptor. Its holder mounts it, and makes it.
    level FsConfiguration;
    /// The flags and options of a super block change. Its holder looks at what processes have open.
    level SuperChanges;
    /// A super block's renames between directories, for which the shape of the tree stands still. Before the directories.
    level Rename;
    /// The one devpts: its directory and options. Its holder makes and removes names.
    level Devpts;
    /// The one devtmpfs, while it is made. As devpts.
    level Devtmpfs;
    /// A tmpfs's limits change.
    level TmpfsOptions;

    // Sleeping locks: open files.

    /// An open file's position. Held over the whole read or write, or the reading of a directory.
    level FilePosition;
    /// A directory's names. Nested: the upper one first, two that are not above each other by address, and under them the one that is
    /// removed or replaced.
    level Directory;
    /// A file of /proc: its text. Its holder looks into processes and their epolls, and copies the text to the reader.
    level ProcContent;
    /// The tree of mounts changes, or is asked how mounts share, for a text of /proc too.
    level Mounts;
    /// The namespaces of mounts but the first.
    level MountNamespaces;
    /// How far syslog(2) and /proc/kmsg have read the kernel's log.
    level LogReader;
    /// The graph of epolls that watch each other changes or is walked.
    level EpollNesting;
    /// An epoll's list of interests. Its holder asks the files of the list whether they are ready.
    level EpollInterests;
    /// Writes, truncations and the like of one inode. Its holder changes the inode's object.
    level InodeWrite;
    /// What of a file is an overlay's own. Its holder asks what lies below, and changes the inode's object.
    level OverlayFile;
    /// What is known of a file whose truth is with a server. Its holder changes the inode's object.
    level RemoteFile;
    /// A file's extended attributes, where they are kept in memory.
    level Xattrs;
    /// A fifo's pipe, while it is looked up or made.
    level Fifo;
    /// An inotify instance gets a watch. Its holder makes one.
    level InotifyAdding;
    /// Who watches a directory by signals is told. Whoever ends a watch waits for that.
    level DirectorySignals;
    /// The locks of a file, while they are looked at or changed. Whoever changes many gives way.
    level FileLocks;
    /// Who writes to a terminal's line.
    level TtyOutput;

    // Sleeping locks: memory. A program's page may be needed under any lock above.

    from vm::order::Exact;
    from vm::order::Moving;
    from vm::order::Seals;
    from vm::order::Span;
    from vm::order::Space;
    from vm::order::Object;

    // Sleeping locks: processes.

    /// Who looks along many children of a process, and rests between.
    level ChildSearch;

    // Spinning locks: terminals. Input makes signals.

    /// The table of pseudo-terminals.
    level PtyTable;
    /// A terminal's modes, or its window size.
    level TtySettings;
    /// What was typed. Signals (^C) are sent under it.
    level TtyInput;
    /// Echo that waits for a writer.
    level TtyEcho;
    /// What a pseudo-terminal's master has not read yet.
    level PtyOutput;

    // Spinning locks: processes.

    /// A process's children: births, deaths and stops are made known under it.
    level ProcessChildren;
    /// A process's parent, read and changed under the parent's list of children.
    level ProcessParent;
    /// Those whom the threads of a process trace.
    level Tracees;
    /// What is known of a thread that is traced: whether it stopped, its registers, how it is to go on.
    level Traced;
    /// The members of a process group. Signals are sent under it. Nested: who moves from one group to another, by address.
    level GroupMembers;
    /// Which groups are retained though their leader was reaped.
    level SessionTable;
    /// A session's terminal.
    level Session;
    /// A process's list of POSIX timers.
    level PosixTimers;
    /// One of them. Signals are sent under it.
    level PosixTimer;
    /// A process's timers of processor time, in the order of their times.
    level CpuTimers;
    /// A process's interval timers.
    level IntervalTimer;
    /// How the wall clock is corrected. The timer of its next second is set under it.
    level Timekeeping;
    /// What becomes of a process by signals: whether it stopped, whether it ends. Who sends to another thread or to the whole process holds it.
    level ProcessSignals;
    /// What a process does with each signal.
    level SignalActions;
    /// A process's threads. Under it a thread is looked into, its signals changed, and it is woken.
    level ProcessThreads;
    /// A queue of signals, a process's or a thread's.
    level PendingSignals;
    /// When something happened to each signal in a process of many threads.
    level SignalMarks;
    /// What senders of signals leave to a thread of the kernel's.
    level SignalErrands;
    /// The signalfds that wait for a process's signals.
    level SignalfdListeners;
    /// A process's space.
    level ProcessSpace;
    /// A process's memory layout for /proc: program, arguments, heap.
    level ProcessMemory;
    /// What a thread refers to (files, working directory, space, credentials), as others see it.
    level ThreadReference;
    /// Small values of a thread or process: one at a time, for a copy.
    level ThreadState;
    /// Numbers of dead processes that do not fit their CPU's list.
    level ProcessIds;
    /// A user is put among those for whom something is counted.
    level Users;

    // Spinning locks: files. None is held while another is taken, but for sockets.

    /// A process's root and working directory change.
    level WorkingDirectory;
    /// A descriptor table changes. Files are let go after it.
    level FileTable;
    /// Who waits for whose record locks.
    level LockWaits;
    /// A super block's root, taken away at its end.
    level SuperRoot;
    /// The names of a directory that are asked for or changed. Claiming one is waited for without a directory's lock.
    level ClaimedNames;
    /// The names of a directory that are an overlay's own.
    level OverlayNames;
    /// A part of a super block's table of inodes.
    level InodeTable;
    /// The ring of a super block's cached names.
    level NameRing;
    /// The list of all such rings.
    level NameCaches;
    /// How many pages a pipe is counted as.
    level PipeCharge;
    /// A bucket of the table of sockets' abstract names.
    level SocketNames;
    /// A socket's name, and who waits to be accepted. Nested: who listens, and a new end that nobody else has.
    level SocketState;
    /// At which other a socket looks for room.
    level SocketLooking;
    /// The sockets that look at one.
    level SocketLookers;
    /// Whose a socket is, or its peer. One at a time, but for the one that listens under the new one's.
    level SocketIdentity;
    /// What has arrived at a socket.
    level SocketQueue;
    /// How many pages a socket is counted as.
    level SocketCharge;
    /// The sockets that a CPU has made.
    level SocketList;
    /// The calls that wait for who listens to a filter.
    level SeccompListener;
    /// An eventfd's count.
    level Eventfd;
    /// A timerfd's setting. Its timer is set under it.
    level Timerfd;
    /// The timerfds that watch the wall clock, on one CPU.
    level ClockWatches;
    /// What is told later of files that a thread has closed (inotify).
    level ClosedFiles;
    /// The watches of an inode.
    level InodeWatches;
    /// The watches of an inotify instance.
    level InotifyWatches;
    /// What an inotify instance was told. Under the two before, where a watch begins or ends.
    level InotifyQueue;
    /// Who watches a queue at all.
    level PollQueue;
    /// The epolls that watch a queue.
    level PollWatchers;
    /// Whom an open file tells of its input and output.
    level FileOwner;
    /// The locks of files that were set on a CPU, and who waits for them.
    level LockList;
    /// What is ready in an epoll.
    level EpollReady;
    /// The epolls' watches that end with an open file.
    level FileWatches;
    /// An epoll's place in the graph of those that watch each other. One at a time.
    level EpollNest;
    /// How core dumps are called.
    level CorePattern;
    /// The threads that a core dump tells of.
    level CoreDump;
    /// The state of the random number generator.
    level RandomPool;

    // Spinning locks: System V IPC.

    /// A bucket of the table of keys. Taken alone.
    level IpcKeys;
    /// What is to be undone for those who share it.
    level IpcUndo;
    /// A segment, a set of semaphores or a queue of messages. Who waits there is woken when it has been given back.
    level IpcObject;
    /// A message on its way to one who waits.
    level IpcHandover;

    // Spinning locks: devices. What is done is told under a queue's lock when its device has failed.

    /// What a server has said of a file's extended attributes: for a copy.
    level RemoteXattrs;
    /// The listings of servers' directories, in the order of their age.
    level RemoteListings;
    /// Mounts of servers' files that are written back, or the files of one that may have pages which the server has not got: for a copy, or to go.
    level RemoteWrittenBack;
    /// By what a server's file is asked about: for a copy.
    level RemoteFids;
    /// Numbers of fids that are free.
    level FidNumbers;
    /// Pages of a console's output. Let go of before the queue is locked.
    level DeviceBuffers;
    /// A queue of a device.
    level DeviceQueue;
    /// What has become of a request to a device.
    level DeviceRequest;
    /// Fids that nobody uses any more. What refers to one may be dropped under the locks above.
    level FidsGone;
    /// PCI's ports.
    level PciPorts;
    /// The pages of a file that are being read.
    level PagesRead;

    // Spinning locks: the scheduler. Any of the above may wake somebody or set a timer.

    /// What tasks with deadlines have been promised. A task's class changes under it.
    level Admission;
    /// Who waits on words of user memory. Nested: two buckets, the lower address first; a bucket and its children.
    level Futex;
    /// The owner and the waiters of a futex that lends priority. Whom it is given to is woken under it.
    level PiState;
    /// What a task has of such futexes, and is lent. One at a time.
    level PiTask;
    /// Who waits for an event.
    level WaitQueue;
    /// A CPU's deadlines.
    level TimerQueue;
    /// A CPU's tasks. One at a time: who balances only tries the second.
    level RunQueue;
    /// The CPUs that a task may run on, while that changes or is handed on.
    level Affinity;

    // Spinning locks: memory.

    /// Kernel stacks that are free. Pages for more are found under it.
    level KernelStacks;
    /// Where registers of devices are mapped. Pages for tables are found under it.
    level DeviceMappings;
    from vm::order::ReverseMap;
    from vm::order::Leaf;
    from vm::order::FrameList;
    from sync::level::PerCpuCounters;

    // Spinning locks: messages, for interrupt handlers too. The last of all, since anybody may print.

    /// A serial port's transmitter.
    level SerialPort;
    /// The records of the kernel's log.
    level KernelLog;
}

/// Boot option `plant=lock-inversion`: takes two locks the wrong way round, which the check is there to find (tests/boot/checks/lock-order.sh).
#[cfg(feature = "lockdep")]
pub fn plant_inversion(command_line: &str) {
    sync::lock_class! {
        static PLANTED_RENAME: LockClass = ("planted rename", Rename);
        static PLANTED_DIRECTORY: LockClass = ("planted directory", Directory);
    }
    if command_line.split_ascii_whitespace().any(|word| word == "plant=lock-inversion") {
        let rename = sync::Mutex::new((), &PLANTED_RENAME);
        let directory = sync::Mutex::new((), &PLANTED_DIRECTORY);
        let _directory = directory.lock();
        let _rename = rename.lock();
    }
}
