//! Options of calls on sockets.
#![forbid(unsafe_code)]

use super::State;
use crate::{Opt, Set};

sets! {
    SOCKET_FAMILY "family" choose { AF_UNIX = 1, AF_INET = 2 refused "EAFNOSUPPORT", AF_INET6 = 10 refused "EAFNOSUPPORT", AF_NETLINK = 16 refused "EAFNOSUPPORT" } flags { }
    SOCKET_KIND "type" choose { SOCK_STREAM = 1, SOCK_DGRAM = 2, SOCK_RAW = 3, SOCK_SEQPACKET = 5 }
    flags { SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o2000000 }
    SHUTDOWN "what is shut" choose { SHUT_RD = 0, SHUT_WR = 1, SHUT_RDWR = 2 } flags { }
    /// The others are of other protocols, and mean nothing to these sockets.
    SEND "flags of sending" choose { }
    flags {
        MSG_OOB = 1 refused "EOPNOTSUPP", MSG_DONTROUTE = 4 hint, MSG_DONTWAIT = 0x40, MSG_EOR = 0x80 hint, MSG_CONFIRM = 0x800 hint,
        MSG_NOSIGNAL = 0x4000, MSG_MORE = 0x8000 hint
    }
    RECEIVE "flags of receiving" choose { }
    flags {
        MSG_OOB = 1 refused "EOPNOTSUPP", MSG_PEEK = 2, MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40, MSG_WAITALL = 0x100, MSG_CMSG_CLOEXEC = 0x4000_0000
    }
    RECEIVE_MANY "flags of receiving" choose { }
    flags {
        MSG_OOB = 1 refused "EOPNOTSUPP", MSG_PEEK = 2, MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40, MSG_WAITALL = 0x100, MSG_WAITFORONE = 0x1_0000,
        MSG_CMSG_CLOEXEC = 0x4000_0000
    }
    SOCKET_LEVEL "level" choose { SOL_SOCKET = 1 } flags { }
    SOCKET_OPTION "option" choose {
        SO_REUSEADDR = 2 hint, SO_DONTROUTE = 5 hint, SO_BROADCAST = 6 hint, SO_SNDBUF = 7, SO_RCVBUF = 8, SO_KEEPALIVE = 9 hint,
        SO_OOBINLINE = 10 hint, SO_PRIORITY = 12 hint, SO_LINGER = 13 hint, SO_PASSCRED = 16, SO_RCVLOWAT = 18, SO_RCVTIMEO = 20,
        SO_SNDTIMEO = 21, SO_SNDBUFFORCE = 32, SO_RCVBUFFORCE = 33, SO_PEEK_OFF = 42, SO_PASSPIDFD = 76,
        SO_ATTACH_FILTER = 26 refused "ENOPROTOOPT", SO_TIMESTAMP = 29 refused "ENOPROTOOPT"
    } flags { }
    SOCKET_ASKED "option" choose {
        SO_REUSEADDR = 2, SO_TYPE = 3, SO_ERROR = 4, SO_DONTROUTE = 5, SO_BROADCAST = 6, SO_SNDBUF = 7, SO_RCVBUF = 8, SO_KEEPALIVE = 9,
        SO_OOBINLINE = 10, SO_PRIORITY = 12, SO_LINGER = 13, SO_PASSCRED = 16, SO_PEERCRED = 17, SO_RCVLOWAT = 18, SO_SNDLOWAT = 19,
        SO_RCVTIMEO = 20, SO_SNDTIMEO = 21, SO_PEERNAME = 28, SO_ACCEPTCONN = 30, SO_PROTOCOL = 38, SO_DOMAIN = 39, SO_PEEK_OFF = 42,
        SO_PEERGROUPS = 59, SO_PASSPIDFD = 76, SO_PEERPIDFD = 77, SO_TIMESTAMP = 29 refused "ENOPROTOOPT"
    } flags { }
}
