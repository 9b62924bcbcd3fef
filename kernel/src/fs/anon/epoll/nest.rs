//! How epolls that watch epolls hang in each other: a graph in which no chain has more than `EDGES_MAX` edges.
//!
//! Whoever adds an edge counts what lies below and above it. So waking, which goes up along the chains, has a bound. Closing an epoll cuts its edges
//! at once, though its memory may stay.
//!
//! Lock order: `NESTING`, which who changes or walks the graph holds → `Core::nest`, one at a time.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::mem::take;
use core::ptr;

use crate::lock_order as level;
use sync::level::Held;
use sync::{Mutex, TryVec, lock_class};

use super::Core;
use crate::errno::{ELOOP, Result};
use crate::sched::schedule_if_needed;

lock_class! { static NESTING_CLASS: LockClass = ("epoll nesting", level::EpollNesting); }

/// Edges of the longest chain of epolls (EP_MAX_NESTS).
const EDGES_MAX: usize = 4;

/// Held by who changes or walks the graph of epolls; how many walks there were.
pub(super) static NESTING: Mutex<u64, level::EpollNesting> = Mutex::new(0, &NESTING_CLASS);

/// `NESTING` is held: what may be locked next.
pub(super) type Graph<'a> = Held<'a, level::EpollNesting>;

/// An epoll's place in the graph. Changed under `NESTING`.
#[derive(Default)]
pub(super) struct Nest {
    /// The epolls that it watches, once for each interest.
    inner: Vec<Weak<Core>>,
    /// The epolls that watch it.
    outer: Vec<Weak<Core>>,
    /// The last walk that came here, and what it found.
    walk: u64,
    longest: usize,
}

#[derive(Clone, Copy)]
enum Way {
    Down,
    Up,
}

impl Nest {
    fn next(&self, way: Way, at: usize) -> Option<&Weak<Core>> {
        match way {
            Way::Down => self.inner.get(at),
            Way::Up => self.outer.get(at),
        }
    }
}

fn is(weak: &Weak<Core>, core: &Core) -> bool {
    ptr::eq(weak.as_ptr(), core)
}

/// Takes one of the edges to `core` off a list.
fn cut(list: &mut Vec<Weak<Core>>, core: &Core) {
    if let Some(at) = list.iter().position(|weak| is(weak, core)) {
        list.swap_remove(at);
    }
}

impl Core {
    /// Edges of the longest chain from here. `NESTING` is held, whose number `walk` is new.
    ///
    /// # Errors
    /// ELOOP: the chain leads to `avoid`, or is longer than `left`, which ends the recursion.
    #[expect(clippy::arithmetic_side_effects, reason = "depth and edges are below EDGES_MAX")]
    fn longest(
        &self,
        way: Way,
        walk: u64,
        avoid: Option<&Core>,
        left: usize,
        graph: &mut Graph<'_>,
    ) -> Result<usize> {
        if avoid.is_some_and(|core| ptr::eq(core, self)) {
            return Err(ELOOP);
        }
        let (known, longest) = {
            let nest = self.nest.lock_in(graph);
            (nest.walk == walk, nest.longest)
        };
        if known {
            return if longest <= left { Ok(longest) } else { Err(ELOOP) };
        }
        let (mut longest, mut at) = (0, 0);
        loop {
            let next = match self.nest.lock_in(graph).next(way, at) {
                Some(next) => next.upgrade(),
                None => break,
            };
            if let Some(next) = next {
                let left = left.checked_sub(1).ok_or(ELOOP)?;
                longest = longest.max(1 + next.longest(way, walk, avoid, left, graph)?);
            }
            at += 1;
            schedule_if_needed();
        }
        let mut nest = self.nest.lock_in(graph);
        (nest.walk, nest.longest) = (walk, longest);
        Ok(longest)
    }

    /// May this epoll watch `other`?
    ///
    /// # Errors
    /// ELOOP.
    #[expect(clippy::arithmetic_side_effects, reason = "depth and edges are below EDGES_MAX")]
    pub(super) fn check_nesting(&self, other: &Core, walks: &mut u64, graph: &mut Graph<'_>) -> Result {
        *walks += 2;
        let below = other.longest(Way::Down, *walks - 1, Some(self), EDGES_MAX - 1, graph)?;
        self.longest(Way::Up, *walks, None, EDGES_MAX - 1 - below, graph)?;
        Ok(())
    }

    /// This epoll watches `other` from now on.
    pub(super) fn nest(self: &Arc<Self>, other: &Arc<Core>, graph: &mut Graph<'_>) -> Result {
        self.nest.lock_in(graph).inner.try_push(Arc::downgrade(other))?;
        let told = other.nest.lock_in(graph).outer.try_push(Arc::downgrade(self));
        if told.is_err() {
            cut(&mut self.nest.lock_in(graph).inner, other);
        }
        Ok(told?)
    }

    pub(super) fn unnest(&self, other: &Core, graph: &mut Graph<'_>) {
        cut(&mut self.nest.lock_in(graph).inner, other);
        cut(&mut other.nest.lock_in(graph).outer, self);
    }

    /// Nothing hangs together by this epoll any more.
    pub(super) fn leave(&self) {
        let alone = {
            let nest = self.nest.lock();
            nest.inner.is_empty() && nest.outer.is_empty()
        };
        if alone {
            return;
        }
        let mut nesting = NESTING.lock();
        let graph = nesting.held();
        let (inner, outer) = {
            let mut nest = self.nest.lock_in(graph);
            (take(&mut nest.inner), take(&mut nest.outer))
        };
        for other in inner.iter().filter_map(Weak::upgrade) {
            cut(&mut other.nest.lock_in(graph).outer, self);
            schedule_if_needed();
        }
        for other in outer.iter().filter_map(Weak::upgrade) {
            cut(&mut other.nest.lock_in(graph).inner, self);
            schedule_if_needed();
        }
    }
}
