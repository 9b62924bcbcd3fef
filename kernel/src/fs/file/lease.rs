//! Leases of open files: who may have one, and whether the file is open to others (fcntl(2)).
//!
//! An open file counts as long as a descriptor, a call or a message refers to it. A mapping outlives it here, where on Linux it keeps it open: so mappings are looked for, too.
#![forbid(unsafe_code)]

use super::File;
use crate::errno::*;
use crate::fs::caller::{self, Capability, Owner, OwnerKind};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::inode::{Inode, Kind};
use crate::fs::vfs::locks::Wanted;

impl File {
    /// May the caller set leases of the file, or end them?
    ///
    /// # Errors
    /// EACCES: it is who else's. EINVAL: such files have none.
    fn check_lease(&self) -> Result {
        let inode = self.inode();
        let regular = inode.kind == Kind::Regular;
        if regular && !inode.ops.takes_leases() {
            return Err(EINVAL);
        }
        if Cred::current().uid != inode.uid() && !caller::capable(Capability::LEASE) {
            return Err(EACCES);
        }
        if regular { Ok(()) } else { Err(EINVAL) }
    }

    /// F_SETLEASE with F_RDLCK or F_WRLCK (`exclusive`), through descriptor `fd`. The caller keeps the file open. May sleep.
    ///
    /// # Errors
    /// As `check_lease`; EAGAIN: others have it open, or leases, that go not with it; EINVAL: leases are not allowed; ENOMEM.
    pub fn set_lease(&self, fd: i32, exclusive: bool) -> Result {
        self.check_lease()?;
        let io = self.need_async_io()?;
        let owner = Owner::find(OwnerKind::Process, caller::tid())?;
        let holder = io.clone();
        let wanted = Wanted { inode: self.inode(), file: self.lock_holder(), exclusive, holder };
        let is_open_to = |exclusive| self.is_open_to_others(exclusive);
        self.inode().locks.set_lease(wanted, &is_open_to, || io.begin_lease(fd, owner))
    }

    /// F_SETLEASE with F_UNLCK.
    ///
    /// # Errors
    /// As `check_lease`; EAGAIN: there is none.
    pub fn end_lease(&self) -> Result {
        self.check_lease()?;
        self.inode().locks.end_lease(self.lock_holder())
    }

    /// F_GETLEASE: exclusive or not, as it is or is to become.
    pub fn lease(&self) -> Option<bool> {
        self.inode().locks.lease(self.lock_holder())
    }

    /// Has anybody the file open so that a lease would not go with it? To read: to write; to write: at all, but for this open file. May sleep.
    fn is_open_to_others(&self, exclusive: bool) -> bool {
        let (inode, flags) = (self.inode(), self.flags());
        let writers = inode.writers.count();
        if !exclusive {
            return writers != 0 || mapped(inode, caller::is_mapped_writable);
        }
        let writes = flags.writes();
        let reads = flags.reads() && !writes && self.path().is_some();
        // Mappings last: who has mapped it closes it afterwards.
        writers != u32::from(writes)
            || !inode.has_readers(u32::from(reads))
            || mapped(inode, caller::is_mapped_by_others)
    }
}

/// Is the inode mapped so that `look` sees it?
fn mapped(inode: &Inode, look: fn(&vm::Object) -> bool) -> bool {
    inode.is_mapped() && inode.object().is_some_and(|object| look(&object))
}
