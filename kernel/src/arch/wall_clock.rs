//! The wall clock at the start: the CMOS clock, with the part of a second that it lacks.
//!
//! QEMU's CMOS clock starts at a whole second, up to one before the time of its host: a file that the host wrote just now would be from the future, and make(1) and ls(1)
//! heed that. So who starts the machine says when that was: `darter.clock=SECONDS.NANOSECONDS` on the command line.
#![forbid(unsafe_code)]

const SECOND: u64 = 1_000_000_000;
const WORD: &str = "darter.clock=";

/// Nanoseconds since 1970 UTC. `cmos`: seconds that the CMOS clock shows; None: the machine has none, and the command line alone says the time.
///
/// Where the two differ by two seconds or more, the CMOS clock was set to another date on purpose, and has the say.
pub fn at_start(cmos: Option<u64>, command_line: &str) -> u64 {
    let told = command_line.split_ascii_whitespace().rev().find_map(|word| parse(word.strip_prefix(WORD)?));
    let Some(cmos) = cmos.map(|seconds| seconds.saturating_mul(SECOND)) else { return told.unwrap_or(0) };
    told.filter(|told| (cmos..cmos.saturating_add(2 * SECOND)).contains(told)).unwrap_or(cmos)
}

/// Nanoseconds, from seconds with nine digits after the point.
fn parse(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if rest.len() != 9 || !is_number(rest) || !is_number(seconds) {
        return None;
    }
    seconds.parse::<u64>().ok()?.checked_mul(SECOND)?.checked_add(rest.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_second_is_told() {
        assert_eq!(at_start(Some(100), "quiet darter.clock=100.000000040 trace"), 100 * SECOND + 40);
        assert_eq!(at_start(Some(100), "darter.clock=101.999999999"), 102 * SECOND - 1);
        assert_eq!(
            at_start(Some(100), "darter.clock=100.000000001 darter.clock=100.000000002"),
            100 * SECOND + 2,
            "the last one"
        );
    }

    #[test]
    fn another_date_in_the_cmos_clock_is_wanted() {
        for told in ["darter.clock=99.999999999", "darter.clock=102.000000000", "darter.clock=0.000000000"] {
            assert_eq!(at_start(Some(100), told), 100 * SECOND, "{told}");
        }
        assert_eq!(at_start(Some(u64::MAX), "darter.clock=1.000000000"), u64::MAX);
    }

    #[test]
    fn without_a_cmos_clock_the_command_line_says_the_time() {
        assert_eq!(at_start(None, "darter.clock=100.000000040"), 100 * SECOND + 40);
        assert_eq!(at_start(None, "quiet"), 0);
    }

    #[test]
    fn no_word_is_too_odd() {
        for odd in [
            "",
            "100",
            "100.5",
            ".000000000",
            "100.0000000000",
            "100.00000000x",
            "-1.000000000",
            "18446744073.999999999",
            "100.+00000001",
        ] {
            assert_eq!(at_start(Some(100), &alloc::format!("darter.clock={odd}")), 100 * SECOND, "{odd}");
        }
    }
}
