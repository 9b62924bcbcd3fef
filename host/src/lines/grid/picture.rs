//! The grid as an SVG picture: a square per pair, white where nothing is shared, darker the more is; a pointer held over a
//! square shows the names of its lines.
#![forbid(unsafe_code)]

use svg::Document;
use svg::node::element::{Group, Rectangle, Text, Title};

use super::{Cell, Grid};

const SIDE: usize = 34;
/// Room for names of operations, left and above.
const MARGIN: usize = 130;
const TOP: usize = 60;
const GAP: usize = 40;
/// What the lines above the grid take.
const TITLE: usize = 560;
const FONT: &str = "sans-serif";
/// Names shown of one square.
const NAMES: usize = 24;

pub fn draw(grids: &[Grid]) -> String {
    let mut left = 0;
    let mut height = 0;
    let mut groups = Vec::new();
    for grid in grids {
        let side = grid.operations.len() * SIDE;
        groups.push(one(grid).set("transform", format!("translate({left},0)")));
        left += (MARGIN + side + GAP).max(TITLE);
        height = height.max(TOP + MARGIN + side + GAP);
    }
    let mut document = Document::new()
        .set("viewBox", (0, 0, left, height))
        .set("width", left)
        .set("height", height)
        .set("font-family", FONT)
        .add(Rectangle::new().set("width", left).set("height", height).set("fill", "white"));
    for group in groups {
        document = document.add(group);
    }
    document.to_string()
}

fn one(grid: &Grid) -> Group {
    let free = grid.cells.iter().filter(|cell| cell.lines == Some(0)).count();
    let mut group = Group::new()
        .add(Text::new(grid.kernel.clone()).set("x", MARGIN).set("y", 24).set("font-size", 18))
        .add(
            Text::new(format!(
                "conflict lines of two operations side by side; {free} of {} pairs share nothing",
                grid.cells.len()
            ))
            .set("x", MARGIN)
            .set("y", 44)
            .set("font-size", 11),
        );
    let count = grid.operations.len();
    for (number, name) in grid.operations.iter().enumerate() {
        let middle = number * SIDE + SIDE / 2 + 4;
        group = group.add(
            Text::new(name.clone())
                .set("x", MARGIN - 6)
                .set("y", TOP + middle)
                .set("text-anchor", "end")
                .set("font-size", 12),
        );
        let (x, y) = (MARGIN + middle, TOP + count * SIDE + 10);
        group = group.add(
            Text::new(name.clone())
                .set("text-anchor", "end")
                .set("font-size", 12)
                .set("transform", format!("translate({x},{y}) rotate(-60)")),
        );
        for column in 0..=number {
            if let Some(cell) = grid.cell(number, column) {
                group = group.add(square(cell, MARGIN + column * SIDE, TOP + number * SIDE));
            }
        }
    }
    group
}

fn square(cell: &Cell, x: usize, y: usize) -> Group {
    let (fill, ink) = colours(cell.lines);
    let mut title = format!("{} beside {}", cell.pair[0], cell.pair[1]);
    for name in cell.names.keys().take(NAMES) {
        title.push_str(&format!("\n{name}"));
    }
    if cell.names.len() > NAMES {
        title.push_str(&format!("\nand {} more", cell.names.len() - NAMES));
    }
    title.push_str(cell.failed.as_deref().map(|why| format!("\n{why}")).as_deref().unwrap_or(""));
    let label = match cell.lines {
        Some(0) => String::new(),
        _ => cell.text(),
    };
    Group::new()
        .add(Title::new(title))
        .add(
            Rectangle::new()
                .set("x", x)
                .set("y", y)
                .set("width", SIDE)
                .set("height", SIDE)
                .set("fill", fill)
                .set("stroke", "#bbbbbb"),
        )
        .add(
            Text::new(label)
                .set("x", x + SIDE / 2)
                .set("y", y + SIDE / 2 + 4)
                .set("text-anchor", "middle")
                .set("font-size", 11)
                .set("fill", ink),
        )
}

/// Of a square and of the number in it: a step for each factor of about three.
fn colours(lines: Option<usize>) -> (&'static str, &'static str) {
    match lines {
        None => ("#dddddd", "black"),
        Some(0) => ("white", "black"),
        Some(1..=2) => ("#fde0c5", "black"),
        Some(3..=9) => ("#f8b58b", "black"),
        Some(10..=29) => ("#eb7f5a", "black"),
        Some(30..=99) => ("#c6403a", "white"),
        Some(_) => ("#7a0c2e", "white"),
    }
}
