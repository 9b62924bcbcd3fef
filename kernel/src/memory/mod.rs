//! Glue between `vm` and this machine: kernel page tables, frame table, kernel heap, typed user memory.

mod heap;
