//! The commands of fcntl, ioctl, prctl and arch_prctl, with the kinds of their arguments.
#![forbid(unsafe_code)]

use super::{ANY, FDS, SMALL, State, WATCHES};
use crate::structs::{
    F_OWNER, FLOCK, LONG, MNT_NS_INFO, SECCOMP_ADDFD, SECCOMP_ANSWER, SECCOMP_NOTIF, SOCK_FPROG, STATFS,
    TERMIOS, TWO_FDS, WINSIZE, WORD,
};
#[allow(clippy::enum_glob_use, reason = "the tables are read by people")]
use crate::{Kind::*, Opt, Set, Sort::*};
use linux_raw_sys::general;

sets! {
    FCNTL "fcntl command" choose {
        F_DUPFD(Int(&FDS)), F_GETFD, F_SETFD(Options(&FD_FLAGS)), F_GETFL, F_SETFL(Options(&super::OPEN)), F_GETLK(InOut(&FLOCK)),
        F_SETLK(In(&FLOCK)), F_SETLKW(In(&FLOCK)), F_SETOWN(Pid), F_GETOWN,
        F_SETSIG = 10 (Signal), F_GETSIG = 11, F_SETOWN_EX = 15 (In(&F_OWNER)),
        F_GETOWN_EX = 16 (Out(&F_OWNER)), F_GETOWNER_UIDS = 17 (Out(&F_OWNER)), F_OFD_GETLK = 36 (InOut(&FLOCK)),
        F_OFD_SETLK = 37 (In(&FLOCK)), F_OFD_SETLKW = 38 (In(&FLOCK)),
        F_SETLEASE = 1024 (Options(&super::LOCK_KIND)), F_GETLEASE = 1025,
        F_NOTIFY = 1026 (Options(&NOTIFY)), F_DUPFD_QUERY = 1027 (Fd(Any)), F_DUPFD_CLOEXEC = 1030 (Int(&FDS)),
        F_SETPIPE_SZ = 1031 (Len), F_GETPIPE_SZ = 1032, F_ADD_SEALS = 1033 (Options(&SEALS)),
        F_GET_SEALS = 1034, F_GET_RW_HINT = 1035 (Out(&LONG)),
        F_SET_RW_HINT = 1036 (In(&LONG))
    } flags { }
    FD_FLAGS "descriptor flags" choose { } flags { FD_CLOEXEC = 1 }
    /// Bits that have no name are events that never happen.
    NOTIFY "events of a directory" choose { }
    flags {
        DN_ACCESS = 1, DN_MODIFY = 2, DN_CREATE = 4, DN_DELETE = 8, DN_RENAME = 16, DN_ATTRIB = 32, DN_MULTISHOT = 0x8000_0000
    }
    SEALS "seals" choose { }
    flags {
        F_SEAL_SEAL = 1, F_SEAL_SHRINK = 2, F_SEAL_GROW = 4, F_SEAL_WRITE = 8, F_SEAL_FUTURE_WRITE = 16, F_SEAL_EXEC = 32
    }
    SYSFS "sysfs option" choose { FS_INDEX = 1 (Text), FS_NAME = 2 (Int(&SMALL), Out(&STATFS)), FS_COUNT = 3 } flags { }
    IOCTL "ioctl command" choose {
        FIOCLEX = 0x5451, FIONCLEX = 0x5450, FIONBIO = 0x5421 (In(&WORD)), FIOASYNC = 0x5452 (In(&WORD)),
        FIONREAD = 0x541b (Out(&WORD)), INOTIFY_IOC_SETNEXTWD = 0x4004_4900 (Int(&WATCHES)),
        TCGETS = 0x5401 (Out(&TERMIOS)), TCSETS = 0x5402 (In(&TERMIOS)), TCSETSW = 0x5403 (In(&TERMIOS)),
        TCSETSF = 0x5404 (In(&TERMIOS)), TCGETA = 0x5405 (Out(&TERMIOS)), TCSETA = 0x5406 (In(&TERMIOS)), TCSETAW = 0x5407 (In(&TERMIOS)),
        TCSETAF = 0x5408 (In(&TERMIOS)), TCSBRK = 0x5409 (Int(&SMALL)) hint, TCXONC = 0x540a (Int(&SMALL)), TCFLSH = 0x540b (Int(&SMALL)),
        TIOCEXCL = 0x540c, TIOCNXCL = 0x540d, TIOCGEXCL = 0x8004_5440 (Out(&WORD)), TIOCSCTTY = 0x540e (Int(&SMALL)), TIOCGPGRP = 0x540f (Out(&WORD)),
        TIOCSPGRP = 0x5410 (In(&WORD)), TIOCOUTQ = 0x5411 (Out(&WORD)), TIOCSTI = 0x5412 (In(&WORD)), TIOCGWINSZ = 0x5413 (Out(&WINSIZE)),
        TIOCSWINSZ = 0x5414 (In(&WINSIZE)), TIOCMGET = 0x5415 (Out(&WORD)), TIOCGSOFTCAR = 0x5419 (Out(&WORD)), TIOCSSOFTCAR = 0x541a (In(&WORD)), TIOCCONS = 0x541d refused "EINVAL",
        TIOCPKT = 0x5420 (In(&WORD)), TIOCNOTTY = 0x5422,
        TIOCSETD = 0x5423 (In(&WORD)) partly "N_TTY alone", TIOCGETD = 0x5424 (Out(&WORD)), TCSBRKP = 0x5425 (Int(&SMALL)) hint,
        TIOCSBRK = 0x5427 hint, TIOCCBRK = 0x5428 hint,
        TIOCGSID = 0x5429 (Out(&WORD)), TIOCGDEV = 0x8004_5432 (Out(&WORD)), TIOCGPKT = 0x8004_5438 (Out(&WORD)),
        TIOCGLCKTRMIOS = 0x5456 (Out(&TERMIOS)), TIOCSLCKTRMIOS = 0x5457 (In(&TERMIOS)), TIOCVHANGUP = 0x5437, TIOCGPTPEER = 0x5441 (Options(&super::PEER)), TCGETS2 = 0x802c_542a (Out(&TERMIOS)),
        TCSETS2 = 0x402c_542b (In(&TERMIOS)), TCSETSW2 = 0x402c_542c (In(&TERMIOS)), TCSETSF2 = 0x402c_542d (In(&TERMIOS)),
        TIOCGPTN = 0x8004_5430 (Out(&WORD)), TIOCSPTLCK = 0x4004_5431 (In(&WORD)), TIOCSIG = 0x4004_5436 (Signal),
        TIOCGPTLCK = 0x8004_5439 (Out(&WORD)), NS_GET_USERNS = 0xb701 refused "EPERM", NS_GET_NSTYPE = 0xb703,
        NS_GET_MNTNS_ID = 0x8008_b705 (Out(&LONG)), NS_MNT_GET_INFO = 0x8010_b70a (Out(&MNT_NS_INFO)),
        SECCOMP_IOCTL_NOTIF_RECV = 0xc050_2100 (Out(&SECCOMP_NOTIF)), SECCOMP_IOCTL_NOTIF_SEND = 0xc018_2101 (In(&SECCOMP_ANSWER)),
        SECCOMP_IOCTL_NOTIF_ID_VALID = 0x4008_2102 (In(&LONG)), SECCOMP_IOCTL_NOTIF_ADDFD = 0x4018_2103 (In(&SECCOMP_ADDFD)),
        SECCOMP_IOCTL_NOTIF_SET_FLAGS = 0x4008_2104 (Int(&SMALL)) hint
    } flags { }
    PRCTL "prctl command" choose {
        PR_SET_PDEATHSIG = 1 (Signal), PR_GET_PDEATHSIG = 2 (Out(&WORD)), PR_GET_DUMPABLE = 3, PR_SET_DUMPABLE = 4 (Int(&SMALL)),
        PR_GET_UNALIGN = 5 (Out(&WORD)) refused "EINVAL", PR_GET_KEEPCAPS = 7, PR_SET_KEEPCAPS = 8 (Int(&SMALL)),
        PR_GET_TIMING = 13, PR_SET_TIMING = 14 (Int(&SMALL)), PR_SET_NAME = 15 (Text), PR_GET_NAME = 16 (Out(&TWO_FDS)),
        PR_GET_SECCOMP = 21, PR_SET_SECCOMP = 22 (Int(&SMALL), In(&SOCK_FPROG)), PR_CAPBSET_READ = 23 (Int(&ANY)),
        PR_CAPBSET_DROP = 24 (Int(&ANY)), PR_GET_TSC = 25 (Out(&WORD)), PR_SET_TSC = 26 (Int(&SMALL)) partly "PR_TSC_SIGSEGV is refused",
        PR_GET_SECUREBITS = 27, PR_SET_SECUREBITS = 28 (Int(&ANY)), PR_SET_TIMERSLACK = 29 (Int(&ANY)) partly "no sleep ends late, whatever it is",
        PR_GET_TIMERSLACK = 30, PR_MCE_KILL = 33 (Int(&SMALL)), PR_MCE_KILL_GET = 34,
        PR_SET_MM = 35 (Int(&SMALL), Addr) refused "EINVAL", PR_SET_CHILD_SUBREAPER = 36 (Int(&SMALL)), PR_GET_CHILD_SUBREAPER = 37 (Out(&WORD)),
        PR_SET_NO_NEW_PRIVS = 38 (Int(&SMALL)), PR_GET_NO_NEW_PRIVS = 39, PR_GET_TID_ADDRESS = 40 (Out(&LONG)),
        PR_SET_THP_DISABLE = 41 (Int(&SMALL)), PR_GET_THP_DISABLE = 42, PR_CAP_AMBIENT = 47 (Int(&SMALL), Int(&ANY)),
        PR_GET_SPECULATION_CTRL = 52 (Int(&SMALL)) refused "EINVAL", PR_SET_SPECULATION_CTRL = 53 (Int(&SMALL), Int(&ANY)) refused "EINVAL",
        PR_SET_IO_FLUSHER = 57 (Int(&SMALL)), PR_GET_IO_FLUSHER = 58,
        PR_SET_SYSCALL_USER_DISPATCH = 59 (Int(&SMALL), Addr, Len, Addr), PR_SCHED_CORE = 62 (Int(&SMALL)) refused "EINVAL",
        PR_SET_MDWE = 65 (Int(&SMALL)), PR_GET_MDWE = 66, PR_SET_VMA = 0x5356_4d41 (Int(&SMALL), Addr, Len, Text) refused "EINVAL"
    } flags { }
    ARCH_PRCTL "arch_prctl command" choose {
        ARCH_SET_GS = 0x1001 (Addr), ARCH_SET_FS = 0x1002 (Addr), ARCH_GET_FS = 0x1003 (Out(&LONG)), ARCH_GET_GS = 0x1004 (Out(&LONG)),
        ARCH_GET_CPUID = 0x1011, ARCH_SET_CPUID = 0x1012 (Int(&SMALL)) refused "ENODEV", ARCH_GET_XCOMP_SUPP = 0x1021 (Out(&LONG)),
        ARCH_GET_XCOMP_PERM = 0x1022 (Out(&LONG)), ARCH_REQ_XCOMP_PERM = 0x1023 (Int(&SMALL)) refused "EOPNOTSUPP",
        ARCH_GET_XCOMP_GUEST_PERM = 0x1024 (Out(&LONG))
    } flags { }
}
