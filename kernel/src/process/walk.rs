//! Walks over what a process has much of, which give way between one and the next. No lock is held and no RCU section open.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use super::{Process, Thread};
use crate::fs::File;
use crate::sched::give_way;

/// Threads that are visited under the lock before others may run.
const TURN: usize = 64;

impl Process {
    /// As `for_each_thread`, giving way at times: `f` does not sleep, the caller may. Threads that are made meanwhile are left out.
    pub fn visit_threads(&self, mut f: impl FnMut(&Arc<Thread>)) {
        // From the last to the first, as below.
        let mut left = usize::MAX;
        loop {
            {
                let threads = self.threads.lock();
                left = left.min(threads.len());
                let first = left.saturating_sub(TURN);
                threads.get(first..left).unwrap_or(&[]).iter().for_each(&mut f);
                left = first;
            }
            if left == 0 {
                return;
            }
            let _ = give_way();
        }
    }

    /// As `for_each_thread`, without a lock: `f` may sleep. Threads that are made meanwhile are left out.
    pub fn walk_threads(&self, mut f: impl FnMut(&Arc<Thread>)) {
        // From the last to the first: where one in between is gone, the rest moves towards what has been visited.
        let mut left = usize::MAX;
        loop {
            let thread = {
                let threads = self.threads.lock();
                left = left.min(threads.len()).saturating_sub(1);
                threads.get(left).cloned()
            };
            let Some(thread) = thread else { return };
            f(&thread);
            let _ = give_way();
            if left == 0 {
                return;
            }
        }
    }

    /// Calls `f` for each file that a descriptor of the process refers to, perhaps more than once. May sleep.
    pub fn walk_files(&self, mut f: impl FnMut(&File)) {
        let mut last = 0;
        self.walk_threads(|thread| {
            thread.with_files(|files| {
                // Most threads have the table of the one before.
                let this = files.address();
                if core::mem::replace(&mut last, this) == this {
                    return;
                }
                files.for_each(|fd| {
                    if let Ok(file) = files.get(fd) {
                        f(&file);
                    }
                    let _ = give_way();
                });
            });
        });
    }
}
