//! The machine's virtio devices, as QEMU's arguments and as words for the kernel: on a PC they are functions of PCI, which the kernel finds by itself; on
//! microvm they have registers at fixed places, of which the command line tells (QEMU would tell of them by AML, which Darter does not read).
#![forbid(unsafe_code)]

use super::{Machine, Model};

/// Where microvm's registers are (QEMU 10, hw/i386/microvm.c): 24 places of 512 bytes, each with a line of the second I/O APIC. They are filled from the last
/// one on, as QEMU does: the line of the first does not work (QEMU's I/O APIC takes its pin 0 for a PC's timer, and raises pin 2).
const MMIO_BASE: u64 = 0xfeb0_0000;
const MMIO_SIZE: u64 = 512;
const MMIO_FIRST_LINE: u64 = 24;
const MMIO_LAST: u64 = 23;

/// One device.
pub struct Device {
    pub arguments: Vec<String>,
    /// For the kernel's command line.
    word: Option<String>,
}

impl Machine {
    /// All virtio devices of the machine.
    pub fn virtio(&self) -> Vec<Device> {
        vec![self.device(0, "virtio-rng", "", &[])]
    }

    /// The `n`th device, of QEMU's kind `kind`, with `properties` and arguments that come before it.
    fn device(&self, n: u64, kind: &str, properties: &str, before: &[String]) -> Device {
        let place = MMIO_LAST.saturating_sub(n);
        let (device, word) = match self.model {
            Model::Q35 => (format!("{kind}-pci,disable-legacy=on{properties}"), None),
            Model::Microvm => (
                format!("{kind}-device,bus=virtio-mmio-bus.{place}{properties}"),
                Some(format!(
                    "virtio_mmio.device={MMIO_SIZE}@{:#x}:{}",
                    MMIO_BASE + place * MMIO_SIZE,
                    MMIO_FIRST_LINE + place
                )),
            ),
        };
        let mut arguments = before.to_vec();
        if self.model == Model::Microvm {
            // Registers of virtio 1.0 and later.
            arguments.extend(["-global".into(), "virtio-mmio.force-legacy=false".into()]);
        }
        arguments.extend(["-device".into(), device]);
        Device { arguments, word }
    }

    /// The kernel's command line with the words that tell of devices. The user's words, which stand at its end, still win.
    pub fn with_devices(&self, command_line: &str) -> String {
        let mut words: Vec<String> = self.virtio().into_iter().filter_map(|device| device.word).collect();
        words.push(command_line.to_owned());
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use super::*;

    #[test]
    fn a_pc_finds_its_devices_and_microvm_is_told() {
        let mut machine = machine(2, 1, 1 << 30);
        assert_eq!(machine.with_devices("quiet"), "quiet");
        machine.model = Model::Microvm;
        assert_eq!(machine.with_devices("quiet"), "virtio_mmio.device=512@0xfeb02e00:47 quiet");
    }
}
