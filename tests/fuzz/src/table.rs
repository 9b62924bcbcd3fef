//! The table of system calls as the fuzzer uses it: names, and what calls make that other calls take.
#![forbid(unsafe_code)]

use darter_table::{CALLS, Sort};

/// A number without a row has no name; programs call such numbers, too.
pub fn name(number: usize) -> String {
    let row = CALLS.iter().find(|call| call.number == number);
    row.map_or_else(|| format!("call{number}"), |call| call.name.to_owned())
}

pub fn number(name: &str) -> Option<usize> {
    if let Some(digits) = name.strip_prefix("call") {
        return digits.parse().ok();
    }
    darter_table::call(name).map(|call| call.number)
}

/// What calls make and take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    File(Sort),
    Process,
    Timer,
    Memory,
}

/// A resource that a call leaves in memory: of which argument, from which byte on, how many bytes.
pub type Left = (usize, usize, usize, Resource);

/// The results of a call that others can use: what it returns, and what it leaves in memory.
pub fn results(name: &str, makes: Option<Sort>) -> (Option<Resource>, &'static [Left]) {
    const PIPE: &[Left] = &[(0, 0, 4, Resource::File(Sort::Pipe)), (0, 4, 4, Resource::File(Sort::Pipe))];
    const PAIR: &[Left] = &[(3, 0, 4, Resource::File(Sort::Socket)), (3, 4, 4, Resource::File(Sort::Socket))];
    const TIMER: &[Left] = &[(2, 0, 4, Resource::Timer)];
    let returned = match (name, makes) {
        (_, Some(Sort::Memory)) => Some(Resource::Memory),
        (_, Some(sort)) => Some(Resource::File(sort)),
        // Not getppid: that is the supervisor.
        ("fork" | "vfork" | "clone" | "clone3" | "getpid" | "gettid" | "setsid", None) => {
            Some(Resource::Process)
        }
        _ => None,
    };
    let left = match name {
        "pipe" | "pipe2" => PIPE,
        "socketpair" => PAIR,
        "timer_create" => TIMER,
        _ => &[],
    };
    (returned, left)
}
