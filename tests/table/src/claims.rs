//! What the table claims, and whether the programs have shown it.
#![forbid(unsafe_code)]

use crate::record::Record;
use crate::{CALLS, Call, Kind, Opt, Set, State};

/// A call, or an option of a call's argument.
#[derive(Clone, Copy)]
pub struct Claim {
    pub call: &'static Call,
    /// Where the option stands, as the record has it.
    pub argument: Option<(&'static str, Option<&'static str>)>,
    pub option: Option<&'static Opt>,
}

/// What no ABI program can show of itself, and what does.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("exit", "-", "each program: it does not return"),
    ("exit_group", "-", "each program: it does not return"),
    ("reboot", "-", "tests/boot/host/statuses.sh: it does not return"),
    ("reboot", "RESTART", "tests/boot/host/statuses.sh: it does not return"),
    ("reboot", "HALT", "tests/boot/host/statuses.sh: it does not return"),
    ("reboot", "POWER_OFF", "tests/boot/host/statuses.sh: it does not return"),
    ("reboot", "SW_SUSPEND", "no program: Linux would put the machine to sleep"),
];

impl Claim {
    pub fn argument_text(&self) -> String {
        match self.argument {
            None => "-".to_owned(),
            Some((argument, None)) => argument.to_owned(),
            Some((argument, Some(field))) => format!("{argument}.{field}"),
        }
    }

    pub fn option_text(&self) -> &'static str {
        self.option.map_or("-", |option| option.name)
    }

    pub fn state(&self) -> State {
        match (self.option, self.call.lacks) {
            (Some(option), _) => option.state,
            (None, Some(errno)) if errno.bytes().all(|b| b.is_ascii_uppercase()) => State::Refused(errno),
            (None, Some(what)) => State::Partly(what),
            (None, None) => State::Done,
        }
    }

    /// As a line of tests/table/unshown.
    pub fn text(&self) -> String {
        format!("{} {} {}", self.call.name, self.argument_text(), self.option_text())
    }

    /// Who has shown it.
    pub fn shown_by(&self, record: &Record) -> Option<String> {
        let elsewhere = ELSEWHERE
            .iter()
            .find(|(call, option, _)| *call == self.call.name && *option == self.option_text());
        if let Some((_, _, place)) = elsewhere {
            return Some((*place).to_owned());
        }
        let outcome = match self.state() {
            State::Refused(errno) => errno,
            _ if matches!(self.call.name, "pause" | "rt_sigsuspend" | "restart_syscall") => "EINTR",
            _ => "ok",
        };
        let programs = record.programs(self.call.name, &self.argument_text(), self.option_text(), outcome)?;
        Some(programs.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    }
}

/// All that the table claims of the calls that are there, in its order.
pub fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for call in CALLS.iter().filter(|call| call.there) {
        claims.push(Claim { call, argument: None, option: None });
        for argument in call.arguments {
            of_kind(call, argument.name, &argument.kind, &mut claims);
        }
    }
    claims
}

fn of_kind(call: &'static Call, argument: &'static str, kind: &'static Kind, claims: &mut Vec<Claim>) {
    match kind {
        Kind::Options(set) => of_set(call, (argument, None), set, claims),
        Kind::In(known) | Kind::InOut(known) | Kind::InMany(known, _) | Kind::InOutMany(known, _) => {
            // The log tells the first two words.
            for field in known.fields.iter().filter(|field| field.offset + field.size <= 16) {
                if let Kind::Options(set) = &field.kind {
                    of_set(call, (argument, Some(field.name)), set, claims);
                }
            }
        }
        _ => {}
    }
}

fn of_set(
    call: &'static Call,
    argument: (&'static str, Option<&'static str>),
    set: &'static Set,
    claims: &mut Vec<Claim>,
) {
    for option in set.choices.iter().chain(set.flags) {
        claims.push(Claim { call, argument: Some(argument), option: Some(option) });
        for kind in option.takes {
            of_kind(call, option.name, kind, claims);
        }
    }
}

