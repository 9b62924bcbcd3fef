//! Passes the kernel's linker script to the linker.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rerun-if-changed=linker.ld");
    println!("cargo:rustc-link-arg-bins=-T{dir}/linker.ld");
    println!("cargo:rustc-link-arg-bins=--build-id=none");
    println!("cargo:rustc-link-arg-bins=--no-rosegment");
}
