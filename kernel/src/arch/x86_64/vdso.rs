//! The vDSO (vdso(7)): a small shared object that the kernel maps into every program, with which libraries read the clock
//! without a system call. Two pages: the clock's facts, which only the kernel writes, and right behind it the object.
//!
//! The object is assembled here, headers and all: one loadable segment, DT_HASH, symbol versions of LINUX_2.6, as musl and
//! glibc look them up. Both pages are mapped private and without write permission. What turns cycles into time is read under a sequence
//! number, which is odd while that changes; other facts that change while programs run (what the wall clock is ahead) are a word each.

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use vm::{Object, ObjectOwner};

use super::cpu::BootCell;
use super::{features, time};

/// The data page.
#[repr(C)]
struct Facts {
    sequence: AtomicU64,
    start: AtomicU64,
    base: AtomicU64,
    ns_per_cycle: AtomicU64,
    wall: AtomicU64,
    tai: AtomicU64,
    /// The two as they were at boot: CLOCK_MONOTONIC_RAW.
    raw_start: AtomicU64,
    raw_ns_per_cycle: AtomicU64,
    /// RDTSCP gives CPU and node.
    has_rdtscp: AtomicU64,
}

static FACTS: AtomicPtr<Facts> = AtomicPtr::new(core::ptr::null_mut());
static OBJECTS: BootCell<Option<Vdso>> = BootCell::new(None);

