//! The page of calls (docs/syscalls.md).
#![forbid(unsafe_code)]

use crate::claims::{Claim, claims, describe};
use crate::record::Record;
use crate::{CALLS, State};
use std::fmt::Write;

const HEAD: &str = "\
# System calls

Made by `make table` from the table of calls (kernel/src/syscall/rows.rs, tests/table/src/sets) and from what the ABI programs have shown
(tests/table/shown, which `tests/run --shown` writes). `make check` fails when this page is stale, or when the table claims what no
program of tests/abi has shown on Darter while printing the same as on Linux.

* **full**: as Linux 6.12. **accepted**: a hint, from which nothing follows that a program could see. **partly**: but for what is said.
* **missing**: refused with the error that is named, where Linux would do it. A call that is not there is ENOSYS.
* **no test**: the table says so, and no program of tests/abi has shown it yet.
";

/// The page.
pub fn page(record: &Record) -> String {
    let mut page = String::from(HEAD);
    let claims = claims();
    let shown = claims.iter().filter(|claim| claim.shown_by(record).is_some()).count();
    let there = CALLS.iter().filter(|call| call.there).count();
    let _ = writeln!(
        page,
        "\n{there} of {} calls are there. Of {} claims about calls, flags and commands {shown} are shown.\n",
        CALLS.len(),
        claims.len()
    );
    page.push_str("## Calls\n\n| number | call | | shown by |\n|---:|---|---|---|\n");
    for claim in claims.iter().filter(|claim| claim.option.is_none()) {
        let arguments: Vec<&str> = claim.call.arguments.iter().map(|argument| argument.name).collect();
        let _ = writeln!(
            page,
            "| {} | {}({}) | {} | {} |",
            claim.call.number,
            claim.call.name,
            arguments.join(", "),
            describe(claim.state()),
            by(claim, record)
        );
    }
    page.push_str("\n## Flags and commands\n");
    let mut heading = (String::new(), String::new());
    for claim in claims.iter().filter(|claim| claim.option.is_some()) {
        let here = (claim.call.name.to_owned(), claim.argument_text());
        if here.0 != heading.0 {
            let _ = write!(page, "\n### {}\n", here.0);
        }
        if here != heading {
            let _ = write!(page, "\n| {} | | shown by |\n|---|---|---|\n", here.1);
            heading = here;
        }
        let state = match claim.state() {
            State::Refused(errno) => format!("missing: {errno}"),
            state => describe(state),
        };
        let _ = writeln!(page, "| {} | {state} | {} |", claim.option_text(), by(claim, record));
    }
    page.push_str("\n## Calls that are missing\n\n");
    let missing: Vec<&str> = CALLS.iter().filter(|call| !call.there).map(|call| call.name).collect();
    for line in missing.chunks(10) {
        let _ =
            writeln!(page, "{}{}", line.join(", "), if line.last() == missing.last() { "." } else { "," });
    }
    page
}

fn by(claim: &Claim, record: &Record) -> String {
    claim.shown_by(record).unwrap_or_else(|| "no test".to_owned())
}
