//! Process groups: who is in one, and whether anybody is.
//!
//! A group is found by its number. Its members are on its common list or, once members were made on several CPUs in turn, on the list of the CPU
//! on which they were made: so processes that fork and exit on different CPUs write no line of their group. A member knows its list. Nothing is
//! allocated for a member; without memory for the lists of CPUs the group stays on its common list.
//!
//! [`Group::visit`] comes by all members; `sync::protocol::visit` says why none escapes that is made meanwhile. A signal to a group is such a visit. A
//! fork that begins when its maker has been sent the signal begins again, after the signal was delivered. A child whose maker is sent it during the
//! fork is sent it too: by the visitor, or from the set that the maker's thread keeps (`sent_to_group`), also where the maker blocks it.
//!
//! A group ends when a visit finds nobody (`is_empty`), which is asked for when its number is wanted for another group, or its leader was reaped.
//! A group without leader keeps its number; `RETAINED` has those, and each new one looks whether the two oldest have ended.
//!
//! LockOrder: `children` of the process that joins, moves or leaves → a list of its group. Two lists at once only in `move_to`, by address.
//! Under a list, what sending a signal takes.
#![forbid(unsafe_code)]

use super::Session;
use crate::errno::{ERESTARTNOINTR, Errno, Result};
use crate::lock_order as level;
use crate::process::family::Children;
use crate::process::ids::{self, Id};
use crate::process::list::{Link, Linked, List, Look, NOBODY, after_unlocked};
use crate::process::{Current, Pid, Process, signal, signal_pending};
use crate::sched;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use core::{mem, ptr};
use intrusive_collections::LinkedListAtomicLink;
use once_cell::race::OnceBox;
use sync::heap::{try_box, try_box_slice};
use sync::protocol::sequence::{HalfWord, Sequence};
use sync::protocol::visit::{Begun, Visits};
use sync::rcu::RcuHead;
use sync::{SpinGuard, SpinLock, lock_class, try_arc};

lock_class! {
    static MEMBERS: LockClass = ("group members", level::GroupMembers);
    static RETAINED_CLASS: LockClass = ("groups without leader", level::SessionTable);
}

/// A group is spread over CPUs when it has had a member of another CPU this often.
const TURNS: u32 = 8;
/// Visitors of one list that may rest at the same time without more memory.
const RESTING: usize = 4;
/// Members that are visited before the visitor gives way.
const STRIDE: u32 = 32;

/// A process's place in its group. Under its `children` lock and its list's. On a line of its own: its neighbours on the list are made on other CPUs
/// than the one on which it runs.
#[repr(align(64))]
pub struct Member {
    link: Link,
    /// `NOWHERE`, `COMMON`, or `FIRST_CPU` and the CPU's number.
    list: AtomicU32,
}

const NOWHERE: u32 = 0;
const COMMON: u32 = 1;
const FIRST_CPU: u32 = 2;

impl Member {
    pub const fn new() -> Self {
        Self { link: Link::new(), list: AtomicU32::new(NOWHERE) }
    }
}

/// Lists of members use a process's link to its group.
struct Members;

impl Linked for Members {
    fn link(process: &Process) -> &Link {
        &process.member.link
    }
}

/// One list of a group.
struct Part {
    list: List<Members>,
    /// The last member that each visitor that rests at times has come by, and more of these.
    resting: [Option<Pid>; RESTING],
    more_resting: Box<[Option<Pid>]>,
    /// Of the common list: which CPU made the last member, and how often it was another than before.
    cpu: u32,
    turns: u32,
    /// Of the common list: how the group stands.
    state: State,
}

/// How a group stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has had no member yet, but is about to: it does not end.
    New,
    /// It may have members.
    Open,
    /// So may this; its leader was reaped, and it is among those that are looked through.
    Retained,
    /// It has ended, and nobody joins it; its number is taken away when it is looked through.
    EndedRetained,
    /// It has ended, and its number leads to it no more.
    Ended,
}

impl State {
    fn has_ended(self) -> bool {
        matches!(self, State::Ended | State::EndedRetained)
    }
}

