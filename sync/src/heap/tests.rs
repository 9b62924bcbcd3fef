use super::*;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

#[test]
fn what_is_allocated_holds_the_value() {
    assert_eq!(*try_box([3u8; 100]).unwrap(), [3; 100]);
    assert_eq!(*try_box(()).unwrap(), ());
    assert_eq!(*try_arc(5).unwrap(), 5);
    let me = try_arc_cyclic(|weak: &Weak<Option<Weak<u8>>>| {
        assert!(weak.upgrade().is_none());
        None
    })
    .unwrap();
    assert!(me.is_none());
    let mut v = Vec::try_from_slice(&[1, 2]).unwrap();
    v.try_insert(0, 0).unwrap();
    v.try_insert(99, 3).unwrap();
    v.try_extend([4, 5]).unwrap();
    v.try_resize(7, 9).unwrap();
    assert_eq!(v, vec![0, 1, 2, 3, 4, 5, 9]);
}

#[test]
fn a_failed_allocation_is_an_error_and_drops_the_value() {
    let token = Arc::new(());
    hosted::fail_after(0, || {
        assert_eq!(try_box(token.clone()).err(), Some(AllocError));
        assert!(try_arc(token.clone()).is_err());
        assert!(Vec::new().try_push(token.clone()).is_err());
        assert!(String::try_from_str("a").is_err());
        assert!(write!(Text(&mut String::new()), "{}", 1).is_err());
    });
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn the_nth_allocation_fails_and_those_before_it_do_not() {
    let done = hosted::fail_after(2, || (0..4).map(|i| try_box(i).is_ok()).collect::<Vec<_>>());
    assert_eq!(done, [true, true, false, false]);
    assert!(try_box(0).is_ok());
}

/// The tests' allocator: std's, and each thread knows its last request.
struct Noting;

std::thread_local! {
    static LAST: core::cell::Cell<Option<Layout>> = const { core::cell::Cell::new(None) };
}

// SAFETY: std's allocator does the work.
unsafe impl core::alloc::GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LAST.try_with(|last| last.set(Some(layout)));
        // SAFETY: as the caller promises.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { std::alloc::System.dealloc(block, layout) }
    }
}

#[global_allocator]
static NOTING: Noting = Noting;

/// A block of another size would be laid out where the request of `Arc::new` does not find it.
#[test]
fn the_layout_of_an_arc_is_what_it_allocates() {
    #[repr(align(64))]
    struct Wide(#[allow(dead_code)] u8);
    fn check<T>(value: T) {
        let arc = Arc::new(value);
        let asked = LAST.get();
        assert_eq!(asked, Some(arc_layout::<T>()));
        let block = Arc::as_ptr(&arc).addr() - arc_value_offset::<T>();
        assert_eq!(block % arc_layout::<T>().align(), 0);
    }
    check(0u64);
    check([0u8; 100]);
    check(Wide(1));
    assert_eq!(arc_layout::<u64>().size(), 24);
}

#[test]
fn what_has_a_cache_of_its_own_comes_from_there() {
    struct Own(Arc<()>);
    impl SlabType for Own {
        // SAFETY: hosted, nothing but the layout is used.
        const CACHE: SlabCache = unsafe { SlabCache::new(core::ptr::null(), Layout::new::<Own>()) };
    }
    let token = Arc::new(());
    assert_eq!(Arc::strong_count(&slab_box(Own(token.clone())).unwrap().0), 2);
    hosted::fail_after(0, || assert!(slab_box(Own(token.clone())).is_err()));
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn an_impossible_size_is_an_error() {
    assert!(try_vec::<u64>(usize::MAX / 4).is_err());
}
