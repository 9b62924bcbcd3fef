//! What a futex word is, whatever address it is seen at, and where those lie who wait on it.
#![forbid(unsafe_code)]

use super::bucket::{Place, SHARED};
use super::private::PrivateFutexes;
use crate::arch;
use crate::errno::{Errno, Result};
use crate::memory::Space;
use vm::FutexKey;
use vm::addr::VirtAddr;

/// What a word is known by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word {
    /// The space (private) or the object (shared).
    pub owner: usize,
    /// The address or the offset.
    pub place: usize,
}

/// In the place of a word in memory of one space that is not said to be private: as on Linux, it is another futex than the private one there.
const NOT_SAID_TO_BE_PRIVATE: usize = 1;

/// A futex.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    pub(super) word: Word,
    /// Of memory of one space: where its threads wait.
    private: Option<&'a PrivateFutexes>,
}

impl<'a> Key<'a> {
    /// The futex at `address` of `space`. `private`: only the threads of that space wait on it.
    ///
    /// # Errors
    /// EINVAL: misaligned. EFAULT.
    pub fn of(space: &'a Space, address: usize, private: bool) -> Result<Self> {
        if address & 3 != 0 {
            return Err(Errno::EINVAL);
        }
        if address >= arch::USER_END {
            return Err(Errno::EFAULT);
        }
        let own = Some(&space.attached().futexes);
        if private {
            return Ok(Self { word: Word { owner: space.id() as usize, place: address }, private: own });
        }
        Ok(match space.futex_key(VirtAddr(address)).map_err(|_| Errno::EFAULT)? {
            FutexKey::Private(space, address) => {
                let place = address | NOT_SAID_TO_BE_PRIVATE;
                Self { word: Word { owner: space as usize, place }, private: own }
            }
            FutexKey::Shared(object, offset) => {
                Self { word: Word { owner: object, place: offset as usize }, private: None }
            }
        })
    }

    #[inline]
    fn hash(&self) -> u64 {
        self.word.hash()
    }

    /// Where all wait that the space's own table does not hold.
    fn shared_place(&self) -> Place<'static> {
        Place::in_table(&SHARED, self.hash())
    }

    /// Surely nobody waits for it: what a short look finds that writes nothing. Of wakers behind `presence::before_look`.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        match self.private {
            None => self.shared_place().is_empty(),
            Some(private) if private.some_wait_elsewhere() => false,
            Some(private) => {
                private.buckets().is_none_or(|buckets| Place::in_table(buckets, self.hash()).is_empty())
            }
        }
    }

    /// Where those lie who wait for it: in the table of its space, and in the shared one.
    #[inline(always)]
    pub(super) fn places(&self) -> [Option<Place<'a>>; 2] {
        let Some(private) = self.private else { return [None, Some(self.shared_place())] };
        let own = private.buckets().map(|buckets| Place::in_table(buckets, self.hash()));
        [own, private.some_wait_elsewhere().then(|| self.shared_place())]
    }

    /// Where a thread of the space is to wait for it.
    pub(super) fn place_to_wait(&self) -> Place<'a> {
        let Some(private) = self.private else { return self.shared_place() };
        match private.buckets_or_make() {
            Ok(buckets) => Place::in_table(buckets, self.hash()),
            Err(_) => self.place_elsewhere(),
        }
    }

    /// Where all wait for it who wait in a table: for a futex that lends priority, which has no other place.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn place_with_table(&self) -> Result<Place<'a>> {
        match self.private {
            Some(private) => Ok(Place::in_table(private.buckets_or_make()?, self.hash())),
            None => Ok(self.shared_place()),
        }
    }

    /// Where one waits for it who cannot be in the space's table: who was not in it before, and any if there is no memory for a table.
    pub(super) fn place_elsewhere(&self) -> Place<'a> {
        if let Some(private) = self.private {
            private.wait_elsewhere();
        }
        self.shared_place()
    }

    /// Where one who lies in `from` waits for it after a requeue. Who is in a space's table stays in it, or goes to the shared one; nobody comes into a
    /// space's table from outside, since it lasts no longer than the space.
    pub(super) fn place_after(&self, from: Place<'_>) -> Place<'a> {
        match self.private.and_then(PrivateFutexes::buckets) {
            Some(buckets) if !from.is_shared() => Place::in_table(buckets, self.hash()),
            _ => self.place_elsewhere(),
        }
    }
}

impl Word {
    /// Neighbouring words lie far apart by it: its upper bits choose the bucket, those below the bucket's child.
    pub(super) fn hash(&self) -> u64 {
        ((self.owner.rotate_left(17) ^ (self.place >> 2)) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