/// One list and its lock, on lines of their own. Who only asks about the members reads the list by its sequence, and writes nothing
/// (`look_at_members`).
#[repr(align(64))]
struct Locked {
    part: SpinLock<Part, level::GroupMembers>,
    /// Changes of the list, under the lock; the number of its first member, which is read by it as the members' links are.
    changes: Sequence,
    first: HalfWord,
}

impl Locked {
    fn new() -> Self {
        let (list, resting, more_resting) = (List::new(), [None; RESTING], Box::default());
        let (cpu, turns, state) = (u32::MAX, 0, State::New);
        let part = SpinLock::new(Part { list, resting, more_resting, cpu, turns, state }, &MEMBERS);
        Self { part, changes: Sequence::new(), first: HalfWord::with(NOBODY) }
    }

    /// Changes the list by `f`. `part` is this one, locked.
    #[inline]
    fn change<R: Default>(&self, part: &mut Part, f: impl FnOnce(&mut List<Members>) -> R) -> R {
        let mut result = R::default();
        self.changes.write(|| {
            result = f(&mut part.list);
            self.first.store(part.list.first());
        });
        result
    }

    /// Calls `f` for the members of group `number` on this list, without its lock, and for no more than `left` of them. False: there are more. None: the list
    /// was changed meanwhile, so some may have been missed.
    #[inline]
    fn look(&self, number: Pid, left: &mut usize, mut f: impl FnMut(&Process)) -> Option<bool> {
        if self.first.load() == NOBODY {
            return Some(true);
        }
        let mut ends = || {
            let mut at = self.first.load();
            while at != NOBODY {
                let Some(rest) = left.checked_sub(1) else { return Some(false) };
                *left = rest;
                // The walk may come to another group's list.
                at = ids::look_at(at, |process| {
                    (process.group() == number).then(|| {
                        f(process);
                        after_unlocked::<Members>(process)
                    })
                })
                .flatten()?;
            }
            Some(true)
        };
        self.changes.read(&mut ends).flatten()
    }

    /// The same under the lock.
    #[cold]
    fn look_locked(&self, left: &mut usize, mut f: impl FnMut(&Process)) -> bool {
        let looked = self.part.lock().list.look(NOBODY, *left, |process| {
            *left = left.saturating_sub(1);
            f(process);
            false
        });
        matches!(looked, Look::End)
    }

    /// Locks it for a visitor that rests at times, with the number of a place that is the visitor's until it is emptied. No spinning lock is held.
    fn lock_to_rest(&self) -> (SpinGuard<'_, Part, level::GroupMembers>, usize) {
        loop {
            let mut part = self.part.lock();
            let free = part.places().position(|place| place.is_none());
            if let Some(number) = free {
                part.rest_at(number, Some(NOBODY));
                return (part, number);
            }
            let wanted = part.more_resting.len().saturating_add(RESTING).next_power_of_two();
            drop(part);
            let Ok(mut more) = try_box_slice(wanted, |_| None) else {
                // Without memory it waits until another has visited all.
                let _ = sched::give_way();
                continue;
            };
            let mut part = self.part.lock();
            if part.more_resting.len() < wanted {
                more.iter_mut().zip(&part.more_resting).for_each(|(to, from)| *to = *from);
                mem::swap(&mut more, &mut part.more_resting);
            }
            drop(part);
        }
    }
}

impl Part {
    fn places(&mut self) -> impl Iterator<Item = &mut Option<Pid>> {
        self.resting.iter_mut().chain(&mut self.more_resting)
    }

    /// What was in a place until now.
    fn rest_at(&mut self, number: usize, at: Option<Pid>) -> Option<Pid> {
        self.places().nth(number).and_then(|place| mem::replace(place, at))
    }
}

/// A process group.
pub struct Group {
    id: Id,
    /// When the process began that has, or had, the group's number.
    pub led_from: u64,
    pub session: Arc<Session>,
    visits: Visits,
    lists: OnceBox<Box<[Locked]>>,
    /// Signals that are left to be sent to it, and its place among such groups (`signal::errand`).
    pub to_send: AtomicU64,
    pub errand: LinkedListAtomicLink,
    common: Locked,
    /// The next among those that are retained.
    next_retained: AtomicU32,
    rcu: RcuHead,
}

