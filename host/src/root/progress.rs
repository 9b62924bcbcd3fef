//! A line on the terminal while many bytes are packed.
#![forbid(unsafe_code)]

use indicatif::{ProgressBar, ProgressStyle};

/// Fewer are done before anybody wonders.
const MANY: u64 = 64 << 20;

/// How far `what` has got with `bytes`; shown on a terminal only.
pub fn of(what: &'static str, bytes: u64) -> ProgressBar {
    if bytes < MANY {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("darter: {msg}: {bytes} of {total_bytes}, {eta} left");
    let bar = ProgressBar::new(bytes);
    // The template above is one.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.with_message(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_at_once_is_not_shown() {
        assert!(of("a", MANY - 1).is_hidden());
        assert_eq!(of("a", MANY).length(), Some(MANY));
    }
}
