//! Numbers that are worth a try.
#![forbid(unsafe_code)]

pub static ANY: [i64; 12] =
    [0, 1, 2, 3, 7, 64, 4096, -1, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];
/// Lengths of `struct sockaddr_un`, and protocols of sockets.
pub static SOCKADDR_SIZES: [i64; 8] = [110, 8, 3, 2, 0, 111, 200, -1];
pub static SOCKET_PROTOCOLS: [i64; 4] = [0, 1, 2, -1];
pub static FAMILIES: [i64; 3] = [1, 0, 2];
/// The beginnings of names: an abstract one, and paths.
pub static SOCKET_NAMES: [i64; 5] = [0x6100, 0x6200, 0x61, 0x0062, 0x2f];
pub static CONTROL_SIZES: [i64; 6] = [20, 24, 28, 16, 0, 200];
pub static CONTROL_TYPES: [i64; 4] = [1, 2, 3, 4];
pub static SMALL: [i64; 5] = [0, 1, 2, 3, 32];
/// Numbers of an inotify instance's watches.
pub static WATCHES: [i64; 6] = [1, 2, 3, 0, -1, i32::MAX as i64];
/// Lengths of handles of files, and their types.
pub static HANDLE_SIZES: [i64; 6] = [128, 12, 11, 0, 129, -1];
pub static HANDLE_KINDS: [i64; 4] = [1, 0, 0x81, -1];
/// Sizes of requests for mounts, and unique numbers of mounts.
pub static MOUNT_REQUESTS: [i64; 5] = [32, 24, 0, 40, 4097];
pub static MOUNTS: [i64; 8] = [-1, (1 << 31) + 1, (1 << 31) + 2, (1 << 31) + 5, (1 << 31) + 9, 1 << 31, 1, 0];
/// Sizes of what is changed of a mount.
pub static ATTRIBUTE_SIZES: [i64; 5] = [32, 31, 40, 0, 4097];
/// Bits of a set of nodes, and one more.
pub static NODE_BITS: [i64; 8] = [65, 64, 2, 1, 0, 1025, 32769, -1];
pub static EIGHT: [i64; 4] = [8, 0, 4, 128];
pub static TWENTY_FOUR: [i64; 3] = [24, 0, 12];
pub static THIRTY_TWO: [i64; 4] = [32, 28, 33, 0];
/// Numbers of descriptors, or counts of them.
pub static FDS: [i64; 12] = [0, 1, 2, 3, 4, 5, 63, 64, 1023, 1024, -1, i32::MAX as i64];
pub static KEYS: [i64; 6] = [-1, 0, 1, 2, 3, 16];
pub static CPUS: [i64; 5] = [0, 1, 15, 4096, -1];
/// Milliseconds or seconds to wait.
pub static WAITS: [i64; 5] = [0, 1, 10, -1, i32::MAX as i64];
pub static SECONDS: [i64; 5] = [0, 1, 1 << 32, -1, i64::MAX];
pub static NANOSECONDS: [i64; 6] = [0, 1, 1_000_000, 999_999_999, 1_000_000_000, -1];
/// Of tasks with deadlines, none so short for its period that a program would not get on. As NANOSECONDS, they are refused in part.
pub static RUN_TIMES: [i64; 5] = [0, 500_000, 1_000_000, 5_000_000, -1];
pub static PERIODS: [i64; 5] = [0, 1_000_000, 10_000_000, 20_000_000, -1];
/// The last two are UTIME_NOW and UTIME_OMIT.
pub static FILE_NANOSECONDS: [i64; 6] = [0, 1, 999_999_999, 1_000_000_000, 0x3fff_ffff, 0x3fff_fffe];
pub static MICROSECONDS: [i64; 6] = [0, 1, 1000, 999_999, 1_000_000, -1];
pub static LIMITS: [i64; 7] = [0, 1, 64, 4096, 8 << 20, i64::MAX, -1];
pub static NICE: [i64; 6] = [0, 19, -20, 5, 100, -100];
pub static PRIORITIES: [i64; 5] = [0, 1, 99, 100, -1];
pub static SIGNAL_SETS: [i64; 6] = [0, -1, 1 << 9, 1 << 13, 1 << 16, 1 << 33];
/// SIG_DFL, SIG_IGN; an address of code is the caller's to know.
pub static HANDLERS: [i64; 2] = [0, 1];
pub static SIGINFO_CODES: [i64; 6] = [0, -1, -6, -2, 128, 1];
pub static CLONE_SIZES: [i64; 6] = [64, 80, 88, 63, 4096, 4097];
pub static SCHED_ATTR_SIZES: [i64; 5] = [48, 56, 0, 47, 4097];
pub static CAP_VERSIONS: [i64; 4] = [0x2008_0522, 0x2007_1026, 0x1998_0330, 0];
pub static CAP_SETS: [i64; 4] = [0, 1, -1, 0x1ff];
pub static REBOOT_MAGIC: [i64; 3] = [0, 672_274_793, -1];
/// Keys and numbers of System V IPC: of the first places of the first CPUs, and of such a place when it is used again.
pub static IPC_KEYS: [i64; 5] = [0, 1, 2, 3, -1];
pub static IPC_IDS: [i64; 9] = [0, 1, 2, 64, 65, 128, 1 << 15, (1 << 15) + 1, -1];
pub static SEM_CHANGES: [i64; 6] = [1, -1, 0, 2, -2, 32_767];
