//! The audit of memory: everything in use is somebody's, and every frame has as many references as there are to it. For a machine in which
//! nothing else runs, on the kernel with assertions.
//!
//! What is in use is found in the frames' metadata and in the slabs. What is somebody's is found by following addresses from the *roots* (the
//! kernel's variables, per-CPU areas, kernel stacks): each aligned word that is the address of an object, of a frame or of its metadata, wherever
//! in the object it points, leads there, and what is there is looked at in turn. Page tables are followed by their nodes' entries, files by
//! their slots.
//!
//! | what | is held against |
//! |---|---|
//! | frames that are marked as free | what magazines, depots, lists and buddies say that they hold |
//! | frames of slabs | the slabs that the caches count |
//! | objects of slabs, blocks of the heap | an address of each that can be followed to |
//! | nodes of page tables | the same, by entries and by `Space`s |
//! | counts of swap areas' slots | entries in swap |
//! | references to a page | entries that own it, slots of objects, lists of pools; and the addresses of its frame: whoever else has a reference has one |
//!
//! A word that only looks like an address, or is left over on a stack, hides a leak; nothing makes one up but a CPU that runs meanwhile. So whoever
//! asks compares several audits ([`Findings::keep`]): what is wrong in all of them is wrong.
//!
//! A low room: memory of all kinds is read as words. Takes no lock and writes only its own memory ([`Marks`]).

mod marks;

use self::marks::{Marks, What};
use crate::addr::{ENTRIES, PAGE_SIZE};
use crate::frame::{self, FrameKind};
use crate::machine::Machine;
use crate::node::Node;
use crate::slab::Cache;
use crate::swap::{MAX_AREAS, SwapArea};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use sync::AllocError;
use sync::heap::{TryVec, try_vec};

/// As many findings are told.
const MOST: usize = 1024;

/// As much is planted.
const LOST: usize = 8;

/// One thing that does not agree.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    pub what: &'static str,
    /// The cache of the object, or the kind of the frame.
    pub of: &'static str,
    /// The object's address, the frame's, or a number. Turned over ([`Finding::new`]): the next audit shall not find the object here.
    hidden_at: usize,
    pub has: u64,
    pub should: u64,
}

impl Finding {
    pub fn new(what: &'static str, of: &'static str, at: usize, has: u64, should: u64) -> Self {
        Finding { what, of, hidden_at: !at, has, should }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}, {:#x}): {} instead of {}",
            self.what, self.of, !self.hidden_at, self.has, self.should
        )
    }
}

/// What an audit found.
#[derive(Default)]
pub struct Findings {
    list: Vec<Finding>,
    /// All of them, those that the list has no room for included.
    count: usize,
}

