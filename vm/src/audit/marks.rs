//! What an audit remembers: for each object whether it was found, for each frame how many own it.
//!
//! Memory is divided into chunks of 2 MiB. What the kinds of frames were when the audit began is what it goes by, so that a frame that changes
//! hands meanwhile is not taken for what it is not.

use crate::addr::PAGE_SIZE;
use crate::frame::{self, Frame, FrameKind};
use crate::slab::{self, Cache};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use sync::AllocError;
use sync::heap::{TryVec, try_box_slice, try_vec};

/// Pages of a chunk.
const PAGES: usize = 512;
/// Objects lie on whole lines.
const LINE: usize = 64;
const LINES: usize = PAGE_SIZE / LINE;

/// Frames that the memory of a chunk's marks takes, at most, and those that others may take while they are made.
const FRAMES_OF_CHUNK: usize = 4;
const SPARE: usize = 1024;

/// What lies in a page, as a number: nothing that is followed, a block of the heap or what follows its first page (order less than BLOCKS), or
/// an object of the cache with that number, from CACHES on.
const NOTHING: u8 = 0;
const BLOCKS: u8 = 1;
const CACHES: u8 = 32;

struct Chunk {
    /// A bit for each line.
    found: Box<[u64]>,
    owned: Box<[u32]>,
    pointed: Box<[u32]>,
    what: Box<[u8]>,
}

pub(super) enum What {
    Object(&'static Cache),
    /// Of so many pages, as a power of two.
    Block(usize),
    Other,
}

pub(super) struct Marks {
    chunks: Vec<Option<Chunk>>,
    used: Vec<&'static Frame>,
    caches: Vec<&'static Cache>,
    /// Objects, blocks and page tables there are.
    most: usize,
}

pub(super) fn order_of(block: &Frame) -> usize {
    // SAFETY: read alone.
    usize::from(unsafe { block.flags() }.load(Relaxed))
}

impl Marks {
    /// Writes down what lies where. What is allocated meanwhile is left out, or in with nothing that leads there ([`Self::mark_own`]).
    pub fn try_new() -> Result<Self, AllocError> {
        let end = frame::end_of_numbers() as usize;
        let (chunks, used) =
            (end.div_ceil(PAGES), frame::every().filter(|frame| frame.kind() != FrameKind::Free).count());
        // With what the marks themselves take, and what others take meanwhile: a frame that was left out would be one of the highest, a stack perhaps, and all that it
        // alone leads to would seem lost.
        let room = used + used / 4 + chunks * FRAMES_OF_CHUNK + SPARE;
        let mut marks = Marks {
            chunks: try_vec(chunks)?,
            used: try_vec(room)?,
            caches: try_vec(usize::from(u8::MAX - CACHES))?,
            most: 0,
        };
        slab::each_cache(|cache| _ = marks.caches.push_reserved(cache));
        while marks.chunks.push_reserved(None).is_ok() {}
        for frame in frame::every().filter(|frame| frame.kind() != FrameKind::Free) {
            let chunk = frame.number() as usize / PAGES;
            if marks.chunks.get(chunk).is_some_and(Option::is_none) {
                marks.chunks[chunk] = Some(Chunk::try_new()?);
            }
            marks.used.push_reserved(frame).map_err(|_| AllocError)?;
            marks.note(frame);
        }
        Ok(marks)
    }

    fn note(&mut self, frame: &Frame) {
        let number = frame.number();
        match frame.kind() {
            FrameKind::Block => {
                self.most += 1;
                let order = order_of(frame).min(frame::MAX_ORDER);
                (number..number + (1 << order)).for_each(|page| self.set(page, BLOCKS + order as u8));
            }
            FrameKind::Slab => {
                let cache = slab::cache_of(frame);
                if let Some(n) = self.caches.iter().position(|one| core::ptr::eq(*one, cache)) {
                    self.most += PAGE_SIZE / LINE;
                    self.set(number, CACHES + n as u8);
                }
            }
            FrameKind::Table => self.most += 1,
            _ => {}
        }
    }

    /// The frames in use, lowest first.
    pub fn used(&self) -> &[&'static Frame] {
        &self.used
    }

    /// No more than so many things are ever marked.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The memory of the marks: found, and not looked at.
    pub fn mark_own(&mut self) {
        self.mark(self.caches.as_ptr() as usize);
        self.mark(self.used.as_ptr() as usize);
        self.mark(self.chunks.as_ptr() as usize);
        for n in 0..self.chunks.len() {
            let addresses = self.chunks[n].as_ref().map(Chunk::addresses);
            addresses.into_iter().flatten().for_each(|address| _ = self.mark(address));
        }
    }

    fn chunk(&self, page: u32) -> Option<&Chunk> {
        self.chunks.get(page as usize / PAGES)?.as_ref()
    }

    fn chunk_mut(&mut self, page: u32) -> Option<&mut Chunk> {
        self.chunks.get_mut(page as usize / PAGES)?.as_mut()
    }

