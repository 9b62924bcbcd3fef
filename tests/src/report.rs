//! Shows where two outputs part.

use crate::frames::{Ended, Outcome};

/// Lines shown of each difference, and differences shown.
const LINES: usize = 6;
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

fn lines(right: &[u8], got: &[u8]) {
    let (right, got) = (String::from_utf8_lossy(right), String::from_utf8_lossy(got));
    let (right, got): (Vec<&str>, Vec<&str>) = (right.lines().collect(), got.lines().collect());
    let (mut at, mut here, mut places) = (0, 0, 0);
    while at < right.len() || here < got.len() {
        if right.get(at) == got.get(here) {
            (at, here) = (at + 1, here + 1);
            continue;
        }
        let (to, there) = meeting(&right, at, &got, here);
        places += 1;
        if places <= PLACES {
            show("linux ", at, right.get(at..to).unwrap_or_default());
            show("darter", here, got.get(here..there).unwrap_or_default());
        }
        (at, here) = (to, there);
    }
    if places > PLACES {
        println!("    … {} more places", places - PLACES);
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
