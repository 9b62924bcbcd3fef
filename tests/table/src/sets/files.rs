//! Options of calls on files and paths.
#![forbid(unsafe_code)]

use super::State;
use crate::{Opt, Set};
use linux_raw_sys::general;

sets! {
    OPEN "open flags"
    choose { O_RDONLY, O_WRONLY, O_RDWR, O_ACCMODE }
    flags {
        O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, O_APPEND, O_NONBLOCK, O_DSYNC, O_SYNC,
        FASYNC,
        O_DIRECT hint,
        O_LARGEFILE, O_DIRECTORY, O_NOFOLLOW, O_NOATIME, O_CLOEXEC, O_PATH,
        O_TMPFILE = 0o20200000
    }
    /// TIOCGPTPEER's.
    PEER "flags of a terminal's other end"
    choose { O_RDONLY, O_WRONLY, O_RDWR, O_ACCMODE }
    flags {
        O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, O_APPEND, O_NONBLOCK, O_DSYNC, O_SYNC, FASYNC, O_DIRECT refused "EINVAL", O_LARGEFILE,
        O_DIRECTORY, O_NOFOLLOW, O_NOATIME, O_CLOEXEC, O_PATH, O_TMPFILE = 0o20200000
    }
    /// From where a record lock counts.
    LOCK_FROM "whence" choose { SEEK_SET, SEEK_CUR, SEEK_END } flags { }
    SEEK "whence" choose { SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE } flags { }
    ACCESS "access mode" choose { } flags { R_OK = 4, W_OK = 2, X_OK = 1 }
    POLL "poll events" choose { }
    flags { POLLIN = 1, POLLPRI = 2, POLLOUT = 4, POLLRDNORM = 0x40, POLLRDBAND = 0x80, POLLWRNORM = 0x100, POLLWRBAND = 0x200, POLLRDHUP = 0x2000 }
    EPOLL "epoll events" choose { }
    flags {
        EPOLLIN = 1, EPOLLPRI = 2, EPOLLOUT = 4, EPOLLRDNORM = 0x40, EPOLLRDBAND = 0x80, EPOLLWRNORM = 0x100, EPOLLWRBAND = 0x200,
        EPOLLRDHUP = 0x2000, EPOLLEXCLUSIVE = 0x1000_0000, EPOLLWAKEUP = 0x2000_0000 hint, EPOLLONESHOT = 0x4000_0000,
        EPOLLET = 0x8000_0000
    }
    EPOLL_CTL "epoll_ctl command" choose { EPOLL_CTL_ADD = 1, EPOLL_CTL_DEL = 2, EPOLL_CTL_MOD = 3 } flags { }
    EPOLL_NEW "epoll_create1 flags" choose { } flags { EPOLL_CLOEXEC }
    EVENTFD "eventfd flags" choose { } flags { EFD_SEMAPHORE = 1, EFD_NONBLOCK = 0o4000, EFD_CLOEXEC = 0o2000000 }
    /// SFD_*, TFD_*, IN_*: the same two.
    NEW_FILE "flags of a new descriptor" choose { } flags { O_NONBLOCK, O_CLOEXEC }
    INOTIFY "inotify events and flags" choose { }
    flags {
        IN_ACCESS = 1, IN_MODIFY = 2, IN_ATTRIB = 4, IN_CLOSE_WRITE = 8, IN_CLOSE_NOWRITE = 0x10, IN_OPEN = 0x20, IN_MOVED_FROM = 0x40,
        IN_MOVED_TO = 0x80, IN_CREATE = 0x100, IN_DELETE = 0x200, IN_DELETE_SELF = 0x400, IN_MOVE_SELF = 0x800, IN_UNMOUNT = 0x2000,
        IN_Q_OVERFLOW = 0x4000, IN_IGNORED = 0x8000, IN_ONLYDIR = 0x0100_0000, IN_DONT_FOLLOW = 0x0200_0000,
        IN_EXCL_UNLINK = 0x0400_0000, IN_MASK_CREATE = 0x1000_0000, IN_MASK_ADD = 0x2000_0000, IN_ISDIR = 0x4000_0000,
        IN_ONESHOT = 0x8000_0000
    }
    PIPE2 "pipe2 flags" choose { }
    flags { O_NONBLOCK, O_CLOEXEC, O_DIRECT, O_NOTIFICATION_PIPE = 0o200 refused "EINVAL" }
    DUP3 "dup3 flags" choose { } flags { O_CLOEXEC }
    CLOSE_RANGE "close_range flags" choose { } flags { CLOSE_RANGE_CLOEXEC = 4, CLOSE_RANGE_UNSHARE = 2 }
    FLOCK_HOW "flock operation" choose { LOCK_SH = 1, LOCK_EX = 2, LOCK_UN = 8 } flags { LOCK_NB = 4 }
    LOCK_KIND "kind of lock" choose { F_RDLCK = 0, F_WRLCK = 1, F_UNLCK = 2 } flags { }
    NODE "kind and mode of a node" choose { S_IFREG, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK, S_IFDIR refused "EPERM" }
    flags { S_ISUID, S_ISGID, S_ISVTX, S_IRUSR, S_IWUSR, S_IXUSR }
    AT_PATH "flags of a path" choose { } flags { AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH }
    AT_STAT "flags of fstatat" choose { }
    flags { AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_NO_AUTOMOUNT hint, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC hint }
    AT_STATX "flags of statx" choose { }
    flags { AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_NO_AUTOMOUNT hint, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC hint }
    STATX_MASK "fields of statx" choose { }
    flags {
        STATX_BASIC_STATS, STATX_BTIME, STATX_MNT_ID, STATX_DIOALIGN partly "never told", STATX_MNT_ID_UNIQUE,
        STATX_SUBVOL = 0x8000 partly "never told"
    }
    AT_ACCESS "flags of faccessat2" choose { } flags { AT_EACCESS, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH }
    AT_UNLINK "flags of unlinkat" choose { } flags { AT_REMOVEDIR }
    AT_LINK "flags of linkat" choose { } flags { AT_SYMLINK_FOLLOW, AT_EMPTY_PATH }
    AT_HANDLE "flags of name_to_handle_at" choose { }
    flags { AT_SYMLINK_FOLLOW, AT_EMPTY_PATH, AT_HANDLE_FID = 0x200, AT_HANDLE_MNT_ID_UNIQUE = 1 }
    LISTMOUNT "flags of listmount" choose { } flags { LISTMOUNT_REVERSE = 1 }
    STATMOUNT "what statmount tells" choose { }
    flags {
        STATMOUNT_SB_BASIC = 1, STATMOUNT_MNT_BASIC = 2, STATMOUNT_PROPAGATE_FROM = 4, STATMOUNT_MNT_ROOT = 8, STATMOUNT_MNT_POINT = 16,
        STATMOUNT_FS_TYPE = 32, STATMOUNT_MNT_NS_ID = 64, STATMOUNT_MNT_OPTS = 128
    }
    AT_SETATTR "flags of mount_setattr" choose { }
    flags { AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT hint, AT_EMPTY_PATH, AT_RECURSIVE = 0x8000 }
    MOUNT_ALLOWS "what a mount allows" choose { }
    flags {
        MOUNT_ATTR_RDONLY = 1, MOUNT_ATTR_NOSUID = 2, MOUNT_ATTR_NODEV = 4, MOUNT_ATTR_NOEXEC = 8, MOUNT_ATTR_NOATIME = 0x10,
        MOUNT_ATTR_STRICTATIME = 0x20, MOUNT_ATTR_NODIRATIME = 0x80, MOUNT_ATTR_IDMAP = 0x100000 refused "EINVAL", MOUNT_ATTR_NOSYMFOLLOW = 0x200000
    }
    MOUNT_ALLOWED "what a mount allowed" choose { }
    flags {
        MOUNT_ATTR_RDONLY = 1, MOUNT_ATTR_NOSUID = 2, MOUNT_ATTR_NODEV = 4, MOUNT_ATTR_NOEXEC = 8, MOUNT_ATTR__ATIME = 0x70,
        MOUNT_ATTR_NODIRATIME = 0x80, MOUNT_ATTR_NOSYMFOLLOW = 0x200000
    }
    OPEN_TREE "flags of open_tree" choose { }
    flags {
        OPEN_TREE_CLONE = 1, AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT hint, AT_EMPTY_PATH, AT_RECURSIVE = 0x8000, O_CLOEXEC
    }
    MOVE_MOUNT "flags of move_mount" choose { }
    flags {
        MOVE_MOUNT_F_SYMLINKS = 1, MOVE_MOUNT_F_AUTOMOUNTS = 2 hint, MOVE_MOUNT_F_EMPTY_PATH = 4, MOVE_MOUNT_T_SYMLINKS = 0x10,
        MOVE_MOUNT_T_AUTOMOUNTS = 0x20 hint, MOVE_MOUNT_T_EMPTY_PATH = 0x40, MOVE_MOUNT_SET_GROUP = 0x100, MOVE_MOUNT_BENEATH = 0x200
    }
    FSOPEN "flags of fsopen" choose { } flags { FSOPEN_CLOEXEC = 1 }
    FSCONFIG "commands of fsconfig" choose {
        FSCONFIG_SET_FLAG = 0, FSCONFIG_SET_STRING = 1, FSCONFIG_SET_BINARY = 2, FSCONFIG_SET_PATH = 3, FSCONFIG_SET_PATH_EMPTY = 4, FSCONFIG_SET_FD = 5,
        FSCONFIG_CMD_CREATE = 6, FSCONFIG_CMD_RECONFIGURE = 7, FSCONFIG_CMD_CREATE_EXCL = 8
    } flags { }
    FSMOUNT "flags of fsmount" choose { } flags { FSMOUNT_CLOEXEC = 1 }
    FSMOUNT_ATTRIBUTES "what a new mount allows" choose { }
    flags {
        MOUNT_ATTR_RDONLY = 1, MOUNT_ATTR_NOSUID = 2, MOUNT_ATTR_NODEV = 4, MOUNT_ATTR_NOEXEC = 8, MOUNT_ATTR_NOATIME = 0x10,
        MOUNT_ATTR_STRICTATIME = 0x20, MOUNT_ATTR_NODIRATIME = 0x80, MOUNT_ATTR_NOSYMFOLLOW = 0x200000
    }
    FSPICK "flags of fspick" choose { }
    flags { FSPICK_CLOEXEC = 1, FSPICK_SYMLINK_NOFOLLOW = 2, FSPICK_NO_AUTOMOUNT = 4 hint, FSPICK_EMPTY_PATH = 8 }
    PROPAGATION "propagation of a mount" choose { }
    flags { MS_UNBINDABLE = 0x20000, MS_PRIVATE = 0x40000, MS_SLAVE = 0x80000, MS_SHARED = 0x100000 }
    RENAME "flags of renameat2" choose { } flags { RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT }
    XATTR "flags of setxattr" choose { } flags { XATTR_CREATE = 1, XATTR_REPLACE = 2 }
    FADVISE "advice" choose {
        POSIX_FADV_NORMAL hint, POSIX_FADV_RANDOM hint, POSIX_FADV_SEQUENTIAL hint, POSIX_FADV_WILLNEED hint, POSIX_FADV_DONTNEED hint,
        POSIX_FADV_NOREUSE hint
    } flags { }
    FALLOC "mode of fallocate" choose { }
    flags {
        FALLOC_FL_KEEP_SIZE = 1, FALLOC_FL_PUNCH_HOLE = 2, FALLOC_FL_ZERO_RANGE = 16 refused "EOPNOTSUPP", FALLOC_FL_COLLAPSE_RANGE = 8 refused "EOPNOTSUPP",
        FALLOC_FL_INSERT_RANGE = 32 refused "EOPNOTSUPP", FALLOC_FL_UNSHARE_RANGE = 64 refused "EOPNOTSUPP"
    }
    SPLICE "splice flags" choose { } flags { SPLICE_F_MOVE = 1 hint, SPLICE_F_NONBLOCK = 2, SPLICE_F_MORE = 4 hint, SPLICE_F_GIFT = 8 hint }
    RWF "preadv2 and pwritev2 flags" choose { }
    flags {
        RWF_HIPRI = 1 hint, RWF_DSYNC = 2, RWF_SYNC = 4, RWF_NOWAIT = 8, RWF_APPEND = 16,
        RWF_NOAPPEND = 32, RWF_ATOMIC = 64 refused "EOPNOTSUPP"
    }
    MEMFD "memfd_create flags" choose { }
    flags {
        MFD_CLOEXEC = 1, MFD_ALLOW_SEALING = 2, MFD_HUGETLB = 4 refused "ENOSYS", MFD_NOEXEC_SEAL = 8,
        MFD_EXEC = 16
    }
    GETRANDOM "getrandom flags" choose { } flags { GRND_NONBLOCK = 1, GRND_RANDOM = 2, GRND_INSECURE = 4 }
    MOUNT "mount flags" choose { }
    flags {
        MS_RDONLY = 1, MS_NOSUID = 2, MS_NODEV = 4, MS_NOEXEC = 8, MS_SYNCHRONOUS = 16, MS_REMOUNT = 32, MS_MANDLOCK = 64 hint,
        MS_DIRSYNC = 128 hint, MS_NOSYMFOLLOW = 256, MS_NOATIME = 1024, MS_NODIRATIME = 2048,
        MS_BIND = 4096, MS_MOVE = 8192, MS_REC = 16384, MS_SILENT = 32768 hint,
        MS_UNBINDABLE = 0x20000, MS_PRIVATE = 0x40000, MS_SLAVE = 0x80000, MS_SHARED = 0x10_0000,
        MS_RELATIME = 0x20_0000, MS_STRICTATIME = 0x100_0000, MS_LAZYTIME = 0x200_0000 hint,
        MS_POSIXACL = 0x1_0000 hint, MS_KERNMOUNT = 0x40_0000 hint, MS_I_VERSION = 0x80_0000 hint, BIT_9 = 0x200 hint, BIT_26 = 0x400_0000 hint,
        BIT_27 = 0x800_0000 hint
    }
    UMOUNT "umount2 flags" choose { }
    flags { MNT_FORCE = 1 hint, MNT_DETACH = 2, MNT_EXPIRE = 4, UMOUNT_NOFOLLOW = 8 }
}
