//! From which NUMA nodes the pages of an object come (mbind(2) of shared memory): ranges of pages with a policy, which stay with the object.
//!
//! An object has none until somebody sets one, and who makes a page resident looks only then. Memory of files that comes from elsewhere goes by the policy
//! of the task that asks for it, as on Linux.
//!
//! Invariants: the ranges are sorted, none is empty and none overlaps another. Lock order: `change` → the ranges' own lock, under which nothing else is taken.
#![forbid(unsafe_code)]

use super::Object;
use crate::error::VmError;
use crate::frame::OwnedFrame;
use crate::once::OnceBox;
use crate::order::ObjectPolicy;
use crate::policy::{self, Place, Policy};
use alloc::vec::Vec;
use core::ops::Range;
use sync::{Mutex, TryVec, lock_class, try_box};

lock_class! {
    static POLICIES: LockClass = ("vm object policies", ObjectPolicy);
}

/// Ranges that an object has at most: a program chooses how many there are, and nobody counts them for it.
const MOST: usize = 1 << 16;

struct Part {
    pages: Range<u64>,
    policy: Policy,
}

/// The policies of an object.
pub(super) struct Policies(OnceBox<Mutex<Vec<Part>, ObjectPolicy>>);

impl Policies {
    pub const fn new() -> Self {
        Self(OnceBox::new())
    }
}

impl Object {
    /// Sets the policy of `pages`; none: new pages go by that of who touches them. What has its pages from elsewhere keeps none. May sleep.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn set_policy(&self, pages: Range<u64>, policy: Policy) -> Result<(), VmError> {
        if self.is_paged() || pages.is_empty() || (policy.is_none() && self.policies.0.get().is_none()) {
            return Ok(());
        }
        let parts = self.policies.0.get_or_try(|| try_box(Mutex::new(Vec::new(), &POLICIES)))?;
        let mut parts = parts.lock();
        // One is cut in two, or one is cut at each end and one comes between them.
        parts.try_reserve(2).map_err(|_| VmError::NoMemory)?;
        if parts.len() >= MOST {
            return Err(VmError::NoMemory);
        }
        let first = parts.partition_point(|part| part.pages.end <= pages.start);
        let behind = parts.partition_point(|part| part.pages.start < pages.end);
        let low = parts.get(first).map(|part| (part.pages.start..pages.start, part.policy));
        let high = behind.checked_sub(1).and_then(|last| parts.get(last));
        let high = high.map(|part| (pages.end..part.pages.end, part.policy));
        let new = (!policy.is_none()).then_some((pages, policy));
        let (low, high) = if first < behind { (low, high) } else { (None, None) };
        parts.drain(first..behind);
        for (pages, policy) in [high, new, low].into_iter().flatten().filter(|(pages, _)| !pages.is_empty()) {
            parts.try_insert(first, Part { pages, policy })?;
        }
        Ok(())
    }

    /// The policy of `page`. May sleep.
    pub fn policy(&self, page: u64) -> Policy {
        let Some(parts) = self.policies.0.get() else { return Policy::NONE };
        let parts = parts.lock();
        let part = parts.get(parts.partition_point(|part| part.pages.end <= page));
        part.filter(|part| part.pages.start <= page).map_or(Policy::NONE, |part| part.policy)
    }

    /// A page of zeros to be `page`, from where it should come. May sleep.
    pub(super) fn alloc_page(&self, page: u64) -> Option<OwnedFrame> {
        if policy::in_use() && self.is_paged() {
            return policy::alloc_cache_page();
        }
        self.place(page).alloc_zeroed()
    }

    /// From where `page` should come. May sleep.
    pub(crate) fn place(&self, page: u64) -> Place {
        // As on Linux, files begin at different nodes.
        Place { policy: self.policy(page), page: page.wrapping_add(self.inode_number as u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Mode, Naming};

    #[test]
    fn policies_cut_what_they_meet() {
        let _one = crate::frame::tests::arena();
        let object = Object::try_new(0).expect("memory");
        let [a, b] =
            [Mode::Bind, Mode::Interleave].map(|mode| Policy::new(mode, Naming::Plain, 1).expect("node 0"));
        let at = |pages: [u64; 6]| pages.map(|page| object.policy(page));
        let none = Policy::NONE;
        object.set_policy(10..20, a).expect("memory");
        assert_eq!(at([9, 10, 15, 19, 20, 99]), [none, a, a, a, none, none]);
        object.set_policy(14..16, b).expect("memory");
        assert_eq!(at([10, 13, 14, 15, 16, 19]), [a, a, b, b, a, a]);
        object.set_policy(12..15, none).expect("memory");
        assert_eq!(at([11, 12, 14, 15, 16, 20]), [a, none, none, b, a, none]);
        object.set_policy(0..100, b).expect("memory");
        assert_eq!(at([0, 11, 12, 15, 99, 100]), [b, b, b, b, b, none]);
    }
}
