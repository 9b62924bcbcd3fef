//! Input and output ports with no device behind them: reads give ones, writes go nowhere.

/// # Safety
/// None is needed here; the kernel's own asks for the port.
pub unsafe fn inb(_port: u16) -> u8 {
    u8::MAX
}

/// # Safety
/// As [`inb`].
pub unsafe fn outb(_port: u16, _value: u8) {}

/// # Safety
/// As [`inb`].
pub unsafe fn outsb(_port: u16, _bytes: &[u8]) {}