impl Findings {
    pub fn add(&mut self, finding: Finding) {
        self.count += 1;
        if self.list.len() < MOST {
            let _ = self.list.try_push(finding);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.list.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Leaves what an audit before had found, too. Where that one had more than it could name, what has no room there is left as well.
    pub fn keep(&mut self, before: &Findings) {
        if before.count > MOST {
            return;
        }
        let same = |one: &Finding| {
            before.list.iter().any(|other| (other.what, other.hidden_at) == (one.what, one.hidden_at))
        };
        let listed = self.list.len();
        self.list.retain(same);
        self.count = if self.count > listed { self.count } else { self.list.len() };
    }
}

/// Looks at all memory. `roots`: the kernel's variables and per-CPU areas. What CPUs keep for later has been given back
/// ([`frame::call_back`]), RCU's callbacks have run. The CPU is not given up meanwhile.
///
/// # Errors
/// No memory for the marks.
pub fn audit<M: Machine>(roots: impl Iterator<Item = Range<usize>>) -> Result<Findings, AllocError> {
    let marks = Marks::try_new()?;
    let mut audit = Audit { queue: try_vec(marks.most())?, marks, swapped: [0; MAX_AREAS] };
    audit.disown();
    let mut findings = Findings::default();
    audit.count_free(&mut findings);
    for root in roots {
        // SAFETY: the kernel's own memory, which stays; words are read as such.
        unsafe { audit.look(root.start, root.end - root.start) };
    }
    audit.look_at_stacks();
    while let Some(object) = audit.queue.pop() {
        audit.follow::<M>(object);
    }
    audit.find_lost(&mut findings);
    audit.find_miscounted(&mut findings);
    audit.find_miscounted_slots(&mut findings);
    Ok(findings)
}

struct Audit {
    marks: Marks,
    /// Entries that have a count of a slot, of each swap area.
    swapped: [u64; MAX_AREAS],
    /// Objects that were found and have not been looked at.
    queue: Vec<usize>,
}

impl Audit {
    /// What the audit itself holds is nobody else's way to anything.
    fn disown(&mut self) {
        self.marks.mark(self.queue.as_ptr() as usize);
        self.marks.mark_own();
    }

    fn count_free(&self, findings: &mut Findings) {
        let before = frame::free_frames();
        let (mut free, mut rest, mut slabs) = (0u64, 0u64, 0u64);
        for frame in frame::every() {
            match frame.kind() {
                FrameKind::Free => free += 1,
                FrameKind::Slab => slabs += 1,
                // What of a block is not its first frame is marked as free all the time.
                FrameKind::Block => rest += (1 << marks::order_of(frame)) - 1,
                _ => {}
            }
        }
        let mut counted = 0;
        crate::slab::for_each_cache(&mut |cache| counted += (cache.slabs * cache.pages_per_slab) as u64);
        // Else memory was taken or given back meanwhile.
        let is_quiet = before == frame::free_frames();
        let mut compare = |what, of, has, should| {
            if is_quiet && has != should {
                findings.add(Finding::new(what, of, 0, has, should));
            }
        };
        compare("frames marked as free", "sum", free.saturating_sub(rest), before);
        compare("frames of slabs", "sum", slabs, counted);
    }

    fn look_at_stacks(&mut self) {
        for n in 0..self.marks.used().len() {
            let frame = self.marks.used()[n];
            if frame.kind() == FrameKind::Stack {
                // SAFETY: the direct map shows the page, which is the kernel's.
                unsafe { self.look(frame.bytes_ptr() as usize, PAGE_SIZE) };
            }
        }
    }

    /// Follows each word of `len` bytes at `start`.
    ///
    /// # Safety
    /// The memory is there and the kernel's. Others may write it meanwhile.
    unsafe fn look(&mut self, start: usize, len: usize) {
        let end = start + len;
        let mut at = start.next_multiple_of(size_of::<usize>());
        while at + size_of::<usize>() <= end {
            // SAFETY: within the memory, as the caller says.
            self.reach(unsafe { (at as *const usize).read_volatile() });
            at += size_of::<usize>();
        }
    }

    /// `word` may be an address of something in use.
    fn reach(&mut self, word: usize) {
        if let Some(frame) = frame::with_metadata_at(word) {
            self.marks.point(frame);
            self.reach(frame.bytes_ptr() as usize);
        } else if let Some(object) = self.marks.object_at(word) {
            if self.marks.mark(object) {
                // It was made as large as there are objects.
                let _ = self.queue.try_push(object);
            }
        } else if let Some(frame) = frame::with_page_at(word) {
            self.marks.point(frame);
            if frame.kind() == FrameKind::Table && self.marks.mark(frame.bytes_ptr() as usize) {
                let _ = self.queue.try_push(frame.bytes_ptr() as usize);
            }
        }
    }

    fn follow<M: Machine>(&mut self, object: usize) {
        match self.marks.what(object) {
            What::Object(cache) => {
                // SAFETY: an object of a slab. The cache of nodes holds nothing else; an address may be older than what lies there.
                unsafe {
                    match cache.name() {
                        "page-table-node" if cache.is_free(object) => return,
                        "page-table-node" => self.follow_node::<M>(&*(object as *const Node)),
                        "object-slots" => return self.follow_slots(object, cache.size()),
                        _ => {}
                    }
                    self.look(object, cache.size());
                }
            }
            // SAFETY: a block of the heap, whole.
            What::Block(order) => unsafe { self.look(object, PAGE_SIZE << order) },
            What::Other => {
                // A page table: its frame's words lead to the node.
                if let Some(frame) = frame::with_page_at(object) {
                    // SAFETY: read, and taken for nothing but words.
                    unsafe { frame.words() }.iter().for_each(|word| {
                        self.reach(word.load(core::sync::atomic::Ordering::Relaxed) as usize)
                    });
                }
            }
        }
    }

    /// What the entries of a node lead to.
    fn follow_node<M: Machine>(&mut self, node: &Node) {
        for index in 0..ENTRIES as u16 {
            let entry = node.peek(index);
            if let Some(place) = entry.swap_place().filter(|_| node.is_leaf()) {
                if let Some(count) = self.swapped.get_mut(usize::from(place.area)) {
                    *count += 1;
                }
                continue;
            }
            if entry.is_absent() || entry.is_busy() {
                continue;
            }
            let Some(frame) = frame::known(entry.address::<M>()) else { continue };
            if !node.is_leaf() {
                self.reach(frame.bytes_ptr() as usize);
            } else if entry.owns_frame() {
                self.marks.own(frame);
            }
        }
    }

    /// The slots of a file's last-level table hold the addresses of frames.
    fn follow_slots(&mut self, table: usize, len: usize) {
        for at in (table..table + len).step_by(size_of::<usize>()) {
            // SAFETY: within the object.
            let slot = unsafe { (at as *const usize).read_volatile() };
            if let Some(frame) = frame::known(crate::PhysAddr(slot as u64 & !(PAGE_SIZE as u64 - 1)))
                && frame.kind() == FrameKind::Object
            {
                self.marks.own(frame);
            }
        }
    }

    /// Objects and blocks that nothing leads to.
    fn find_lost(&self, findings: &mut Findings) {
        self.marks.each_unmarked(|of, at| {
            findings.add(Finding::new("nothing refers to an object", of, at, 1, 0));
        });
    }

    /// Pages whose references are not those that were found.
    fn find_miscounted(&self, findings: &mut Findings) {
        for frame in self.marks.used() {
            let of = match frame.kind() {
                FrameKind::Page => "program page",
                FrameKind::Object => "object page",
                FrameKind::Device => "page for a device",
                _ => continue,
            };
            let (owned, pointed) = self.marks.references(frame);
            let has = frame.refs();
            let mut add = |what, should| {
                let at = frame.addr().0 as usize;
                findings.add(Finding::new(what, of, at, u64::from(has), u64::from(should)));
            };
            if has < owned {
                add("references to a page, fewer than own it", owned);
            } else if has > owned.saturating_add(pointed) {
                add("references to a page, more than own it", owned.saturating_add(pointed));
            }
        }
    }
}

impl Audit {
    /// Swap areas whose slots are not counted as often as entries have them. (Who reads or writes one just now has a count besides.)
    fn find_miscounted_slots(&self, findings: &mut Findings) {
        for area in SwapArea::all() {
            let should = self.swapped.get(usize::from(area.number())).copied().unwrap_or(0);
            let has = area.counted();
            if has != should {
                findings.add(Finding::new(
                    "counts of slots",
                    "swap area",
                    usize::from(area.number()),
                    has,
                    should,
                ));
            }
        }
    }
}

impl Cache {
    /// Is it all that is left of an object that was freed, or was never handed out? (One that needs a single word looks so all the time: it is never
    /// lost, what it leads to is.)
    fn is_free(&self, object: usize) -> bool {
        let rest = object + size_of::<usize>();
        // SAFETY: an object of a slab; its first word is a link while it is free.
        unsafe { frame::poison::find(rest as *const u8, self.size() - size_of::<usize>()) }.is_none()
    }
}

/// Loses something, for [`audit`] to find: `lost-object`, blocks of the heap; `lost-block`, large ones; `lost-frame`, pages;
/// `lost-reference`, references to a page. [`LOST`] of each: a word that is left over somewhere may pass for an address or a reference.
pub fn plant(what: &str) {
    use core::hint::black_box;
    use core::mem::forget;
    static KEPT: sync::SpinLock<Option<frame::OwnedFrame>, crate::order::FrameList> =
        sync::SpinLock::new(None, &PLANTED);
    sync::lock_class! { static PLANTED: LockClass = ("planted loss", crate::order::FrameList); }
    match what {
        "lost-object" => (0..LOST).for_each(|_| forget(black_box(sync::heap::try_box([1u64; 13])))),
        "lost-block" => (0..LOST).for_each(|_| forget(black_box(sync::heap::try_box_slice(1000, |n| n)))),
        "lost-frame" => (0..LOST).for_each(|_| forget(black_box(frame::alloc_dirty()))),
        "lost-reference" => {
            let page = frame::alloc_dirty();
            page.iter().for_each(|page| (0..LOST).for_each(|_| page.frame().get()));
            *KEPT.lock() = page;
        }
        _ => {}
    }
}