    fn set(&mut self, page: u32, what: u8) {
        if let Some(chunk) = self.chunk_mut(page) {
            chunk.what[page as usize % PAGES] = what;
        }
    }

    fn what_is(&self, page: u32) -> u8 {
        self.chunk(page).map_or(NOTHING, |chunk| chunk.what[page as usize % PAGES])
    }

    /// Where the object or block begins into which `address` points.
    pub fn object_at(&self, address: usize) -> Option<usize> {
        let frame = frame::with_page_at(address)?;
        let base = address & !(PAGE_SIZE - 1);
        match self.what_is(frame.number()) {
            NOTHING => None,
            block @ BLOCKS..CACHES => {
                let first = frame.number() & !((1 << (block - BLOCKS)) - 1);
                Some(base - (frame.number() - first) as usize * PAGE_SIZE)
            }
            cache => {
                let cache = self.caches.get(usize::from(cache - CACHES))?;
                let first = frame.number() & !((1 << cache.order()) - 1);
                let start = base - (frame.number() - first) as usize * PAGE_SIZE;
                let n = (address - start) / cache.size();
                (n < cache.per_slab()).then_some(start + n * cache.size())
            }
        }
    }

    pub fn what(&self, object: usize) -> What {
        let what = frame::with_page_at(object).map_or(NOTHING, |frame| self.what_is(frame.number()));
        match what {
            NOTHING => What::Other,
            block @ BLOCKS..CACHES => What::Block(usize::from(block - BLOCKS)),
            cache => {
                self.caches.get(usize::from(cache - CACHES)).map_or(What::Other, |cache| What::Object(cache))
            }
        }
    }

    /// Where the mark of an object at `address` lies.
    fn place(address: usize) -> Option<(u32, usize, u64)> {
        let number = frame::with_page_at(address)?.number();
        let line = number as usize % PAGES * LINES + address % PAGE_SIZE / LINE;
        Some((number, line / 64, 1 << (line % 64)))
    }

    /// Marks the object at `address`, or in which it lies; false: it was marked, or is none.
    pub fn mark(&mut self, address: usize) -> bool {
        let object = self.object_at(address).unwrap_or(address);
        let Some((number, word, bit)) = Self::place(object) else { return false };
        let Some(chunk) = self.chunk_mut(number) else { return false };
        let new = chunk.found[word] & bit == 0;
        chunk.found[word] |= bit;
        new
    }

    fn is_marked(&self, object: usize) -> bool {
        Self::place(object)
            .and_then(|(number, word, bit)| Some(self.chunk(number)?.found[word] & bit != 0))
            .unwrap_or(true)
    }

    /// A reference of its own.
    pub fn own(&mut self, frame: &Frame) {
        if let Some(chunk) = self.chunk_mut(frame.number()) {
            chunk.owned[frame.number() as usize % PAGES] += 1;
        }
    }

    /// An address of the frame, or of its page, which may be a reference.
    pub fn point(&mut self, frame: &Frame) {
        if let Some(chunk) = self.chunk_mut(frame.number()) {
            chunk.pointed[frame.number() as usize % PAGES] += 1;
        }
    }

    /// How often it is owned, and how often its address was seen.
    pub fn references(&self, frame: &Frame) -> (u32, u32) {
        let n = frame.number() as usize % PAGES;
        self.chunk(frame.number()).map_or((0, 0), |chunk| (chunk.owned[n], chunk.pointed[n]))
    }

    /// Calls `f` with the cache and the address of what is in use and was not found.
    pub fn each_unmarked(&self, mut f: impl FnMut(&'static str, usize)) {
        for frame in &self.used {
            let start = frame.bytes_ptr() as usize;
            match self.what(start) {
                What::Block(_) if self.object_at(start) == Some(start) && !self.is_marked(start) => {
                    f("heap block", start);
                }
                What::Object(cache) if frame.number().trailing_zeros() as usize >= cache.order() => {
                    let objects = (0..cache.per_slab()).map(|n| start + n * cache.size());
                    objects
                        .filter(|object| !self.is_marked(*object) && !cache.is_free(*object))
                        .for_each(|object| f(cache.name(), object));
                }
                _ => {}
            }
        }
    }
}

impl Chunk {
    fn try_new() -> Result<Self, AllocError> {
        Ok(Self {
            found: try_box_slice(PAGES * LINES / 64, |_| 0)?,
            owned: try_box_slice(PAGES, |_| 0)?,
            pointed: try_box_slice(PAGES, |_| 0)?,
            what: try_box_slice(PAGES, |_| NOTHING)?,
        })
    }

    fn addresses(&self) -> [usize; 4] {
        let (found, owned, pointed) = (self.found.as_ptr(), self.owned.as_ptr(), self.pointed.as_ptr());
        [found as usize, owned as usize, pointed as usize, self.what.as_ptr() as usize]
    }
}