global_asm!(
    r#"
    .section .rodata
    .balign 4096
    .global vdso_start
    .global vdso_end
vdso_start:
    // ELF header.
    .byte 0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0
    .quad 0
    .short 3, 62                        // ET_DYN, EM_X86_64
    .long 1
    .quad vdso_clock_gettime - vdso_start
    .quad 64                            // program headers
    .quad 0
    .long 0
    .short 64, 56, 2, 64, 0, 0
    // PT_LOAD, read and execute.
    .long 1, 5
    .quad 0, 0, 0
    .quad vdso_end - vdso_start, vdso_end - vdso_start
    .quad 4096
    // PT_DYNAMIC, read.
    .long 2, 4
    .quad vdso_dynamic - vdso_start, vdso_dynamic - vdso_start, vdso_dynamic - vdso_start
    .quad vdso_dynamic_end - vdso_dynamic, vdso_dynamic_end - vdso_dynamic
    .quad 8

    .balign 8
vdso_dynamic:
    .quad 14, vdso_soname - vdso_strings            // DT_SONAME
    .quad 4, vdso_hash - vdso_start                 // DT_HASH
    .quad 5, vdso_strings - vdso_start              // DT_STRTAB
    .quad 6, vdso_symbols - vdso_start              // DT_SYMTAB
    .quad 10, vdso_strings_end - vdso_strings       // DT_STRSZ
    .quad 11, 24                                    // DT_SYMENT
    .quad 0x6ffffff0, vdso_versions - vdso_start    // DT_VERSYM
    .quad 0x6ffffffc, vdso_definitions - vdso_start // DT_VERDEF
    .quad 0x6ffffffd, 2                             // DT_VERDEFNUM
    .quad 0, 0
vdso_dynamic_end:

vdso_hash:                              // one bucket: 1 -> 2 -> 3 -> 4
    .long 1, 5, 1
    .long 0, 2, 3, 4, 0

    .balign 8
vdso_symbols:
    .quad 0, 0, 0
    .macro VDSO_SYMBOL name
        .long vdso_name_\name - vdso_strings
        .byte 0x12, 0                   // global function
        .short 1
        .quad vdso_\name - vdso_start
        .quad vdso_\name\()_end - vdso_\name
    .endm
    VDSO_SYMBOL clock_gettime
    VDSO_SYMBOL gettimeofday
    VDSO_SYMBOL time
    VDSO_SYMBOL getcpu

vdso_strings:
    .byte 0
vdso_soname:
    .asciz "linux-vdso.so.1"
vdso_version:
    .asciz "LINUX_2.6"
vdso_name_clock_gettime:
    .asciz "__vdso_clock_gettime"
vdso_name_gettimeofday:
    .asciz "__vdso_gettimeofday"
vdso_name_time:
    .asciz "__vdso_time"
vdso_name_getcpu:
    .asciz "__vdso_getcpu"
vdso_strings_end:

    .balign 2
vdso_versions:
    .short 0, 2, 2, 2, 2

    .balign 4
vdso_definitions:
    // The object's own name (VER_FLG_BASE), then LINUX_2.6, each with one auxiliary entry. The words are ELF hashes.
    .short 1, 1, 1, 1
    .long 0x0deebfa1, 20, 28
    .long vdso_soname - vdso_strings, 0
    .short 1, 0, 2, 1
    .long 0x03ae75f6, 20, 0
    .long vdso_version - vdso_strings, 0

    .set vdso_facts, vdso_start - 4096

    // RAX = nanoseconds since boot. Clobbers RDX, R8.
    .macro VDSO_NOW
9:      mov r8, [rip + vdso_facts + {sequence}]
        test r8b, 1
        jnz 8f
        lfence
        rdtsc
        shl rdx, 32
        or rax, rdx
        sub rax, [rip + vdso_facts + {start}]
        mul qword ptr [rip + vdso_facts + {ns_per_cycle}]
        shrd rax, rdx, 32
        add rax, [rip + vdso_facts + {base}]
        cmp r8, [rip + vdso_facts + {sequence}]
        je 7f
8:      pause
        jmp 9b
7:
    .endm

    .balign 16
vdso_clock_gettime:
    // Realtime, monotonic, monotonic raw, both coarse ones, boottime, TAI.
    cmp edi, 11
    ja 3f
    mov eax, 0x8f3
    bt eax, edi
    jnc 3f
    cmp edi, 4
    je 5f
    VDSO_NOW
    mov ecx, 0x21                       // those that tell the wall clock's time
    bt ecx, edi
    jnc 4f
    add rax, [rip + vdso_facts + {wall}]
    jmp 2f
4:  cmp edi, 11
    jne 2f
    add rax, [rip + vdso_facts + {tai}]
2:  xor edx, edx
    mov ecx, 1000000000
    div rcx
    mov [rsi], rax
    mov [rsi + 8], rdx
    xor eax, eax
    ret
3:  mov eax, 228
    syscall
    ret
5:  lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, [rip + vdso_facts + {raw_start}]
    mul qword ptr [rip + vdso_facts + {raw_ns_per_cycle}]
    shrd rax, rdx, 32
    jmp 2b
vdso_clock_gettime_end:

    .balign 16
vdso_gettimeofday:
    test rsi, rsi
    jnz 3f
    test rdi, rdi
    jz 2f
    VDSO_NOW
    add rax, [rip + vdso_facts + {wall}]
    xor edx, edx
    mov ecx, 1000000000
    div rcx
    mov [rdi], rax
    mov rax, rdx
    xor edx, edx
    mov ecx, 1000
    div rcx
    mov [rdi + 8], rax
2:  xor eax, eax
    ret
3:  mov eax, {gettimeofday}         // the time zone is the kernel's to say
    syscall
    ret
vdso_gettimeofday_end:

    .balign 16
vdso_time:
    VDSO_NOW
    add rax, [rip + vdso_facts + {wall}]
    xor edx, edx
    mov ecx, 1000000000
    div rcx
    test rdi, rdi
    jz 2f
    mov [rdi], rax
2:  ret
vdso_time_end:

    .balign 16
vdso_getcpu:
    cmp qword ptr [rip + vdso_facts + {has_rdtscp}], 0
    je 4f
    rdtscp                              // ECX = node << 12 | CPU
    test rdi, rdi
    jz 2f
    mov eax, ecx
    and eax, 0xfff
    mov [rdi], eax
2:  test rsi, rsi
    jz 3f
    shr ecx, 12
    mov [rsi], ecx
3:  xor eax, eax
    ret
4:  mov eax, 309
    syscall
    ret
vdso_getcpu_end:
vdso_end:
    .balign 4096
    .text
    "#,
    sequence = const offset_of!(Facts, sequence),
    start = const offset_of!(Facts, start),
    base = const offset_of!(Facts, base),
    ns_per_cycle = const offset_of!(Facts, ns_per_cycle),
    wall = const offset_of!(Facts, wall),
    tai = const offset_of!(Facts, tai),
    raw_start = const offset_of!(Facts, raw_start),
    raw_ns_per_cycle = const offset_of!(Facts, raw_ns_per_cycle),
    gettimeofday = const linux_raw_sys::general::__NR_gettimeofday,
    has_rdtscp = const offset_of!(Facts, has_rdtscp),
);

