use super::superblock::*;
fn m(k: &'static FsType, _: &[u8]) -> crate::errno::Result<alloc::sync::Arc<SuperBlock>> {
    (super::tmpfs::TMPFS.mount)(k, &[])
}
pub static PROC: FsType = FsType {
    name: "proc",
    magic: 1,
    nodev: true,
    names_complete: false,
    mount: m,
    statfs: super::tmpfs::statfs,
};
pub static SYSFS: FsType = FsType {
    name: "sysfs",
    magic: 1,
    nodev: true,
    names_complete: false,
    mount: m,
    statfs: super::tmpfs::statfs,
};
