//! Reading and writing another space's memory through the direct map: a new program's stack, /proc/PID/cmdline, process_vm_readv.
//!
//! Invariants: the bytes are copied with the leaf locked, so the entry keeps the frame and a write meets CopyBeforeWrite like a
//! program's. At most one page is copied per lock, which NothingSlowUnderLeaf allows here alone; it is no hot path.
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::error::FaultError;
use crate::frame::SharedBytesMut;
use crate::machine::Machine;
use crate::node::WalkPath;
use crate::order;
use crate::request::Access;
use crate::space::Space;
use sync::rcu;

impl<M: Machine> Space<M> {
    /// Reads `bytes.len()` bytes at `addr`. May sleep.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "no more than the buffer holds, in pages that are mapped"
    )]
    pub fn read_remote(&self, addr: VirtAddr, bytes: &mut [u8]) -> Result<(), FaultError> {
        let mut at = addr.0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = rest.len().min(PAGE_SIZE - at % PAGE_SIZE);
            let (now, later) = rest.split_at_mut_checked(n).ok_or(FaultError::NotMapped)?;
            self.with_page(at, Access { write: false, exec: false, user: false }, &mut |page| {
                if let Some(from) = page.to_read().get(at % PAGE_SIZE..at % PAGE_SIZE + n) {
                    from.copy_to(now);
                }
            })?;
            at += n;
            rest = later;
        }
        Ok(())
    }

    /// Writes `bytes` at `addr`, where the program may write. May sleep.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "no more than the buffer holds, in pages that are mapped"
    )]
    pub fn write_remote(&self, addr: VirtAddr, bytes: &[u8]) -> Result<(), FaultError> {
        let mut at = addr.0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = rest.len().min(PAGE_SIZE - at % PAGE_SIZE);
            let (now, later) = rest.split_at_checked(n).ok_or(FaultError::NotMapped)?;
            self.with_page(at, Access { write: true, exec: false, user: false }, &mut |mut page| {
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
        access: Access,
        f: &mut dyn FnMut(SharedBytesMut<'_>),
    ) -> Result<(), FaultError> {
        let mut order = order::begin();
        loop {
            // Also checks the access.
            self.fault(VirtAddr(addr), access)?;
            let rcu = rcu::read();
            let path = WalkPath::walk::<M>(self.root(), addr, &rcu);
            if !path.node().is_leaf() {
                continue;
            }
            let Some(locked) = path.enter::<M>(&mut order) else { continue };
            let entry = locked.look(path.node().index(addr));
            let usable = !access.write || (path.is_writable::<M>() && M::is_writable(*entry));
            if usable && let Some(page) = entry.bytes::<M>() {
                f(page);
                return Ok(());
            }
        }
    }
}