unsafe extern "C" {
    static vdso_start: u8;
    static vdso_end: u8;
}

/// What to map into a program: data first, code right behind it, both private (a program that makes its copy writable must
/// not reach everybody's), neither writable. AT_SYSINFO_EHDR is the address of the code.
pub struct Vdso {
    pub data: ObjectOwner,
    pub data_len: usize,
    pub code: ObjectOwner,
    pub code_len: usize,
}

/// The vDSO. `None`: there was no memory, and programs make system calls.
pub fn vdso() -> Option<&'static Vdso> {
    OBJECTS.get().as_ref()
}

fn facts() -> Option<&'static Facts> {
    // SAFETY: null, or the data page, which stays for good, with its layout; its fields are atomic.
    unsafe { FACTS.load(Ordering::Acquire).as_ref() }
}

/// Tells the data page what the wall clock and CLOCK_TAI are ahead of the monotonic clock.
pub(super) fn set_wall(wall: u64, tai: u64) {
    if let Some(facts) = facts() {
        facts.wall.store(wall, Ordering::Relaxed);
        facts.tai.store(tai, Ordering::Relaxed);
    }
}

/// Tells the data page how fast the clock runs from now on, and by `begin` from which time-stamp and time on. Programs that read the clock meanwhile wait. One
/// caller at a time.
pub(super) fn set_pace(ns_per_cycle: u64, begin: impl FnOnce() -> (u64, u64)) {
    let Some(facts) = facts() else {
        begin();
        return;
    };
    let before = facts.sequence.load(Ordering::Relaxed);
    facts.sequence.store(before.wrapping_add(1), Ordering::Relaxed);
    let (start, base) = begin();
    facts.start.store(start, Ordering::Release);
    facts.base.store(base, Ordering::Release);
    facts.ns_per_cycle.store(ns_per_cycle, Ordering::Release);
    facts.sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Makes the two objects.
///
/// # Safety
/// Once, on the boot CPU, before other CPUs start.
pub unsafe fn init() {
    let Some((code, data)) = make() else {
        warn!("no memory for the vDSO");
        return;
    };
    // SAFETY: boot CPU, alone.
    unsafe { *OBJECTS.get_mut() = Some(Vdso { data, data_len: 4096, code, code_len: 4096 }) };
}

fn make() -> Option<(ObjectOwner, ObjectOwner)> {
    let image = &raw const vdso_start;
    // SAFETY: the two symbols bound the image.
    let image = unsafe { core::slice::from_raw_parts(image, &raw const vdso_end as usize - image as usize) };
    if image.len() > 4096 {
        return None;
    }
    let code = page_object(image)?;
    let data = page_object(&[])?;
    let facts = data.frame(0)?.bytes_ptr().cast::<Facts>();
    let clock = time::clock();
    // SAFETY: the page is resident and belongs to an object that lives for good; its fields are atomic.
    unsafe {
        (*facts).start.store(clock.start, Ordering::Relaxed);
        (*facts).ns_per_cycle.store(clock.ns_per_cycle, Ordering::Relaxed);
        (*facts).raw_start.store(clock.start, Ordering::Relaxed);
        (*facts).raw_ns_per_cycle.store(clock.ns_per_cycle, Ordering::Relaxed);
        (*facts).wall.store(time::wall_offset(), Ordering::Relaxed);
        (*facts).tai.store(time::tai_offset(), Ordering::Relaxed);
        (*facts).has_rdtscp.store(u64::from(features::get().rdtscp), Ordering::Relaxed);
    }
    FACTS.store(facts, Ordering::Release);
    Some((code, data))
}

/// An object of one page that begins with `bytes`.
fn page_object(bytes: &[u8]) -> Option<ObjectOwner> {
    let object = Object::try_owned(0).ok()?;
    object.set_size(4096).ok()?;
    object.fill(0).ok()?;
    object.keep_in_place();
    let page = object.frame(0)?.bytes_ptr();
    // SAFETY: a resident page that nobody else knows yet; `bytes` fits.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), page, bytes.len().min(4096)) };
    Some(object)
}