sync::rcu_object!(Group);

/// What a fork knows of its caller's group at its beginning.
#[derive(Clone, Copy)]
pub struct ForkStart {
    group: Pid,
    begun: Option<Begun>,
    /// What its process had been sent as one of its group by then (`signal::Crowd`).
    sent: u64,
}

/// A fork by the running thread begins.
///
/// # Errors
/// ERESTARTNOINTR: a signal waits, which comes first.
pub fn start_fork(maker: &Current) -> Result<ForkStart> {
    maker.sent_to_group.swap(0, AcqRel);
    let group = maker.process.group();
    let begun = ids::look_at_group(group, |group| group.visits.start());
    let sent = maker.process.signals.crowd().map_or(0, |crowd| crowd.sent_now());
    if signal_pending() { Err(ERESTARTNOINTR) } else { Ok(ForkStart { group, begun, sent }) }
}

/// `child`, which has not run yet, joins the group of its maker, the running thread's process, whose `children` the caller has locked: so it stays in its
/// group meanwhile. The signals that the group was sent since `start` wait for the child too.
///
/// # Errors
/// None, unless the maker is in no group.
pub fn join(child: &Arc<Process>, maker: &Current, _children: &mut Children, start: ForkStart) -> Result {
    let group = maker.process.group();
    let begun = start.begun.filter(|_| start.group == group);
    ids::look_at_group(group, |found| {
        // A visitor may ask for them.
        child.group.store(group, Relaxed);
        child.session.store(found.session.id(), Relaxed);
        child.sched.inherit(&maker.process.sched);
        found.add(child, maker, begun, start.sent);
    })
    .ok_or(Errno::EAGAIN)
}

/// `process`, which was reaped, leaves its group.
pub fn leave(process: &Process) {
    let _still = process.family.children();
    ids::look_at_group(process.group(), |group| group.take_off(process));
}

impl Group {
    /// A group that nobody is in yet.
    /// The group that `process` may lead.
    pub fn try_new(process: &Process, session: Arc<Session>) -> Result<Arc<Self>> {
        Ok(try_arc(Self {
            id: process.id.share(),
            led_from: process.started,
            session,
            visits: Visits::new(),
            lists: OnceBox::new(),
            to_send: AtomicU64::new(0),
            errand: LinkedListAtomicLink::new(),
            common: Locked::new(),
            next_retained: AtomicU32::new(NOBODY),
            rcu: RcuHead::new(),
        })?)
    }

    pub fn number(&self) -> Pid {
        self.id.number()
    }

    fn own_lists(&self) -> &[Locked] {
        if self.visits.is_spread() { self.lists.get().map_or(&[], |lists| &lists[..]) } else { &[] }
    }

    /// The list that a member is on.
    fn list_of(&self, member: u32) -> &Locked {
        let cpu = member.checked_sub(FIRST_CPU);
        cpu.and_then(|cpu| self.own_lists().get(cpu as usize)).unwrap_or(&self.common)
    }

    fn add(&self, child: &Arc<Process>, maker: &Current, begun: Option<Begun>, sent_before: u64) {
        let cpu = sync::cpu_id();
        let (list, number) = match self.own_lists().get(cpu as usize) {
            Some(list) => (list, FIRST_CPU.saturating_add(cpu)),
            None => (&self.common, COMMON),
        };
        let mut part = list.part.lock();
        if begun.is_some_and(|begun| self.visits.are_none_since(begun)) {
            list.change(&mut part, |list| list.push_back(child));
            child.member.list.store(number, Relaxed);
            if number == COMMON && part.cpu != cpu {
                part.cpu = cpu;
                part.turns = part.turns.saturating_add(1);
                if part.turns == TURNS {
                    drop(part);
                    self.spread();
                }
            }
            return;
        }
        drop(part);
        let number = maker.process.member.list.load(Relaxed);
        let list = self.list_of(number);
        let mut part = list.part.lock();
        list.change(&mut part, |list| list.insert_before(child, &maker.process));
        child.member.list.store(number, Relaxed);
        // Who has visited the maker does not come by its child.
        let mut sent = maker.sent_to_group.load(Acquire);
        if let Some(crowd) = maker.process.signals.crowd() {
            sent |= crowd.sent_since(part.held(), sent_before);
        }
        while sent != 0 {
            let signal = sent.trailing_zeros().saturating_add(1);
            sent &= sent.wrapping_sub(1);
            signal::send::to_process(child, signal::Info::user(signal, 0));
        }
    }

