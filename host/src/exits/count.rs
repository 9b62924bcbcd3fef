//! A trace of KVM (Linux: Documentation/trace/events.rst) between the marks of host/guest/exits.c.
//!
//! `kvm_exit` names the reason; where that is an access to a register or a port, the event that follows it says which. Marks are calls of CPUID,
//! of which the second lies in the window itself and is taken off again.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use anyhow::Result;

use super::Causes;

/// Begins each line of counts.
pub const LINE: &str = "exits of window ";
/// As exits.c has them.
const OPEN: &str = "44415201";
const CLOSE: &str = "44415202";
/// The host's own interrupts end the guest's turn as well; those that tell a CPU of an interrupt for it are among them.
pub const HOST: &str = "host interrupt";

/// Exits by cause in each window.
pub fn windows(trace: impl BufRead) -> Result<BTreeMap<u32, Causes>> {
    let mut windows = BTreeMap::new();
    let mut open: Option<(u32, Causes)> = None;
    // By thread: what it left the guest for, if a further event says more.
    let mut vague: HashMap<String, &'static str> = HashMap::new();
    for line in trace.lines() {
        let line = line?;
        let Some((thread, event, words)) = parse(&line) else { continue };
        if event == "kvm_cpuid" {
            let number = words.get(3).and_then(|text| u32::from_str_radix(text, 16).ok());
            match (words.get(1).copied(), number, open.take()) {
                (Some(OPEN), Some(number), _) => open = Some((number, Causes::new())),
                (Some(CLOSE), Some(number), Some((opened, mut causes))) if opened == number => {
                    if let Some(count) = causes.get_mut("CPUID") {
                        *count -= 1.0;
                    }
                    causes.retain(|_, count| *count > 0.0);
                    windows.insert(number, causes);
                }
                _ => {}
            }
            continue;
        }
        let Some((_, causes)) = &mut open else { continue };
        let cause = match (event, words.as_slice()) {
            ("kvm_exit", [_, _, "reason", reason, ..]) => match *reason {
                "msr" | "io" => {
                    vague.insert(thread.to_owned(), if *reason == "msr" { "a register" } else { "a port" });
                    continue;
                }
                reason => named(reason),
            },
            ("kvm_msr", [way, register, ..]) => {
                let Some(_) = vague.remove(thread) else { continue };
                format!("{} {}", if *way == "msr_write" { "write" } else { "read" }, register_name(register))
            }
            ("kvm_pio", [_, _, port, ..]) => {
                let Some(_) = vague.remove(thread) else { continue };
                format!("port {}", port.trim_start_matches("0x"))
            }
            _ => continue,
        };
        *causes.entry(cause).or_default() += 1.0;
    }
    Ok(windows)
}

/// `THREAD-PID [CPU] FLAGS TIME: EVENT: WORDS`: thread, event and words.
fn parse(line: &str) -> Option<(&str, &str, Vec<&str>)> {
    let (head, rest) = line.split_once(": ")?;
    let (event, rest) = rest.split_once(": ")?;
    let thread = head.split_once('[')?.0.trim();
    Some((thread, event, rest.split([' ', ',']).filter(|word| !word.is_empty()).collect()))
}

fn named(reason: &str) -> String {
    match reason {
        "hlt" => "HLT",
        "npf" | "EPT_VIOLATION" => "page of the host",
        "interrupt" | "EXTERNAL_INTERRUPT" => HOST,
        "vintr" | "INTERRUPT_WINDOW" => "interrupt window",
        "cpuid" | "CPUID" => "CPUID",
        "hypercall" | "VMCALL" => "hypercall",
        other => other,
    }
    .into()
}

fn register_name(register: &str) -> String {
    match register {
        "6e0" => "TSC deadline".into(),
        "80b" => "EOI".into(),
        "830" => "ICR".into(),
        "838" => "timer count".into(),
        other => format!("MSR {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: nop
 q-1     [000] d..1.    1.1: kvm_exit: vcpu 0 reason hlt rip 0x1 info1 0x0
 q-1     [000] .....    1.2: kvm_cpuid: func 44415201 idx 1f rax 0 rbx 0 rcx 0 rdx 0, cpuid entry not found
 q-1     [000] d..1.    1.3: kvm_exit: vcpu 0 reason msr rip 0x1 info1 0x1
 q-2     [001] d..1.    1.4: kvm_exit: vcpu 1 reason io rip 0x1 info1 0x1
 q-1     [000] .....    1.5: kvm_msr: msr_write 6e0 = 0x6e746687d
 q-2     [001] .....    1.6: kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x20
 q-2     [001] d..1.    1.7: kvm_exit: vcpu 1 reason hlt rip 0x1 info1 0x0
 q-2     [001] d..1.    1.7: kvm_exit: vcpu 1 reason hlt rip 0x1 info1 0x0
 q-1     [000] d..1.    1.8: kvm_exit: vcpu 0 reason cpuid rip 0x1 info1 0x0
 q-1     [000] .....    1.9: kvm_cpuid: func 44415202 idx 1f rax 0 rbx 0 rcx 0 rdx 0, cpuid entry not found
 q-1     [000] d..1.    2.0: kvm_exit: vcpu 0 reason hlt rip 0x1 info1 0x0
 q-1     [000] .....    2.1: kvm_cpuid: func 44415202 idx 20 rax 0 rbx 0 rcx 0 rdx 0, cpuid entry not found
";

    #[test]
    fn what_lies_between_the_marks_counts_on_all_cpus_and_the_mark_does_not() {
        let windows = windows(TRACE.as_bytes()).unwrap();
        assert_eq!(windows.keys().copied().collect::<Vec<_>>(), [31]);
        let causes: Vec<(&str, f64)> =
            windows[&31].iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(causes, [("HLT", 2.0), ("port 3f8", 1.0), ("write TSC deadline", 1.0)]);
    }
}
