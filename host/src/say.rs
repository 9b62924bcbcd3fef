//! Lines on stdout and stderr that do not mind when nobody reads them any more (the standard macros panic then).
#![forbid(unsafe_code)]

/// A line on stdout.
macro_rules! out {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}

/// A line on stderr.
macro_rules! note {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
