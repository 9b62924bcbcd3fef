//! Shows where two outputs part.

use crate::frames::{Ended, Outcome};
use crate::known::{Known, Side};

/// Lines shown of each difference, and differences shown.
const LINES: usize = 20;
const PLACES: usize = 12;
/// How far ahead a line that one side lacks is looked for.
const AHEAD: usize = 40;

pub fn difference(right: &Ended, outcome: &Outcome) {
    match outcome {
        Outcome::Machine(words) => {
            println!("    the machine failed while it ran: {}", words.trim_end().replace('\n', "\n    | "));
        }
        Outcome::Ended(got) => {
            if got.status != right.status {
                println!("    ended with {}, on Linux with {}", got.status, right.status);
            }
            lines(&right.output, &got.output);
        }
    }
}

/// Is every difference between the two one that is known?
pub fn is_known(known: &Known, program: &str, right: &Ended, got: &Ended) -> bool {
    // Every line is asked for, so that the list learns of all that are needed.
    let mut all = got.status == right.status || known.allows(program, Side::Status, &got.status);
    each(&right.output, &got.output, |_, wanted, _, came| {
        for line in wanted {
            all &= known.allows(program, Side::Linux, line);
        }
        for line in came {
            all &= known.allows(program, Side::Darter, line);
        }
    });
    all
}

fn lines(right: &[u8], got: &[u8]) {
    let mut places = 0;
    each(right, got, |at, wanted, here, came| {
        places += 1;
        if places <= PLACES {
            show("linux ", at, wanted);
            show("darter", here, came);
        }
    });
    if places > PLACES {
        println!("    … {} more places", places - PLACES);
    }
}

/// Calls `f` for each place where the two part: where it begins on either side, and the lines of each.
fn each(right: &[u8], got: &[u8], mut f: impl FnMut(usize, &[&str], usize, &[&str])) {
    let (right, got) = (String::from_utf8_lossy(right), String::from_utf8_lossy(got));
    let (right, got): (Vec<&str>, Vec<&str>) = (right.lines().collect(), got.lines().collect());
    let (mut at, mut here) = (0, 0);
    while at < right.len() || here < got.len() {
        if right.get(at) == got.get(here) {
            (at, here) = (at + 1, here + 1);
            continue;
        }
        let (to, there) = meeting(&right, at, &got, here);
        f(at, right.get(at..to).unwrap_or_default(), here, got.get(here..there).unwrap_or_default());
        (at, here) = (to, there);
    }
}

/// The nearest point at which the two run together again.
fn meeting(right: &[&str], at: usize, got: &[&str], here: usize) -> (usize, usize) {
    for sum in 1..AHEAD * 2 {
        for step in 0..=sum {
            let (to, there) = (at + step, here + sum - step);
            if to < right.len() && right.get(to) == got.get(there) {
                return (to, there);
            }
        }
    }
    (right.len(), got.len())
}

fn show(side: &str, from: usize, lines: &[&str]) {
    for (offset, line) in lines.iter().take(LINES).enumerate() {
        println!("    {side} {:>4}: {line}", from + offset + 1);
    }
    if lines.len() > LINES {
        println!("    {side}     : … {} more lines", lines.len() - LINES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_line_does_not_shift_the_rest() {
        let (right, got) = (["a", "b", "c", "d"], ["a", "c", "d"]);
        assert_eq!(meeting(&right, 1, &got, 1), (2, 1));
    }
}
