//! The lists of callbacks that wait for a grace period, one set per CPU, intrusive: queueing cannot fail.
//!
//! A callback goes through three lists of its CPU: *new* (not yet tagged), *waiting* (all with one tag), *ripe*. `sort` moves
//! whole lists: waiting to ripe once its period is over, new to waiting when that is empty, taking the tag then. So queueing reads no
//! shared line and needs no fence; the price is that a callback may wait for the batch before its own.
//!
//! Interrupt handlers do not queue. The lists are not borrowed while a callback runs, so callbacks may queue.

use super::PERIOD;
use crate::percpu::{Count, LocalCell};
use crate::{machine, per_cpu};
use core::cell::Cell;
use core::ptr::{self, NonNull};

/// More callbacks than this on a CPU make it hurry.
pub(super) const MANY: u64 = 2000;

/// Callbacks run in one `poll` if there are not many.
const BATCH: u64 = 64;

/// Callbacks run in one `poll` though another thread should run, if there are not many.
const LEAST: u64 = 2;

/// Parts of a millisecond that one `poll` takes at most: what is left waits for the next, and others may run before.
const POLLS_PER_MS: u64 = 4;

/// Callbacks between two looks at the clock.
const LOOK: u64 = 4;

/// A function and what it is called with.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub object: *mut (),
    pub function: unsafe fn(*mut ()),
}

/// The link inside an object that can be deferred.
#[derive(Debug)]
pub(crate) struct RawHead {
    next: Cell<*const RawHead>,
    call: Cell<Option<Call>>,
}

impl core::fmt::Debug for Call {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.object.fmt(f)
    }
}

// SAFETY: the cells are used only by `queue`'s caller, who gives the head up, and then by the lists that it is on.
unsafe impl Send for RawHead {}
// SAFETY: as above.
unsafe impl Sync for RawHead {}

impl RawHead {
    pub const fn new() -> Self {
        RawHead { next: Cell::new(ptr::null()), call: Cell::new(None) }
    }
}

struct List {
    first: *const RawHead,
    last: *const RawHead,
}

impl List {
    const fn new() -> Self {
        List { first: ptr::null(), last: ptr::null() }
    }

    fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// # Safety
    /// `head` is on no list and stays in place until it is popped.
    unsafe fn push(&mut self, head: NonNull<RawHead>) {
        // SAFETY: the caller gives the head to this list, and all on the list are in place.
        unsafe {
            head.as_ref().next.set(ptr::null());
            match self.last.as_ref() {
                None => self.first = head.as_ptr(),
                Some(last) => last.next.set(head.as_ptr()),
            }
        }
        self.last = head.as_ptr();
    }

    fn pop(&mut self) -> Option<Call> {
        // SAFETY: what is on the list is in place.
        let head = unsafe { self.first.as_ref() }?;
        self.first = head.next.get();
        if self.first.is_null() {
            self.last = ptr::null();
        }
        head.call.take()
    }

    /// Moves all of `other` behind what is here.
    fn append(&mut self, other: &mut List) {
        // SAFETY: what is on the list is in place.
        match unsafe { self.last.as_ref() } {
            None => self.first = other.first,
            Some(last) => last.next.set(other.first),
        }
        if !other.is_empty() {
            self.last = other.last;
        }
        *other = List::new();
    }
}

struct Lists {
    new: List,
    waiting: List,
    ripe: List,
    /// Parts of long work (`call_soon`), which wait for no period.
    soon: List,
}

// SAFETY: the lists own what is on them; callbacks run on any thread of the CPU, which `queue` asks its caller to allow.
unsafe impl Send for Lists {}

per_cpu! {
    static LISTS: LocalCell<Lists> =
        LocalCell::new(Lists { new: List::new(), waiting: List::new(), ripe: List::new(), soon: List::new() });
    static STATE: State = State {
        queued: Count::new(),
        done: Count::new(),
        tag: Count::new(),
        tagged: Count::new(),
        wanted: Count::new(),
        pressed: Count::new(),
        poll_at: Count::new(),
        ripe: Count::new(),
    };
}

/// What `pending` and interrupt handlers may look at while the lists are in use. A tag is kept with one added, 0 none.
struct State {
    queued: Count,
    done: Count,
    tag: Count,
    /// `queued` when the tag was taken.
    tagged: Count,
    /// Somebody waits until `done` has come this far.
    wanted: Count,
    /// Memory is short until `done` has come this far.
    pressed: Count,
    /// A poll is due once `queued` has come this far.
    poll_at: Count,
    ripe: Count,
}

/// Queues a call for after the grace period. Not from interrupt handlers.
///
/// # Safety
/// `head` is on no list and stays in place until the call; `call` may be made by any thread, with no reference to the object left
/// but those of read sections under way.
pub(crate) unsafe fn queue(head: NonNull<RawHead>, call: Call) {
    // SAFETY: the head is the caller's to give.
    unsafe { head.as_ref().call.set(Some(call)) };
    let queued = LISTS.with(|lists| {
        // SAFETY: as promised by the caller.
        unsafe { lists.new.push(head) }
    });
    assert!(queued.is_some(), "an interrupt handler queues an RCU callback");
    STATE.this().queued.add(1);
}

