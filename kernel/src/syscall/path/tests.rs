//! The text of a working directory.

use crate::errno::{ENOENT, ERANGE};
use crate::testing::{Memory, in_process, make_dir, mount_at, syscall};
use linux_raw_sys::general as abi;
use std::string::String;

#[test]
fn the_working_directory_is_shown_as_the_process_sees_it() {
    in_process(|| {
        let getcwd = || {
            let memory = Memory::new(4096);
            let len = syscall(abi::__NR_getcwd, &[memory.address, 4096])?;
            Ok(String::from_utf8(memory.bytes(len - 1)).unwrap())
        };
        let call = |number: u32, path: &str| syscall(number, &[Memory::of_str(path).address]).unwrap();
        assert_eq!(getcwd(), Ok("/".into()));
        make_dir("/one");
        make_dir("/one/two");
        call(abi::__NR_chdir, "one/two");
        assert_eq!(getcwd(), Ok("/one/two".into()));
        let (from, to) = (Memory::of_str("/one").address, Memory::of_str("/three").address);
        syscall(abi::__NR_rename, &[from, to]).unwrap();
        assert_eq!(getcwd(), Ok("/three/two".into()), "it has moved along");
        mount_at("tmpfs", "/three/two/mounted");
        call(abi::__NR_chdir, "/three/two/mounted");
        make_dir("inside");
        call(abi::__NR_chdir, "inside");
        assert_eq!(getcwd(), Ok("/three/two/mounted/inside".into()));
        call(abi::__NR_rmdir, "/three/two/mounted/inside");
        assert_eq!(getcwd(), Err(ENOENT));
        call(abi::__NR_chdir, "/three/two");
        let short = Memory::new(16);
        assert_eq!(syscall(abi::__NR_getcwd, &[short.address, 10]), Err(ERANGE));
        assert_eq!(syscall(abi::__NR_getcwd, &[short.address, 11]), Ok(11));
        call(abi::__NR_chroot, "/three/two/mounted");
        assert_eq!(getcwd(), Ok("(unreachable)/three/two".into()));
        call(abi::__NR_chroot, "/");
        call(abi::__NR_chdir, "/");
        assert_eq!(getcwd(), Ok("/".into()));
    });
}
