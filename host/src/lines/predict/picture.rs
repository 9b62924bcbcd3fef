//! The predicted curves as an SVG picture: a panel for each benchmark, a line for each kernel, a dot where lines were counted.
#![forbid(unsafe_code)]

use svg::Document;
use svg::node::element::{Circle, Group, Line, Polyline, Rectangle, Text};

use super::{Curve, MOST};
use crate::bench::table::number;
use crate::cli::Costs;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 40.0;
const BELOW: f64 = 50.0;
const HEAD: f64 = 50.0;
const COLUMNS: usize = 2;
const COLOURS: [&str; 2] = ["#1f5fa8", "#c6403a"];
const MARKS: [u32; 6] = [1, 8, 16, 24, 32, 48];

pub fn draw(curves: &[Curve], costs: &Costs) -> String {
    let mut benches: Vec<&str> = Vec::new();
    for curve in curves {
        if !benches.contains(&curve.bench.as_str()) {
            benches.push(&curve.bench);
        }
    }
    let panel = (LEFT + WIDTH + 30.0, TOP + HEIGHT + BELOW);
    let columns = benches.len().clamp(1, COLUMNS);
    let (width, height) = (panel.0 * columns as f64, HEAD + panel.1 * benches.len().div_ceil(columns) as f64);
    let mut document = Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", "sans-serif")
        .add(Rectangle::new().set("width", width).set("height", height).set("fill", "white"))
        .add(
            text("MODEL, not a measurement: operations a second, all CPUs together", 12.0, 22.0)
                .set("font-size", 15),
        )
        .add(text(&costs.text(), 12.0, 40.0).set("font-size", 11));
    for (number, bench) in benches.iter().enumerate() {
        let own: Vec<&Curve> = curves.iter().filter(|curve| curve.bench == *bench).collect();
        let (x, y) = ((number % columns) as f64 * panel.0, HEAD + (number / columns) as f64 * panel.1);
        document = document.add(one(bench, &own).set("transform", format!("translate({x},{y})")));
    }
    document.to_string()
}

fn text(words: &str, x: f64, y: f64) -> Text {
    Text::new(words).set("x", x).set("y", y)
}

fn line(from: (f64, f64), to: (f64, f64), colour: &str) -> Line {
    Line::new().set("x1", from.0).set("y1", from.1).set("x2", to.0).set("y2", to.1).set("stroke", colour)
}

fn one(bench: &str, curves: &[&Curve]) -> Group {
    let most = curves.iter().flat_map(|curve| &curve.rates).map(|(_, rate)| *rate).fold(0.0, f64::max);
    let top = round_up(most);
    let x = |cpus: u32| LEFT + WIDTH * f64::from(cpus - 1) / f64::from(MOST - 1);
    let y = |rate: f64| TOP + HEIGHT * (1.0 - rate / top);
    let mut group = Group::new().add(text(bench, LEFT, TOP - 14.0).set("font-size", 14));
    for quarter in 0..=4 {
        let rate = top * f64::from(quarter) / 4.0;
        group = group.add(line((LEFT, y(rate)), (LEFT + WIDTH, y(rate)), "#dddddd")).add(
            text(&number(rate), LEFT - 6.0, y(rate) + 4.0).set("text-anchor", "end").set("font-size", 10),
        );
    }
    for cpus in MARKS {
        group = group.add(
            text(&cpus.to_string(), x(cpus), TOP + HEIGHT + 16.0)
                .set("text-anchor", "middle")
                .set("font-size", 10),
        );
    }
    group = group
        .add(text("CPUs", LEFT + WIDTH, TOP + HEIGHT + 32.0).set("text-anchor", "end").set("font-size", 10));
    for (number, curve) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<String> =
            curve.rates.iter().map(|&(cpus, rate)| format!("{:.1},{:.1}", x(cpus), y(rate))).collect();
        group = group.add(
            Polyline::new()
                .set("points", points.join(" "))
                .set("fill", "none")
                .set("stroke", colour)
                .set("stroke-width", 2),
        );
        for (cpus, ..) in &curve.counted {
            if let Some((_, rate)) = curve.rates.iter().find(|(at, _)| at == cpus) {
                group = group.add(
                    Circle::new().set("cx", x(*cpus)).set("cy", y(*rate)).set("r", 3).set("fill", colour),
                );
            }
        }
        group = group.add(
            text(&curve.kernel, LEFT + 90.0 * number as f64 + 8.0, TOP + HEIGHT + 34.0)
                .set("font-size", 12)
                .set("fill", colour),
        );
    }
    group
}

/// The next of 1, 2, 4, 5 or 8 times a power of ten.
fn round_up(value: f64) -> f64 {
    let unit = 10f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 4.0, 5.0, 8.0, 10.0]
        .map(|step| step * unit)
        .into_iter()
        .find(|&top| top >= value)
        .unwrap_or(value)
}