    /// From now on each CPU has a list, if there is memory.
    #[cold]
    fn spread(&self) {
        let lists = try_box_slice(sync::machine::cpus() as usize, |_| Locked::new()).and_then(try_box);
        if let Ok(lists) = lists
            && self.lists.set(lists).is_ok()
        {
            let _common = self.common.part.lock();
            self.visits.spread();
        }
    }

    fn take_off(&self, process: &Process) {
        let list = self.list_of(process.member.list.load(Relaxed));
        let mut part = list.part.lock();
        self.take_off_list(process, list, &mut part);
    }

    fn take_off_list(&self, process: &Process, list: &Locked, part: &mut Part) {
        let before = list.change(part, |list| list.remove(process));
        process.member.list.store(NOWHERE, Relaxed);
        if self.visits.is_on() {
            let pid = process.pid();
            part.places().filter(|at| **at == Some(pid)).for_each(|at| *at = Some(before));
        }
    }

    /// The first process, which was in no group, joins.
    pub fn add_first(&self, process: &Process) {
        let mut common = self.common.part.lock();
        common.state = State::Open;
        self.common.change(&mut common, |list| list.push_back(process));
        process.member.list.store(COMMON, Relaxed);
    }

    /// `process`, whose `children` the caller has locked, leaves its group for this one. EPERM if this one has ended; ESRCH if the process has.
    pub fn take_from(&self, from: &Group, process: &Process) -> Result {
        let number = process.member.list.load(Relaxed);
        if number == NOWHERE {
            return Err(Errno::ESRCH);
        }
        let (list, common) = (from.list_of(number), &self.common);
        // By address.
        let (mut old, mut new) = if ptr::from_ref(list) < ptr::from_ref(common) {
            let old = list.part.lock();
            (old, common.part.lock_nested())
        } else {
            let new = common.part.lock();
            (list.part.lock_nested(), new)
        };
        if new.state.has_ended() {
            return Err(Errno::EPERM);
        }
        from.take_off_list(process, list, &mut old);
        if new.state == State::New {
            new.state = State::Open;
        }
        common.change(&mut new, |list| list.push_back(process));
        process.member.list.store(COMMON, Relaxed);
        process.session.store(self.session.id.number(), Relaxed);
        process.group.store(self.number(), Release);
        Ok(())
    }

    /// Calls `f` for every member, zombies too, until it answers false. `f` is called under a list's lock. If the visitor `rests`, it gives way at times; it
    /// holds no spinning lock then. False: `f` has answered false.
    pub fn visit(&self, rests: bool, mut f: impl FnMut(&Arc<Process>) -> bool) -> bool {
        self.visits.begin();
        // The common list comes first: whether there are others is asked once its lock was held.
        let goes_on = self.visit_list(&self.common, rests, &mut f)
            && self.own_lists().iter().all(|list| self.visit_list(list, rests, &mut f));
        self.visits.end();
        goes_on
    }

    fn visit_list(&self, list: &Locked, rests: bool, f: &mut impl FnMut(&Arc<Process>) -> bool) -> bool {
        // The place comes first: where none is free, nobody was visited yet.
        let (mut part, place) = match rests {
            true => {
                let (part, place) = list.lock_to_rest();
                (part, Some(place))
            }
            false => (list.part.lock(), None),
        };
        let (mut at, mut n) = (NOBODY, 0u32);
        let goes_on = loop {
            at = part.list.after(at);
            let Some(process) = ids::find_process(at) else { break true };
            if !f(&process) {
                break false;
            }
            n = n.wrapping_add(1);
            if n.is_multiple_of(STRIDE)
                && let Some(place) = place
            {
                part.rest_at(place, Some(at));
                drop(part);
                drop(process);
                // A fatal signal does not end it, as on Linux.
                let _ = sched::give_way();
                part = list.part.lock();
                at = part.rest_at(place, Some(NOBODY)).unwrap_or(NOBODY);
            }
        };
        if let Some(place) = place {
            part.rest_at(place, None);
        }
        goes_on
    }

