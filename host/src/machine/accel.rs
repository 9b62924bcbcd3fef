//! Which accelerator QEMU uses. KVM only where the processor itself offers it: a machine can have a /dev/kvm that
//! cannot run anything, which shows by neither vmx nor svm standing in /proc/cpuinfo.
#![forbid(unsafe_code)]

use anyhow::Result;

use crate::exit::usage;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    /// KVM if this machine offers it, else emulation
    Auto,
    Kvm,
    Tcg,
    /// KVM without its hardware: in an emulated machine with Linux, whose KVM runs this one (slow; for run and shell)
    Nested,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    Kvm,
    Tcg,
}

impl Accel {
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg",
        }
    }

    pub fn choose(wanted: Wanted) -> Result<Self> {
        match (wanted, kvm_lack()) {
            (Wanted::Tcg, _) | (Wanted::Auto, Some(_)) => Ok(Accel::Tcg),
            (Wanted::Auto | Wanted::Kvm, None) => Ok(Accel::Kvm),
            (Wanted::Nested, _) => Err(usage("--accel nested: only run and shell take it")),
            (Wanted::Kvm, Some(lack)) => {
                Err(usage(format!("--accel kvm: {lack}; leave the option away to use emulation")))
            }
        }
    }
}

/// Why KVM cannot be used here, if it cannot.
pub fn kvm_lack() -> Option<String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !offers_virtualization(&cpuinfo) {
        return Some(
            "this machine's processor offers no virtualization (no vmx or svm in /proc/cpuinfo)".into(),
        );
    }
    match std::fs::File::options().read(true).write(true).open("/dev/kvm") {
        Ok(_) => None,
        Err(e) => Some(format!("/dev/kvm cannot be opened ({e}); is this user in the group kvm?")),
    }
}

fn offers_virtualization(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .flat_map(str::split_whitespace)
        .any(|flag| flag == "vmx" || flag == "svm")
}

#[cfg(test)]
mod tests {
    use super::offers_virtualization;

    #[test]
    fn only_the_flags_of_a_processor_count() {
        assert!(offers_virtualization("flags\t\t: fpu vmx smx\n"));
        assert!(!offers_virtualization("model name : vmx svm\nflags : fpu vmx2 lahf_lm\n"));
    }
}
