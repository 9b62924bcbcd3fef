//! The machine's virtio devices, as QEMU's arguments and as words for the kernel: on a PC they are functions of PCI, which the kernel finds by itself; on
//! microvm they have registers at fixed places, of which the command line tells (QEMU would tell of them by AML, which Darter does not read).
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Machine, Model, share};
use crate::exit::usage;

/// Where microvm's registers are (QEMU 10, hw/i386/microvm.c): 24 places of 512 bytes, each with a line of the second I/O APIC. They are filled from the last
/// one on, as QEMU does: the line of the first does not work (QEMU's I/O APIC takes its pin 0 for a PC's timer, and raises pin 2).
const MMIO_BASE: u64 = 0xfeb0_0000;
const MMIO_SIZE: u64 = 512;
const MMIO_FIRST_LINE: u64 = 24;
const MMIO_LAST: u64 = 23;

/// What Darter drives (its first 26 have names); microvm has places for fewer.
const MOST_DEVICES: usize = 20;
const SECTOR: u64 = 512;

/// A file of this machine as a disk, as `--disk FILE[:ro]` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub file: PathBuf,
    pub read_only: bool,
}

impl Disk {
    /// For clap. The file is a whole number of sectors long.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (file, read_only) = match text.strip_suffix(":ro") {
            Some(file) => (file, true),
            None => (text, false),
        };
        let shown = Path::new(file).display();
        let metadata = std::fs::metadata(file).map_err(|error| format!("{shown}: {error}"))?;
        if !metadata.is_file() {
            return Err(format!("{shown} is no regular file"));
        }
        if metadata.len() == 0 || !metadata.len().is_multiple_of(SECTOR) {
            return Err(format!("{shown} has {} bytes: a disk has a multiple of {SECTOR}", metadata.len()));
        }
        // QEMU runs in this folder too, but a name may look like one of its protocols.
        let file = std::path::absolute(file).map_err(|error| format!("{shown}: {error}"))?;
        Ok(Self { file, read_only })
    }

    /// What the machine does with the file: each write is in this machine's cache when it is done, and on its disk when the guest has it flushed. What fails here
    /// (a full disk, too) fails in the guest, and does not stop the machine. What the guest discards becomes a hole.
    fn blockdev(&self, name: &str) -> String {
        // A comma is doubled for QEMU.
        let file = self.file.display().to_string().replace(',', ",,");
        let read_only = if self.read_only { "on" } else { "off" };
        format!(
            "driver=raw,node-name={name},read-only={read_only},discard=unmap,\
             file.driver=file,file.filename={file}"
        )
    }
}

/// One device.
pub struct Device {
    pub arguments: Vec<String>,
    /// For the kernel's command line.
    word: Option<String>,
}

impl Machine {
    /// All virtio devices of the machine. Where each run must be the same there is no source of entropy: it answers when QEMU's main loop comes to it, and
    /// other bytes each time; nor a balloon, which works by the clock.
    pub fn virtio(&self) -> Vec<Device> {
        let mut devices = Vec::new();
        if !self.deterministic {
            devices.push(self.device(0, "virtio-rng", "", &[]));
        }
        for (disk, n) in self.disks.iter().zip(0..) {
            let name = format!("disk{n}");
            let before = ["-blockdev".to_owned(), disk.blockdev(&name)];
            let properties = format!(",drive={name},werror=report,rerror=report");
            devices.push(self.device(n + 1, "virtio-blk", &properties, &before));
        }
        let first = self.disks.len() as u64 + 1;
        let root = self.root.iter().map(|folder| (share::ROOT.to_owned(), folder, false));
        let shares =
            self.shares.iter().zip(0..).map(|(share, n)| (share::tag(n), &share.folder, share.writes));
        for (place, (name, folder, writes)) in (first..).zip(shares.chain(root)) {
            let before = ["-fsdev".to_owned(), share::fsdev(folder, &name, writes)];
            let properties = format!(",fsdev={name},mount_tag={name}");
            devices.push(self.device(place, "virtio-9p", &properties, &before));
        }
        if self.balloon && !self.deterministic {
            let place = first + (self.shares.len() + self.root.iter().len()) as u64;
            devices.push(self.device(place, "virtio-balloon", ",free-page-reporting=on", &[]));
        }
        devices
    }

    pub(super) fn check_devices(&self) -> Result<()> {
        if self.disks.len() + self.shares.len() > MOST_DEVICES {
            return Err(usage(format!("--disk, --share: a machine has {MOST_DEVICES} of both at most")));
        }
        Ok(())
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
    fn a_disk_is_a_file_of_whole_sectors_that_is_there() {
        let folder = std::env::temp_dir().join(format!("darter-disk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a,b");
        std::fs::write(&file, [0; 1024]).unwrap();
        let name = file.to_str().unwrap();
        let disk = Disk::parse(&format!("{name}:ro")).unwrap();
        assert_eq!(disk, Disk { file: file.clone(), read_only: true });
        assert!(disk.blockdev("disk0").ends_with("a,,b"));
        assert!(!Disk::parse(name).unwrap().read_only);
        std::fs::write(&file, [0; 1000]).unwrap();
        assert!(Disk::parse(name).unwrap_err().contains("multiple of 512"));
        assert!(Disk::parse(folder.to_str().unwrap()).unwrap_err().contains("no regular file"));
        assert!(Disk::parse("/nowhere/at/all").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_pc_finds_its_devices_and_microvm_is_told() {
        let mut machine = machine(2, 1, 1 << 30);
        assert_eq!(machine.with_devices("quiet"), "quiet");
        machine.model = Model::Microvm;
        assert_eq!(machine.with_devices("quiet"), "virtio_mmio.device=512@0xfeb02e00:47 quiet");
        machine.balloon = true;
        let both = "virtio_mmio.device=512@0xfeb02e00:47 virtio_mmio.device=512@0xfeb02c00:46 quiet";
        assert_eq!(machine.with_devices("quiet"), both);
        machine.deterministic = true;
        assert_eq!(machine.with_devices("quiet"), "quiet", "no device with a time of its own");
    }
}
