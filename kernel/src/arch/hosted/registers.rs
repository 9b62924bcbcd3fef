//! Registers of a device that a test plays.

use std::sync::Arc;
use virtio::Width;
use virtio::pci::Window;

pub struct Registers(pub Arc<dyn virtio::Registers>);

impl Registers {
    /// No window is mapped here.
    pub fn map(_window: Window) -> Option<Registers> {
        None
    }
}

impl virtio::Registers for Registers {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, at: usize, width: Width) -> u32 {
        self.0.read(at, width)
    }

    fn write(&self, at: usize, width: Width, value: u32) {
        self.0.write(at, width, value);
    }
}
