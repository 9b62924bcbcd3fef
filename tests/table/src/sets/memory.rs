//! Options of calls on memory.
#![forbid(unsafe_code)]

use super::State;
use crate::{Opt, Set};
use linux_raw_sys::general;

sets! {
    PROT "protection" choose { } flags { PROT_READ, PROT_WRITE, PROT_EXEC, PROT_SEM hint }
    MPROTECT "protection" choose { }
    flags { PROT_READ, PROT_WRITE, PROT_EXEC, PROT_SEM hint, PROT_GROWSDOWN, PROT_GROWSUP refused "EINVAL" }
    MAP "mmap flags" choose { MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE }
    flags {
        MAP_FIXED, MAP_ANONYMOUS, MAP_32BIT = 0x40, MAP_GROWSDOWN, MAP_DENYWRITE hint, MAP_EXECUTABLE hint,
        MAP_LOCKED, MAP_NORESERVE hint, MAP_POPULATE, MAP_NONBLOCK, MAP_STACK hint, MAP_HUGETLB refused "ENOMEM",
        MAP_SYNC partly "EOPNOTSUPP with MAP_SHARED_VALIDATE", MAP_FIXED_NOREPLACE, MAP_UNINITIALIZED hint
    }
    MREMAP "mremap flags" choose { } flags { MREMAP_MAYMOVE, MREMAP_FIXED, MREMAP_DONTUNMAP }
    MS "msync flags" choose { } flags { MS_ASYNC, MS_INVALIDATE, MS_SYNC }
    MADV "advice" choose {
        MADV_NORMAL hint, MADV_RANDOM hint, MADV_SEQUENTIAL hint, MADV_WILLNEED hint, MADV_DONTNEED, MADV_FREE, MADV_REMOVE,
        MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE hint, MADV_UNMERGEABLE hint, MADV_HUGEPAGE,
        MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_COLD hint, MADV_PAGEOUT hint,
        MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_DONTNEED_LOCKED, MADV_COLLAPSE partly "of private memory; EINVAL of others",
        MADV_HWPOISON refused "EINVAL", MADV_SOFT_OFFLINE refused "EINVAL"
    } flags { }
    PROCESS_MADV "advice for a process" choose {
        MADV_NORMAL refused "EINVAL", MADV_RANDOM refused "EINVAL", MADV_SEQUENTIAL refused "EINVAL", MADV_WILLNEED hint,
        MADV_DONTNEED refused "EINVAL", MADV_FREE refused "EINVAL", MADV_COLD hint, MADV_PAGEOUT hint,
        MADV_COLLAPSE partly "of private memory; EINVAL of others"
    } flags { }
    MCL "mlockall flags" choose { } flags { MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT }
    /// The mode, and what the nodes mean.
    MPOL "memory policy" choose {
        MPOL_DEFAULT = 0, MPOL_PREFERRED = 1, MPOL_BIND = 2, MPOL_INTERLEAVE = 3, MPOL_LOCAL = 4, MPOL_PREFERRED_MANY = 5,
        MPOL_WEIGHTED_INTERLEAVE = 6
    } flags {
        MPOL_F_STATIC_NODES = 0x8000, MPOL_F_RELATIVE_NODES = 0x4000, MPOL_F_NUMA_BALANCING = 0x2000 refused "EINVAL"
    }
    MPOL_MF "mbind flags" choose { } flags { MPOL_MF_STRICT = 1, MPOL_MF_MOVE = 2, MPOL_MF_MOVE_ALL = 4 }
    MOVE_PAGES "move_pages flags" choose { } flags { MPOL_MF_MOVE = 2, MPOL_MF_MOVE_ALL = 4 }
    MPOL_GET "get_mempolicy flags" choose { } flags { MPOL_F_NODE = 1, MPOL_F_ADDR = 2, MPOL_F_MEMS_ALLOWED = 4 }
    MLOCK2 "mlock2 flags" choose { } flags { MLOCK_ONFAULT }
}
