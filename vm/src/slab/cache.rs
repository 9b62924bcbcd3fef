//! One cache: objects of one size, and mostly of one type.
//!
//! The cache itself is never written after link, so that every CPU may read it, and the compiler knows what it holds: what changes is per
//! CPU ([`OwnSlabs`]), but for the list of all caches, which a cache joins with its first slab.

use super::mail;
use super::own::OwnSlabs;
use super::page::Page;
use crate::addr::PAGE_SIZE;
use crate::frame::poison;
use core::alloc::Layout;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use sync::machine;
use sync::percpu::PerCpu;

/// How a typed cache's objects hold the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container {
    /// Bytes of the object before the value: reference counts.
    pub value_offset: usize,
    /// Bytes and alignment of the whole.
    pub layout: Layout,
}

/// A cache of objects of one size.
#[repr(C)]
pub struct Cache {
    name: &'static str,
    /// The path of the type, empty for a size class.
    type_name: &'static str,
    size: u32,
    value_offset: u32,
    /// The pages of a slab are `1 << order`.
    order: u32,
    per_slab: u32,
    own: &'static PerCpu<OwnSlabs>,
    registration: &'static Registration,
    /// Of what is allocated from it, if that is of one type.
    layout: Layout,
}

/// A cache's place on the list of all caches.
pub struct Registration {
    done: AtomicBool,
    next: AtomicPtr<Cache>,
}

/// Bytes in a cache line.
const LINE: usize = 64;

/// The cache registered last.
static LAST: AtomicPtr<Cache> = AtomicPtr::new(core::ptr::null_mut());

/// What a cache holds, for `/proc/slabinfo`.
#[derive(Clone, Copy, Debug)]
pub struct CacheInfo {
    pub name: &'static str,
    pub type_name: &'static str,
    /// Bytes per object.
    pub size: usize,
    /// Objects in use. Those on their way to the CPU that owns their slab count as used.
    pub used: usize,
    /// Objects there is room for.
    pub objects: usize,
    pub slabs: usize,
    pub objects_per_slab: usize,
    pub pages_per_slab: usize,
}

impl Registration {
    pub const fn new() -> Self {
        Registration { done: AtomicBool::new(false), next: AtomicPtr::new(core::ptr::null_mut()) }
    }
}

impl Default for Registration {
    fn default() -> Self {
        Self::new()
    }
}

/// The smallest slab that wastes at most an eighth.
const fn order_for(size: usize) -> usize {
    let mut order = 0;
    while (PAGE_SIZE << order) % size > (PAGE_SIZE << order) / 8 {
        order += 1;
    }
    order
}

impl Cache {
    /// A cache without a type; `size` is a multiple of a cache line from 64 to 2,048.
    pub(super) const fn of_size(
        name: &'static str,
        size: usize,
        own: &'static PerCpu<OwnSlabs>,
        registration: &'static Registration,
    ) -> Self {
        assert!(size >= LINE && size.is_multiple_of(LINE) && size <= super::heap::LARGEST);
        let order = order_for(size);
        Cache {
            name,
            type_name: "",
            size: size as u32,
            value_offset: 0,
            order: order as u32,
            per_slab: ((PAGE_SIZE << order) / size) as u32,
            own,
            registration,
            layout: Layout::new::<()>(),
        }
    }

    /// A cache of values of one type, each on cache lines of its own.
    pub const fn of_type(
        name: &'static str,
        type_name: &'static str,
        container: Container,
        own: &'static PerCpu<OwnSlabs>,
        registration: &'static Registration,
    ) -> Self {
        let mut cache = Self::of_size(name, Self::size_for(container), own, registration);
        cache.type_name = type_name;
        cache.value_offset = container.value_offset as u32;
        cache.layout = container.layout;
        assert!(container.layout.size() > 0);
        cache
    }

    /// The size of objects with that container.
    pub const fn size_for(container: Container) -> usize {
        let align = if container.layout.align() > LINE { container.layout.align() } else { LINE };
        container.layout.size().next_multiple_of(align)
    }

    pub(super) const fn layout(&self) -> Layout {
        self.layout
    }

