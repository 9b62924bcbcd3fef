//! Prints a window of line mode: `lines LINES.json SYSTEM.MAP|ELF WINDOW OPS [LINES]`; OPS is the sum over all tasks.

use darter_measure::{Names, parse_lines};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [counts, symbols, window, operations, rest @ ..] = arguments.as_slice() else {
        return Err("lines LINES.json SYSTEM.MAP|ELF WINDOW OPS [LINES]".into());
    };
    let names = Names::new(&std::fs::read(symbols)?)?;
    let windows = parse_lines(&std::fs::read_to_string(counts)?)?;
    let window = windows.get(window.parse::<usize>()?).ok_or("no such window")?;
    let top = rest.first().map_or(Ok(30), |text| text.parse())?;
    print!("{}", window.report(operations.parse()?, &names, top));
    Ok(())
}
