//! Reading and writing another space's memory through the direct map: a new program's stack, /proc/PID/cmdline, process_vm_readv(2), ptrace(2).
//!
//! Invariants: the bytes are copied with the leaf locked, so the entry keeps the frame and a write meets CopyBeforeWrite like a
//! program's. At most one page is copied per lock, which NothingSlowUnderLeaf allows here alone; it is no hot path.
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::error::FaultError;
use crate::frame::{SharedBytes, SharedBytesMut};
use crate::machine::Machine;
use crate::node::WalkPath;
use crate::order;
use crate::protocol::share::Write;
use crate::request::{Access, Prot};
use crate::space::Space;
use core::ops::Range;
use sync::rcu;

/// Whose wish it is that memory is read or written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The kernel's own, or the program's: what any of its instructions might touch.
    Owner,
    /// Another process's. As Linux has it, it needs the right to read for reading, which a program itself does not, and no stack grows for it.
    Other,
    /// Its tracer's: it reads whatever is mapped, and writes private memory that the program may not write, which gets a copy of its own as by any write.
    Tracer,
}

impl<M: Machine> Space<M> {
    /// Reads `bytes.len()` bytes at `addr`. May sleep.
    pub fn read_remote(&self, addr: VirtAddr, bytes: &mut [u8]) -> Result<(), FaultError> {
        self.read_by(By::Owner, addr, bytes)
    }

    /// Writes `bytes` at `addr`, where the program may write. May sleep.
    pub fn write_remote(&self, addr: VirtAddr, bytes: &[u8]) -> Result<(), FaultError> {
        self.write_by(By::Owner, addr, bytes)
    }

    /// As `read_remote`, for another process, which may read only what is mapped with the right to read.
    pub fn read_for_other(&self, addr: VirtAddr, bytes: &mut [u8]) -> Result<(), FaultError> {
        self.read_by(By::Other, addr, bytes)
    }

    /// As `write_remote`, for another process.
    pub fn write_for_other(&self, addr: VirtAddr, bytes: &[u8]) -> Result<(), FaultError> {
        self.write_by(By::Other, addr, bytes)
    }

    /// As `read_remote`, for a tracer.
    pub fn read_for_tracer(&self, addr: VirtAddr, bytes: &mut [u8]) -> Result<(), FaultError> {
        self.read_by(By::Tracer, addr, bytes)
    }

    /// As `write_remote`, for a tracer.
    pub fn write_for_tracer(&self, addr: VirtAddr, bytes: &[u8]) -> Result<(), FaultError> {
        self.write_by(By::Tracer, addr, bytes)
    }

    /// Shows `f`, for another process, the `len` bytes at `addr`, which lie in one page. `f` is called once, under the leaf's lock: it does not sleep and takes no
    /// lock. May sleep before.
    pub fn show_to_other(
        &self,
        addr: VirtAddr,
        len: usize,
        f: &mut dyn FnMut(SharedBytes<'_>),
    ) -> Result<(), FaultError> {
        self.with_page(addr.0, By::Other, false, &mut |page| {
            if let Some(bytes) = part(addr.0, len).and_then(|part| page.to_read().get(part)) {
                f(bytes);
            }
        })
    }

    /// The same, to be written.
    pub fn lend_to_other(
        &self,
        addr: VirtAddr,
        len: usize,
        f: &mut dyn FnMut(SharedBytesMut<'_>),
    ) -> Result<(), FaultError> {
        self.with_page(addr.0, By::Other, true, &mut |mut page| {
            if let Some(bytes) = part(addr.0, len).and_then(|part| page.get_mut(part)) {
                f(bytes);
            }
        })
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "no more than the buffer holds, in pages that are mapped"
    )]
    fn read_by(&self, by: By, addr: VirtAddr, bytes: &mut [u8]) -> Result<(), FaultError> {
        let mut at = addr.0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = rest.len().min(PAGE_SIZE - at % PAGE_SIZE);
            let (now, later) = rest.split_at_mut_checked(n).ok_or(FaultError::NotMapped)?;
            self.with_page(at, by, false, &mut |page| {
                if let Some(from) = page.to_read().get(at % PAGE_SIZE..at % PAGE_SIZE + n) {
                    from.copy_to(now);
                }
            })?;
            at += n;
            rest = later;
        }
        Ok(())
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "no more than the buffer holds, in pages that are mapped"
    )]
    fn write_by(&self, by: By, addr: VirtAddr, bytes: &[u8]) -> Result<(), FaultError> {
        let mut at = addr.0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = rest.len().min(PAGE_SIZE - at % PAGE_SIZE);
            let (now, later) = rest.split_at_checked(n).ok_or(FaultError::NotMapped)?;
            self.with_page(at, by, true, &mut |mut page| {
                if let Some(mut to) = page.get_mut(at % PAGE_SIZE..at % PAGE_SIZE + n) {
                    to.copy_from(now.into());
                }
            })?;
            at += n;
            rest = later;
        }
        Ok(())
    }

    fn with_page(
        &self,
        addr: usize,
        by: By,
        write: bool,
        f: &mut dyn FnMut(SharedBytesMut<'_>),
    ) -> Result<(), FaultError> {
        let access = Access { write, exec: false, foreign: by != By::Owner, forced: by == By::Tracer };
        if addr >= M::USER_END {
            return Err(FaultError::NotMapped);
        }
        let mut order = order::begin();
        // Of a new program's stack nothing is there; what another process looks at mostly is.
        let mut is_sought = by == By::Owner;
        loop {
            if is_sought {
                // Also checks the access.
                self.fault(VirtAddr(addr), access)?;
            }
            is_sought = true;
            let rcu = rcu::read();
            let path = WalkPath::walk::<M>(self.root(), addr, &rcu);
            if !path.node().is_leaf() {
                continue;
            }
            let Some(locked) = path.enter::<M>(&mut order) else { continue };
            let index = path.node().index(addr);
            let entry = locked.look(index);
            let mut usable = !write || (path.is_writable::<M>() && M::is_writable(*entry));
            if by != By::Owner {
                let Some(segment) = locked.segments.find(index) else { continue };
                let attrs = &segment.attrs;
                // What is in quarantine has no rights.
                let may = access.allowed(attrs.prot) && (write || attrs.prot.contains(Prot::READ));
                if !may && (attrs.is_quarantine() || !access.is_forced_on(attrs.is_shared())) {
                    return Err(FaultError::Denied);
                }
                // The entry of what the program may not write never says so: it is asked who else has the page.
                if by == By::Tracer && write && path.is_writable::<M>() && entry.is_page() {
                    usable =
                        matches!(entry.write::<M>(segment, &self.forking), Write::There | Write::InPlace);
                }
            }
            if usable && let Some(page) = entry.bytes::<M>() {
                f(page);
                return Ok(());
            }
        }
    }
}

/// The part of its page that the `len` bytes at `addr` are.
fn part(addr: usize, len: usize) -> Option<Range<usize>> {
    let start = addr % PAGE_SIZE;
    Some(start..start.checked_add(len)?)
}
