//! Flags of open files.
#![forbid(unsafe_code)]

bitflags::bitflags! {
    /// Flags of open(2), with their numbers on x86-64.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        const WRITE_ONLY = 0o1;
        const READ_WRITE = 0o2;
        const CREATE = 0o100;
        const EXCLUSIVE = 0o200;
        const NO_CTTY = 0o400;
        const TRUNCATE = 0o1000;
        const APPEND = 0o2000;
        const NONBLOCK = 0o4000;
        const DSYNC = 0o10000;
        const ASYNC = 0o20000;
        const DIRECT = 0o40000;
        const LARGEFILE = 0o100000;
        const DIRECTORY = 0o200000;
        const NOFOLLOW = 0o400000;
        const NOATIME = 0o1000000;
        const CLOEXEC = 0o2000000;
        const SYNC = 0o4000000;
        const PATH = 0o10000000;
        const TMPFILE = 0o20000000;
    }
}

impl OpenFlags {
    /// Those that F_SETFL may change; ASYNC is `File::set_async`'s.
    pub const SETTABLE: OpenFlags =
        OpenFlags::APPEND.union(OpenFlags::NONBLOCK).union(OpenFlags::DIRECT).union(OpenFlags::NOATIME);

    /// 3: neither read nor write, but what may do both can open it.
    pub fn is_for_ioctl(self) -> bool {
        self.bits() & 3 == 3 && !self.contains(OpenFlags::PATH)
    }

    pub fn reads(self) -> bool {
        matches!(self.bits() & 3, 0 | 2) && !self.contains(OpenFlags::PATH)
    }

    pub fn writes(self) -> bool {
        matches!(self.bits() & 3, 1 | 2) && !self.contains(OpenFlags::PATH)
    }
}