    #[cfg(all(debug_assertions, target_os = "none"))]
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) const fn size(&self) -> usize {
        self.size as usize
    }

    pub(crate) const fn order(&self) -> usize {
        self.order as usize
    }

    pub(crate) const fn per_slab(&self) -> usize {
        self.per_slab as usize
    }

    fn die(&self, what: &str, object: *mut u8, offset: usize, word: u64) -> ! {
        panic!("{what}: object {object:p} of {} {} has {word:#x} at {offset:#x}", self.name, self.type_name)
    }

    fn info(&self) -> CacheInfo {
        let (slabs, free) = (0..machine::cpus())
            .map(|cpu| self.own.of(cpu).counts())
            .fold((0, 0), |(slabs, free), own| (slabs + own.0, free + own.1));
        let objects = slabs * self.per_slab();
        CacheInfo {
            name: self.name,
            type_name: self.type_name,
            size: self.size(),
            used: objects.saturating_sub(free),
            objects,
            slabs,
            objects_per_slab: self.per_slab(),
            pages_per_slab: 1 << self.order,
        }
    }

    /// An object with unspecified contents, or null when memory is exhausted.
    #[inline(always)]
    pub(super) fn alloc(&'static self) -> *mut u8 {
        crate::order::assert_no_node_locked();
        let own = self.own.this();
        let object = own.pop();
        let object = if object.is_null() { self.alloc_slow() } else { object };
        if poison::ON && !object.is_null() {
            // SAFETY: a free object, which is ours.
            unsafe { check_free(object) };
        }
        object
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&'static self) -> *mut u8 {
        self.refill();
        self.own.this().pop()
    }

    /// Sees to it that the magazine is not empty. False: no memory.
    #[inline(always)]
    pub(super) fn reserve(&'static self) -> bool {
        self.own.this().has_any() || self.refill()
    }

    #[cold]
    #[inline(never)]
    fn refill(&'static self) -> bool {
        if !self.registration.done.load(Ordering::Relaxed) {
            self.register();
        }
        mail::take_home();
        self.own.this().refill(self)
    }

    /// Puts a free object of another cache on top of this CPU's magazine, where the next allocation finds it.
    ///
    /// # Safety
    /// `object` is of a slab of this CPU, nobody uses it, it is large enough for whoever allocates next, and that happens before anything
    /// else is allocated from or freed to this cache.
    #[inline(always)]
    pub(super) unsafe fn lay_on_top(&'static self, object: *mut u8) {
        let own = self.own.this();
        if !own.push(object) {
            own.spill(self);
            own.push(object);
        }
    }

    /// Takes back an object of any cache.
    ///
    /// # Safety
    /// `object` came from `alloc` of some cache and is not used any more.
    #[inline(always)]
    pub(super) unsafe fn free(object: *mut u8) {
        crate::order::assert_no_node_locked();
        // SAFETY: the caller's promise.
        let page = unsafe { Page::of(object) };
        if poison::ON {
            // SAFETY: nobody uses the object any more.
            unsafe { poison::fill(object, page.cache().size()) };
        }
        if page.owner() != machine::cpu_id() {
            // SAFETY: the caller's promise.
            return unsafe { mail::post(object) };
        }
        if !page.own().push(object) {
            free_slow(page, object);
        }
    }

    #[cold]
    fn register(&'static self) {
        if self.registration.done.swap(true, Ordering::Relaxed) {
            return;
        }
        let this = core::ptr::from_ref(self).cast_mut();
        let mut last = LAST.load(Ordering::Relaxed);
        loop {
            self.registration.next.store(last, Ordering::Relaxed);
            match LAST.compare_exchange_weak(last, this, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }
}

/// Has nobody written the object since it was freed, or since its slab was made?
///
/// # Safety
/// It is a free object from a magazine.
unsafe fn check_free(object: *mut u8) {
    // SAFETY: the caller's promise.
    let page = unsafe { Page::of(object) };
    // SAFETY: as above.
    if let Some((offset, word)) = unsafe { poison::find(object, page.cache().size()) } {
        page.cache().die("written after free", object, offset, word);
    }
}

/// Is what the object has beyond `asked` bytes as it was?
///
/// # Safety
/// The object came from [`Cache::alloc`] and is not used any more.
pub(super) unsafe fn check_tail(object: *mut u8, asked: usize) {
    // SAFETY: the caller's promise.
    let cache = unsafe { Page::of(object) }.cache();
    let from = asked.next_multiple_of(size_of::<u64>()).min(cache.size());
    // SAFETY: within the object.
    if let Some((offset, word)) = unsafe { poison::find(object.add(from), cache.size() - from) } {
        cache.die("written past its end", object, from + offset, word);
    }
}

/// The magazine is full.
#[cold]
#[inline(never)]
fn free_slow(page: Page, object: *mut u8) {
    mail::take_home();
    page.own().spill(page.cache());
    page.own().push(object);
}

/// The cache of a page of a slab.
#[cfg(all(debug_assertions, target_os = "none"))]
pub(crate) fn cache_of(frame: &crate::frame::Frame) -> &'static Cache {
    // SAFETY: the page is a slab's.
    unsafe { Page::of(frame.bytes_ptr()) }.cache()
}

pub(crate) fn each_cache(mut f: impl FnMut(&'static Cache)) {
    let mut next = LAST.load(Ordering::Acquire);
    // SAFETY: the list holds statics, registered whole.
    while let Some(cache) = unsafe { next.as_ref() } {
        f(cache);
        next = cache.registration.next.load(Ordering::Relaxed);
    }
}

/// Visits every cache that was ever used, for `/proc/slabinfo`.
pub fn for_each_cache(f: &mut dyn FnMut(CacheInfo)) {
    each_cache(|cache| f(cache.info()));
}

/// Gives back what this CPU keeps for later: objects to their slabs, wholly free slabs to the frame allocator.
pub fn give_back() {
    mail::send();
    mail::take_home();
    each_cache(|cache| cache.own.this().trim(cache));
    if poison::ON {
        mail::wipe();
        each_cache(|cache| cache.own.this().wipe());
    }
}
