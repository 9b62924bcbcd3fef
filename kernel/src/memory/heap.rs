//! The kernel heap: `vm::slab`'s size classes with per-CPU magazines. Usable from the end of `arch::early_init` on.
#![forbid(unsafe_code)]

#[global_allocator]
static HEAP: vm::slab::KernelHeap = vm::slab::KernelHeap;
