//! Walks over what a process has much of, which give way between one and the next. No lock is held and no RCU section open.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use super::{Process, Thread, Threads};
use crate::fs::File;
use crate::sched::give_way;
use sync::rcu;

/// Threads that are visited under the lock before others may run.
const TURN: usize = if cfg!(test) { 4 } else { 64 };

impl Process {
    /// As `for_each_thread`, giving way at times: `f` does not sleep, the caller may. Threads that are made meanwhile are left out.
    pub fn visit_threads(&self, mut f: impl FnMut(&Arc<Thread>)) {
        self.visit_threads_while(TURN, |thread| {
            f(thread);
            true
        });
    }

    /// As `visit_threads`, until `f` answers false; `turn` threads before others may run.
    #[inline]
    pub fn visit_threads_while(&self, turn: usize, mut f: impl FnMut(&Arc<Thread>) -> bool) {
        let (mut last, mut passed) = (None, None::<Arc<Thread>>);
        loop {
            let (mut left, mut rests) = (turn.max(1), None);
            {
                let threads = self.threads.lock();
                let newest = self.threads.last_birth(&rcu::read());
                let last = *last.get_or_insert(newest);
                let mut visit = |thread: &Arc<Thread>| {
                    if !f(thread) {
                        return false;
                    }
                    left = left.wrapping_sub(1);
                    if left == 0 {
                        rests = Some(thread.clone());
                    }
                    left != 0
                };
                if newest <= last {
                    threads.visit(passed.as_deref(), visit);
                } else {
                    threads.visit(passed.as_deref(), |t| Threads::birth_of(t) <= last && visit(t));
                }
            }
            passed = rests;
            if passed.is_none() {
                return;
            }
            let _ = give_way();
        }
    }

    /// As `visit_threads`, for who only asks: no lock is taken, and no thread is counted where there are few.
    pub fn look_at_threads(&self, mut f: impl FnMut(&Thread)) {
        let last = self.threads.last_birth(&rcu::read());
        let mut passed = self.look_at_some(None, last, TURN, &mut f);
        while let Some(rests) = passed {
            let _ = give_way();
            passed = self.look_at_some(Some(&rests), last, TURN, &mut f);
        }
    }

    /// As `look_at_threads`, for who may not give way: of those that are come by in one go.
    pub fn look_at_few_threads(&self, mut f: impl FnMut(&Thread)) {
        self.threads.iter(&rcu::read()).for_each(|thread| f(&thread));
    }

    /// Those after `passed` up to the birth `last`. Gives the last one if others may follow after `most`.
    #[inline]
    fn look_at_some(
        &self,
        passed: Option<&Thread>,
        last: u64,
        most: usize,
        f: &mut impl FnMut(&Thread),
    ) -> Option<Arc<Thread>> {
        let read = rcu::read();
        let threads = match passed {
            Some(passed) => self.threads.iter_after(passed, &read),
            None => self.threads.iter(&read),
        };
        let mut left = most.max(1);
        for thread in threads {
            if Threads::birth_of(&thread) > last {
                return None;
            }
            f(&thread);
            left = left.wrapping_sub(1);
            if left == 0 {
                return Some(thread.count());
            }
        }
        None
    }

    /// As `for_each_thread`, without a lock: `f` may sleep. Threads that are made meanwhile are left out.
    pub fn walk_threads(&self, mut f: impl FnMut(&Arc<Thread>)) {
        let last = self.threads.last_birth(&rcu::read());
        let mut passed = self.threads.first(&rcu::read()).map(|first| first.count());
        while let Some(thread) = passed {
            if Threads::birth_of(&thread) > last {
                return;
            }
            f(&thread);
            let _ = give_way();
            passed = self.threads.iter_after(&thread, &rcu::read()).next().map(|next| next.count());
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
