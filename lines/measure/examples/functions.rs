//! Prints a pair of windows as figures per operation and the kernel functions behind them:
//! `functions COUNTS.json SYSTEM.MAP|ELF WINDOW OPS [LINES]`, where WINDOW held OPS operations and the one after it 2 × OPS.

use darter_measure::{Symbols, parse_instructions, per_op, profile_per_op};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [counts, symbols, window, operations, rest @ ..] = arguments.as_slice() else {
        return Err("functions COUNTS.json SYSTEM.MAP|ELF WINDOW OPS [LINES]".into());
    };
    let symbols = Symbols::from_either(&std::fs::read(symbols)?)?;
    let windows = parse_instructions(&std::fs::read_to_string(counts)?)?;
    let (first, operations) = (window.parse::<usize>()?, operations.parse::<u64>()?);
    let (Some(small), Some(big)) = (windows.get(first), windows.get(first + 1)) else {
        return Err("no such windows".into());
    };
    let cost = per_op(small, operations, big, 2 * operations)?;
    println!("user {:.1}  kernel {:.1}  iterations {:.1}", cost.user, cost.kernel, cost.iterations);
    let lines = rest.first().map_or(Ok(40), |text| text.parse())?;
    for function in profile_per_op(small, operations, big, 2 * operations, &symbols)?.iter().take(lines) {
        println!("{:12.1} {:12.1}  {}", function.instructions, function.iterations, function.name);
    }
    Ok(())
}
