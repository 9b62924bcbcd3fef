//! What a thread has read and written: /proc/PID/io (proc_pid_io(5)), as Linux counts with CONFIG_TASK_IO_ACCOUNTING.
//!
//! The counters of a thread are written by itself alone. What threads that are gone had counted lies in their process, and that of children that were
//! waited for too; who reads the file adds up. A thread that ends meanwhile may be counted twice or not at all.
#![forbid(unsafe_code)]

use super::{Process, Thread};
use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Bytes that calls which read gave to the program.
    ReadChars,
    WrittenChars,
    /// Calls.
    Reads,
    Writes,
    /// Bytes that came from disks, and went to them, for the thread.
    DiskRead,
    DiskWritten,
}

const COUNT: usize = 6;

/// Counters, in the order of [`Counted`].
#[derive(Default)]
pub struct Counters([AtomicU64; COUNT]);

/// Counts, in the order of [`Counted`].
pub type Counts = [u64; COUNT];

impl Counters {
    /// By the thread whose counters these are.
    #[inline(always)]
    fn note(&self, what: Counted, more: u64) {
        if let Some(counter) = self.0.get(what as usize) {
            counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
        }
    }

    fn counts(&self) -> Counts {
        self.0.each_ref().map(|counter| counter.load(Relaxed))
    }

    /// By any thread.
    fn add(&self, counts: &Counts) {
        for (counter, more) in self.0.iter().zip(counts) {
            // Most have no disk.
            if *more != 0 {
                counter.fetch_add(*more, Relaxed);
            }
        }
    }
}

/// A call of the running thread that reads ends like this. One that was no use of the file is not counted.
#[inline(always)]
pub fn note_read(outcome: &Result<usize>) {
    note_call(Counted::Reads, Counted::ReadChars, outcome);
}

/// The same of one that writes.
#[inline(always)]
pub fn note_write(outcome: &Result<usize>) {
    note_call(Counted::Writes, Counted::WrittenChars, outcome);
}

#[inline(always)]
fn note_call(calls: Counted, chars: Counted, outcome: &Result<usize>) {
    let counters = &super::current().io;
    match outcome {
        Ok(n) => counters.note(chars, *n as u64),
        Err(Errno::EBADF | Errno::EINVAL) => return,
        Err(_) => {}
    }
    counters.note(calls, 1);
}

/// So many bytes came from a disk for the running thread, or go to one.
pub fn note_disk(written: bool, bytes: u64) {
    if let Some(thread) = super::current_if_any() {
        thread.io.note(if written { Counted::DiskWritten } else { Counted::DiskRead }, bytes);
    }
}

impl Thread {
    /// What it has read and written.
    pub fn io_counts(&self) -> Counts {
        self.io.counts()
    }
}

impl Process {
    /// What its threads, living and dead, and the children that it waited for have read and written. Gives way: no spinning lock is held.
    pub fn io_counts(&self) -> Counts {
        let mut all = self.gone_io.counts();
        self.visit_threads(|thread| {
            if thread.exiting.load(Relaxed) {
                return;
            }
            for (sum, more) in all.iter_mut().zip(thread.io_counts()) {
                *sum = sum.wrapping_add(more);
            }
        });
        all
    }

    /// One of its threads ends.
    pub(super) fn keep_io_of(&self, thread: &Thread) {
        self.gone_io.add(&thread.io_counts());
    }

    /// A child of it is gone.
    pub(super) fn keep_io_of_child(&self, child: &Process) {
        self.gone_io.add(&child.gone_io.counts());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::current_process;
    use crate::testing::{fork, in_process, thread};

    #[test]
    fn a_process_has_what_its_threads_and_its_children_have_counted() {
        in_process(|| {
            let own = current_process();
            let before = own.io_counts();
            note_read(&Ok(5));
            note_read(&Err(Errno::EBADF));
            note_write(&Err(Errno::EAGAIN));
            let other = thread(|| note_read(&Ok(7)));
            other.join();
            fork(|| note_disk(true, 11)).wait();
            crate::testing::until(|| own.thread_count() == 1);
            let after = own.io_counts();
            let more: std::vec::Vec<_> = after.iter().zip(before).map(|(now, then)| now - then).collect();
            assert_eq!(more, [12, 0, 2, 1, 0, 11]);
        });
    }
}
