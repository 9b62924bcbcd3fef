//! How many have a regular file open to read alone, for who wants a lease to write (`locks::lease`).
//!
//! Who opens or closes a file writes no line of another CPU: each CPU counts in two tables of its own, at places that two hashes of the inode's address give, and
//! somebody who asks adds up the CPUs. `sync::protocol::readers` says why none is missed.
//!
//! Others' files may share a place. A file that nobody else has open is taken for one that somebody has if both of its places are shared: with n other files
//! open to read (each counted once, however often) in about (n / 2048)² of the cases, 1 in 400 with 100 files. A lease is refused then that Linux grants.
#![forbid(unsafe_code)]

use sync::per_cpu;
use sync::protocol::readers::{self, Count};

use super::inode::Inode;

const PLACE_BITS: u32 = 11;
const PLACES: usize = 1 << PLACE_BITS;

struct Tables([[Count; PLACES]; 2]);

per_cpu! {
    static OPEN: Tables = Tables([const { [const { Count::new() }; PLACES] }; 2]);
}

/// Where an inode is counted, in each table.
#[inline(always)]
fn places(inode: &Inode) -> [usize; 2] {
    // The golden ratio's bits. The upper ones of the product depend on the whole lower half of the address.
    let hash = (core::ptr::from_ref(inode).addr() as u32).wrapping_mul(0x9e37_79b9);
    let first = hash >> (32 - PLACE_BITS);
    let second = hash >> (32 - 2 * PLACE_BITS);
    [first, second].map(|n| n as usize % PLACES)
}

/// Does `count` with the places of `inode` on this CPU.
#[inline(always)]
fn each(inode: &Inode, count: impl Fn(&Count)) {
    let [first, second] = &OPEN.this().0;
    let [one, other] = places(inode);
    count(&first[one]);
    count(&second[other]);
}

impl Inode {
    /// One more has it open to read alone, until `end_read`. True: somebody has a lease of it, or is about to.
    #[inline(always)]
    pub fn begin_read(&self) -> bool {
        // Who is about to have one waits until the section has ended.
        let _read = sync::rcu::read();
        each(self, Count::open);
        self.locks.is_leased()
    }

    #[inline(always)]
    pub fn end_read(&self) {
        each(self, Count::close);
    }

    /// Do as many as `count` have it open to read alone, and no more? Others' files may count, so that it is not true though it were.
    pub fn has_readers(&self, count: u32) -> bool {
        let [one, other] = places(self);
        let of = |table: usize, place: usize| readers::open(|| OPEN.iter().map(move |t| &t.0[table][place]));
        of(0, one) == count || of(1, other) == count
    }
}

#[cfg(test)]
mod tests {
    use crate::fs::vfs::inode::{Inode, Kind, NewInode};
    use crate::fs::vfs::operations::Plain;
    use std::boxed::Box;
    use std::vec::Vec;

    fn inode(number: u64) -> std::sync::Arc<Inode> {
        let new = NewInode { kind: Kind::Regular, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
        Inode::try_new(number, 1, &new, Box::new(Plain)).unwrap()
    }

    #[test]
    fn readers_are_counted_and_few_of_others() {
        let inodes: Vec<_> = (0..100).map(inode).collect();
        inodes.iter().for_each(|inode| assert!(!inode.begin_read()));
        inodes[0].begin_read();
        let wrong = inodes[1..].iter().filter(|inode| !inode.has_readers(1)).count();
        assert!(wrong < 5, "{wrong} of 99 share both of their places");
        assert!(!inodes[0].has_readers(1), "two have it open");
        inodes.iter().for_each(|inode| inode.end_read());
        inodes[0].end_read();
        let wrong = inodes.iter().filter(|inode| !inode.has_readers(0)).count();
        assert!(wrong < 5, "{wrong} of 100");
    }
}