/// What is wrong: claims without a program (unless `unshown` names them), what is refused in words and accepted in truth, bits
/// that nobody has named and that are accepted, and lines of `unshown` that nothing needs.
pub fn findings(record: &Record, unshown: &str) -> Vec<String> {
    let mut left: Vec<&str> =
        unshown.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut findings = Vec::new();
    for claim in claims() {
        let shown = claim.shown_by(record).is_some();
        let place = left.iter().position(|line| *line == claim.text());
        if let Some(place) = place {
            left.remove(place);
        }
        match (shown, place) {
            (true, Some(_)) => {
                findings.push(format!("{}: is shown; take it out of tests/table/unshown", claim.text()))
            }
            (false, None) => findings.push(format!(
                "{}: no ABI program shows that it is {}",
                claim.text(),
                describe(claim.state())
            )),
            _ => {}
        }
        if let (State::Refused(errno), Some(option)) = (claim.state(), claim.option)
            && let Some(programs) =
                record.programs(claim.call.name, &claim.argument_text(), option.name, "ok")
        {
            findings.push(format!(
                "{}: refused with {errno}, says the table; accepted in {programs:?}",
                claim.text()
            ));
        }
    }
    for (fact, programs) in &record.0 {
        if fact.option.starts_with("0x") && fact.outcome == "ok" && !ignored(&fact.call, &fact.argument) {
            let (call, argument, bits) = (&fact.call, &fact.argument, &fact.option);
            findings.push(format!(
                "{call} {argument}: {bits} is accepted in {programs:?}, and no option of the table"
            ));
        }
    }
    findings
        .extend(left.iter().map(|line| format!("tests/table/unshown: {line:?} is no claim of the table")));
    findings
}

/// Linux ignores bits that it does not know in these.
fn ignored(call: &str, argument: &str) -> bool {
    const IGNORED: &[(&str, &str)] = &[
        ("open", "flags"),
        ("openat", "flags"),
        ("fcntl", "F_SETFL"),
        ("fcntl", "F_SETFD"),
        ("fcntl", "F_NOTIFY"),
        ("mmap", "prot"),
        ("mmap", "flags"),
        ("mknod", "mode"),
        ("mknodat", "mode"),
        ("poll", "fds.events"),
        ("ppoll", "fds.events"),
        ("epoll_ctl", "event.events"),
        ("rt_sigaction", "new.flags"),
        ("clock_nanosleep", "flags"),
        ("timer_settime", "flags"),
        ("personality", "to"),
        ("clone", "flags"),
        // Clocks of processes and threads are numbers.
        ("clock_getres", "clock"),
        ("clock_gettime", "clock"),
        ("fcntl", "F_GETLK.kind"),
        ("flock", "operation"),
        ("ioctl", "TIOCGPTPEER"),
        ("statx", "mask"),
    ];
    IGNORED.contains(&(call, argument))
}

pub fn describe(state: State) -> String {
    match state {
        State::Done => "full".to_owned(),
        State::Hint => "accepted".to_owned(),
        State::Partly(what) => format!("partly: {what}"),
        State::Refused(errno) => format!("missing: {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{claims, findings};
    use crate::record::Record;

    fn record(lines: &[&str]) -> Record {
        Record::parse(&lines.join("\n"))
    }

    /// All claims but those of `close`.
    fn others() -> String {
        claims()
            .iter()
            .map(|claim| claim.text() + "\n")
            .filter(|line| !line.starts_with("close_range "))
            .collect()
    }

    #[test]
    fn a_claim_needs_a_program_that_shows_it() {
        let shown = [
            "close_range - - ok files",
            "close_range flags CLOSE_RANGE_CLOEXEC ok files",
            "close_range flags CLOSE_RANGE_UNSHARE ok files",
        ];
        let unshown: String = others()
            .lines()
            .filter(|l| {
                !super::ELSEWHERE.iter().any(|(c, o, _)| l.starts_with(&format!("{c} ")) && l.ends_with(o))
            })
            .map(|l| format!("{l}\n"))
            .collect();
        assert_eq!(findings(&record(&shown), &unshown), [""; 0]);
        let found = findings(&record(&shown[..1]), &unshown);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("close_range flags CLOSE_RANGE_CLOEXEC: no ABI program shows"),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_accepted_must_be_claimed() {
        let unshown = others()
            + "close_range - -\nclose_range flags CLOSE_RANGE_CLOEXEC\nclose_range flags CLOSE_RANGE_UNSHARE\nno such claim\n";
        let lines = ["pipe2 flags O_NOTIFICATION_PIPE ok files", "close_range flags 0x8 ok files"];
        let found = findings(&record(&lines), &unshown);
        for part in [
            "refused with EINVAL, says the table; accepted",
            "0x8 is accepted",
            "\"no such claim\" is no claim",
        ] {
            assert!(found.iter().any(|finding| finding.contains(part)), "{part}: {found:?}");
        }
    }
}
