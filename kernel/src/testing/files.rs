//! Files of a test, made and read by system calls.

use std::vec::Vec;

use super::{Memory, syscall};
use crate::errno::Result;
use linux_raw_sys::general as abi;

fn call(number: u32, path: &str, rest: &[usize]) -> Result<usize> {
    let mut args = std::vec![Memory::of_str(path).address];
    args.extend(rest);
    syscall(number, &args)
}

pub fn make_dir(path: &str) {
    call(abi::__NR_mkdir, path, &[0o755]).expect("mkdir");
}

/// Makes a file with these bytes.
pub fn put_file(path: &str, bytes: &[u8], mode: u32) {
    let flags = abi::O_CREAT | abi::O_TRUNC | abi::O_WRONLY;
    let fd = call(abi::__NR_open, path, &[flags as usize, mode as usize]).expect("open to write");
    let from = Memory::of(bytes);
    assert_eq!(syscall(abi::__NR_write, &[fd, from.address, bytes.len()]), Ok(bytes.len()));
    syscall(abi::__NR_close, &[fd]).expect("close");
}

/// All bytes of a file.
///
/// # Errors
/// Those of open(2) and read(2).
pub fn get_file(path: &str) -> Result<Vec<u8>> {
    let fd = call(abi::__NR_open, path, &[abi::O_RDONLY as usize])?;
    let (memory, mut all) = (Memory::new(4096), Vec::new());
    let result = loop {
        match syscall(abi::__NR_read, &[fd, memory.address, 4096]) {
            Ok(0) => break Ok(all),
            Ok(n) => all.extend(memory.bytes(n)),
            Err(errno) => break Err(errno),
        }
    };
    syscall(abi::__NR_close, &[fd])?;
    result
}

/// Mounts an empty file system of type `kind` on a new directory.
pub fn mount_at(kind: &str, point: &str) {
    make_dir(point);
    let names = [kind, point, kind].map(|name| Memory::of_str(name).address);
    syscall(abi::__NR_mount, &[names[0], names[1], names[2], 0, 0]).expect("mount");
}
