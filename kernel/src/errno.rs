//! Error numbers, as Linux numbers them on x86-64.
#![forbid(unsafe_code)]
#![allow(dead_code)]

use core::fmt;

/// A positive error number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

pub type Result<T = ()> = core::result::Result<T, Errno>;

macro_rules! errnos {
    ($($name:ident),* $(,)?) => {
        $(pub const $name: Errno = Errno(linux_raw_sys::errno::$name as i32);)*

        impl Errno {
            $(pub const $name: Errno = $name;)*

            /// The name, for messages.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $($name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM, ENOENT, ESRCH, EINTR, EIO, ENXIO, E2BIG, ENOEXEC, EBADF, ECHILD, EAGAIN, ENOMEM, EACCES,
    EFAULT, ENOTBLK, EBUSY, EEXIST, EXDEV, ENODEV, ENOTDIR, EISDIR, EINVAL, ENFILE, EMFILE, ENOTTY,
    ETXTBSY, EFBIG, ENOSPC, ESPIPE, EROFS, EMLINK, EPIPE, EDOM, ERANGE, EDEADLK, ENAMETOOLONG, ENOLCK,
    ENOSYS, ENOTEMPTY, ELOOP, ENOMSG, EIDRM, ECHRNG, EL2NSYNC, EL3HLT, EL3RST, ELNRNG, EUNATCH, ENOCSI,
    EL2HLT, EBADE, EBADR, EXFULL, ENOANO, EBADRQC, EBADSLT, EBFONT, ENOSTR, ENODATA, ETIME, ENOSR,
    ENONET, ENOPKG, EREMOTE, ENOLINK, EADV, ESRMNT, ECOMM, EPROTO, EMULTIHOP, EDOTDOT, EBADMSG,
    EOVERFLOW, ENOTUNIQ, EBADFD, EREMCHG, ELIBACC, ELIBBAD, ELIBSCN, ELIBMAX, ELIBEXEC, EILSEQ,
    ERESTART, ESTRPIPE, EUSERS, ENOTSOCK, EDESTADDRREQ, EMSGSIZE, EPROTOTYPE, ENOPROTOOPT,
    EPROTONOSUPPORT, ESOCKTNOSUPPORT, EOPNOTSUPP, EPFNOSUPPORT, EAFNOSUPPORT, EADDRINUSE, EADDRNOTAVAIL,
    ENETDOWN, ENETUNREACH, ENETRESET, ECONNABORTED, ECONNRESET, ENOBUFS, EISCONN, ENOTCONN, ESHUTDOWN,
    ETOOMANYREFS, ETIMEDOUT, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH, EALREADY, EINPROGRESS, ESTALE,
    EUCLEAN, ENOTNAM, ENAVAIL, EISNAM, EREMOTEIO, EDQUOT, ENOMEDIUM, EMEDIUMTYPE, ECANCELED, ENOKEY,
    EKEYEXPIRED, EKEYREVOKED, EKEYREJECTED, EOWNERDEAD, ENOTRECOVERABLE, ERFKILL, EHWPOISON,
}

/// EWOULDBLOCK is EAGAIN on Linux.
pub const EWOULDBLOCK: Errno = EAGAIN;

/// Internal to the kernel, as in Linux: the call is to be restarted after a signal handler with SA_RESTART, and
/// otherwise ends with EINTR. Never reaches a program.
pub const ERESTARTSYS: Errno = Errno(512);
/// As ERESTARTSYS, but the call is always restarted.
pub const ERESTARTNOINTR: Errno = Errno(513);
/// As ERESTARTSYS, but the call is restarted only if no handler runs.
pub const ERESTARTNOHAND: Errno = Errno(514);
/// As ERESTARTNOHAND, but restart_syscall goes on with what is left (the thread's restart block).
pub const ERESTART_RESTARTBLOCK: Errno = Errno(516);

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl From<sync::AllocError> for Errno {
    fn from(_: sync::AllocError) -> Errno {
        ENOMEM
    }
}

impl From<vm::VmError> for Errno {
    fn from(error: vm::VmError) -> Errno {
        use vm::VmError;
        match error {
            VmError::NoMemory | VmError::NoSpace | VmError::TooMany => ENOMEM,
            VmError::Full => ENOSPC,
            VmError::Invalid => EINVAL,
            VmError::Exists => EEXIST,
            VmError::Access => EACCES,
            VmError::Permission | VmError::Sealed => EPERM,
            VmError::Busy => EBUSY,
            VmError::Fault => EFAULT,
            VmError::Interrupted => EINTR,
            VmError::Overflow => EOVERFLOW,
            VmError::Io => EIO,
        }
    }
}

impl From<vm::FaultError> for Errno {
    fn from(error: vm::FaultError) -> Errno {
        vm::VmError::from(error).into()
    }
}

impl From<crate::arch::user::UserFault> for Errno {
    fn from(_: crate::arch::user::UserFault) -> Errno {
        EFAULT
    }
}

impl From<crate::arch::user::StringError> for Errno {
    fn from(error: crate::arch::user::StringError) -> Errno {
        match error {
            crate::arch::user::StringError::Fault => EFAULT,
            crate::arch::user::StringError::TooLong => ENAMETOOLONG,
        }
    }
}
