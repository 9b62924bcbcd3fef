//! Interrupts by kind, for /proc/interrupts.

use sync::per_cpu;
use sync::percpu::Count;

per_cpu! {
    pub static TIMER_INTERRUPTS: Count = Count::new();
    pub static RESCHEDULE_INTERRUPTS: Count = Count::new();
    pub static FLUSH_INTERRUPTS: Count = Count::new();
    pub static CALL_INTERRUPTS: Count = Count::new();
    pub static DEVICE_INTERRUPTS: Count = Count::new();
    pub static SPURIOUS_INTERRUPTS: Count = Count::new();
}