/// Queues a call that need not wait. Not from interrupt handlers.
///
/// # Safety
/// As [`queue`], but that read sections under way do not matter.
pub(super) unsafe fn queue_ripe(head: NonNull<RawHead>, call: Call) {
    // SAFETY: the head is the caller's to give.
    unsafe { head.as_ref().call.set(Some(call)) };
    let queued = LISTS.with(|lists| {
        // SAFETY: as promised by the caller.
        unsafe { lists.soon.push(head) }
    });
    assert!(queued.is_some(), "an interrupt handler queues an RCU callback");
    let state = STATE.this();
    state.queued.add(1);
    state.ripe.set(1);
    state.poll_at.set(0);
}

/// Whether callbacks of this CPU wait. Two loads.
#[inline(always)]
pub fn pending() -> bool {
    let state = STATE.this();
    state.queued.get() != state.done.get()
}

/// Whether callbacks of `cpu` wait.
pub(super) fn pending_on(cpu: crate::CpuId) -> bool {
    let state = STATE.of(cpu);
    state.queued.get() != state.done.get()
}

/// How many callbacks of this CPU wait.
pub fn backlog() -> u64 {
    let state = STATE.this();
    state.queued.get().wrapping_sub(state.done.get())
}

/// How many callbacks came after those that have the tag.
#[inline]
pub(super) fn untagged() -> u64 {
    let state = STATE.this();
    state.queued.get().wrapping_sub(state.tagged.get())
}

/// Somebody waits for all that is queued on this CPU now.
pub(super) fn want_all() {
    let state = STATE.this();
    state.wanted.set(state.queued.get());
    state.poll_at.set(0);
}

/// Memory is short: the CPU does nothing in user mode before what is queued on it now is done.
pub(super) fn press_all() {
    want_all();
    let state = STATE.this();
    state.pressed.set(state.queued.get());
}

/// Whether memory is short, and callbacks are ripe that may give some back.
#[inline]
pub(super) fn is_pressed() -> bool {
    let state = STATE.this();
    any_ripe() && (state.pressed.get().wrapping_sub(state.done.get()) as i64) > 0
}

/// How many callbacks this CPU has run.
pub(super) fn done() -> u64 {
    STATE.this().done.get()
}

/// Whether as many callbacks have come as the last `poll_after` said. Two loads.
#[inline(always)]
pub(super) fn is_due() -> bool {
    let state = STATE.this();
    state.queued.get() > state.poll_at.get()
}

/// A poll is due after `more` further callbacks.
pub(super) fn poll_after(more: u64) {
    let state = STATE.this();
    state.poll_at.set(state.queued.get().wrapping_add(more).wrapping_sub(1));
}

/// Whether somebody waits for callbacks of this CPU.
#[inline]
pub(super) fn any_wanted() -> bool {
    let state = STATE.this();
    (state.wanted.get().wrapping_sub(state.done.get()) as i64) > 0
}

/// The tag that the waiting list has.
pub(super) fn waits_for() -> Option<u64> {
    STATE.this().tag.get().checked_sub(1)
}

/// Whether there are ripe callbacks.
pub(super) fn any_ripe() -> bool {
    STATE.this().ripe.get() != 0
}

/// Moves lists on as far as they are. Says whether new callbacks got a tag.
pub(super) fn sort() -> bool {
    let mut tagged = false;
    LISTS.with(|lists| {
        let state = STATE.this();
        if waits_for().is_some_and(|tag| PERIOD.is_over(tag)) {
            lists.ripe.append(&mut lists.waiting);
            state.tag.set(0);
        }
        if lists.waiting.is_empty() && !lists.new.is_empty() {
            lists.waiting.append(&mut lists.new);
            state.tag.set(PERIOD.tag() + 1);
            state.tagged.set(state.queued.get());
            tagged = true;
        }
        state.ripe.set(u64::from(!lists.ripe.is_empty() || !lists.soon.is_empty()));
    });
    tagged
}

/// Runs a batch of ripe callbacks: more when there are many, so that the list cannot grow without end. Ends early where another thread should run,
/// and when its time is over. Then come parts of long work: one in any case, and more as long as nobody else should run.
pub(super) fn run_batch() {
    let backlog = backlog();
    let least = LEAST + backlog / 256;
    let began = machine::cycles();
    let is_over = || machine::cycles().wrapping_sub(began) > machine::cycles_per_ms() / POLLS_PER_MS;
    for n in 1..=BATCH + backlog / 8 {
        let Some(Some(call)) = LISTS.with(|lists| lists.ripe.pop()) else {
            break;
        };
        run(call);
        if (n >= least && machine::should_give_way()) || (n.is_multiple_of(LOOK) && is_over()) {
            break;
        }
    }
    for _ in 0..BATCH {
        let Some(Some(call)) = LISTS.with(|lists| lists.soon.pop()) else {
            break;
        };
        run(call);
        if machine::should_give_way() || is_over() {
            break;
        }
    }
}

fn run(call: Call) {
    STATE.this().done.add(1);
    let _callback = crate::lock::order::no_sleep();
    // SAFETY: the period is over, or there is none to wait for, and the caller of `queue` or `queue_ripe` promised the rest.
    unsafe { (call.function)(call.object) };
}