    /// Calls `f` for its members if they are few, without counting them, and for some perhaps twice. One that is made meanwhile may be missed. False: there
    /// are more, for whom a visit has to rest.
    pub fn look_at_members(&self, mut f: impl FnMut(&Process)) -> bool {
        let (number, mut left) = (self.number(), STRIDE as usize);
        let mut look = |list: &Locked| match list.look(number, &mut left, &mut f) {
            Some(all) => all,
            // Somebody joins or leaves: once more, while nobody does.
            None => list.look_locked(&mut left, &mut f),
        };
        look(&self.common) && self.own_lists().iter().all(look)
    }

    /// Is nobody in it? Then it has ended, unless it is new, and its number leads to no group any more.
    pub fn is_empty(&self) -> bool {
        if !self.common.part.lock().list.is_empty() {
            return false;
        }
        self.visits.begin();
        // As `visit`, but the common list once more at the end: there others join by setpgid.
        let mut empty = self.own_lists().iter().all(|list| list.part.lock().list.is_empty());
        if empty {
            let mut common = self.common.part.lock();
            empty = common.list.is_empty();
            if empty {
                self.end(&mut common);
            }
        }
        self.visits.end();
        empty
    }
}

impl Group {
    fn end(&self, common: &mut Part) {
        common.state = match common.state {
            State::Open => {
                self.id.withdraw_group();
                State::Ended
            }
            State::Retained => State::EndedRetained,
            same => same,
        };
    }

    /// It is among those that are looked through, from now on, or no more. False: it has ended.
    fn set_retained(&self, to: bool) -> bool {
        let mut common = self.common.part.lock();
        common.state = match common.state {
            State::Open if to => State::Retained,
            State::Retained if !to => State::Open,
            State::EndedRetained if !to => {
                self.id.withdraw_group();
                State::Ended
            }
            same => same,
        };
        !common.state.has_ended()
    }
}

/// The group with this number, if it has members.
pub fn find(number: Pid) -> Option<Arc<Group>> {
    ids::find_group(number).filter(|group| !group.is_empty())
}

/// Numbers of groups whose leaders were reaped, linked through them.
struct Retained {
    first: Pid,
    last: Pid,
}

static RETAINED: SpinLock<Retained, level::SessionTable> =
    SpinLock::new(Retained { first: NOBODY, last: NOBODY }, &RETAINED_CLASS);

/// Is there any? Changes with `RETAINED`, under its lock; who sees none leaves that lock alone.
static ANY_RETAINED: AtomicBool = AtomicBool::new(false);

/// The leader of group `number` was reaped.
pub fn leader_is_gone(number: Pid) {
    // Most processes lead no group.
    if ids::look_at_group(number, |_| ()).is_none() {
        return;
    }
    retain(number);
    for _ in 0..2 {
        let Some(oldest) = pop_retained() else { return };
        if oldest.set_retained(false) {
            retain(oldest.number());
        }
    }
}

/// A group that is retained stays in the table, so a number in the queue leads to it.
fn pop_retained() -> Option<Arc<Group>> {
    if !ANY_RETAINED.load(Acquire) {
        return None;
    }
    let mut retained = RETAINED.lock();
    let group = ids::find_group(retained.first)?;
    retained.first = group.next_retained.load(Relaxed);
    if retained.first == NOBODY {
        retained.last = NOBODY;
        ANY_RETAINED.store(false, Release);
    }
    Some(group)
}

fn retain(number: Pid) {
    let Some(group) = find(number).filter(|group| group.set_retained(true)) else { return };
    let mut retained = RETAINED.lock();
    group.next_retained.store(NOBODY, Relaxed);
    if ids::look_at_group(retained.last, |last| last.next_retained.store(number, Relaxed)).is_none() {
        retained.first = number;
        ANY_RETAINED.store(true, Release);
    }
    retained.last = number;
}
