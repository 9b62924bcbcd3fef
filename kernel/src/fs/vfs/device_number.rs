//! Device numbers: major and minor, packed as Linux packs them.
#![forbid(unsafe_code)]

/// As Linux packs a device number for user space and for `st_rdev`.
pub const fn number(major: u64, minor: u64) -> u64 {
    (major & 0xfff) << 8 | (minor & 0xff) | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

pub const fn major(device: u64) -> u64 {
    (device >> 8 & 0xfff) | (device >> 32 & !0xfff)
}

pub const fn minor(device: u64) -> u64 {
    (device & 0xff) | (device >> 12 & 0xffff_ff00)
}
