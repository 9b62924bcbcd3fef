//! One chart: curves over CPUs, a point for each run, each curve's name at its end.
#![forbid(unsafe_code)]

use anyhow::Result;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::labels::{self, cut, spread, width};
use super::sheet::{Area, FINE, Words, colour, font, picture, write, wrong};
use super::ticks::{apart, round, short};
use super::{Anchor, FAINT, INK};

/// Pixels of letters.
const TITLE: f64 = 14.0;
const SMALL: f64 = 11.0;
const NAME: f64 = 12.0;
/// Pixels below the ticks' words: the words `CPUs`.
const FOOT: i32 = 16;
const GAP: i32 = 6;
/// Pixels of a name at the end of a curve, at most.
const NAMES: f64 = 110.0;
const POINT: i32 = 3;

/// What happened with so many CPUs, on one kernel.
pub struct Curve {
    pub name: String,
    pub colour: &'static str,
    /// Ascending by CPUs: drawn as a line.
    pub line: Vec<(f64, f64)>,
    /// Single runs.
    pub points: Vec<(f64, f64)>,
}

/// Numbers from one to another, with ticks where they are wanted.
struct Axis {
    low: f64,
    most: f64,
    ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + ((value - self.low) / (self.most - self.low) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.most
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        short(*value)
    }
}

pub struct Chart {
    /// Nothing where what is around it says it.
    pub title: String,
    /// What the axis upwards shows.
    pub what: String,
    pub curves: Vec<Curve>,
    /// CPU counts at which ticks stand, ascending.
    pub cpus: Vec<u32>,
}

impl Chart {
    /// As a picture of its own, so large.
    pub fn svg(&self, size: (u32, u32)) -> Result<String> {
        picture(size, |sheet| self.draw(&sheet.part((0, 0), size)))
    }

    /// Fills the area.
    pub fn draw(&self, area: &Area<'_>) -> Result<()> {
        let (wide, high) = area.dim_in_pixel();
        let (wide, high) = (wide as i32 / FINE, high as i32 / FINE);
        let top = self.heading(area, f64::from(wide - 2 * GAP))?;
        let ticks = round(self.values().map(|(_, value)| value).fold(0.0, f64::max));
        let upmost = ticks.last().copied().unwrap_or(1.0);
        let left = ticks.iter().map(|tick| width(&short(*tick), SMALL)).fold(0.0, f64::max) as i32 + 8;
        let names: Vec<String> = self.curves.iter().map(|curve| cut(&curve.name, NAME, NAMES)).collect();
        let right = names.iter().map(|name| width(name, NAME)).fold(0.0, f64::max) as i32 + 2 * GAP;
        let (low, most) = self.span();
        let across = f64::from((wide - left - GAP - right).max(1));
        let places: Vec<f64> =
            self.cpus.iter().map(|&cpus| (f64::from(cpus) - low) / (most - low) * across).collect();
        let widths: Vec<f64> = self.cpus.iter().map(|cpus| width(&cpus.to_string(), SMALL)).collect();
        let cpus: Vec<f64> =
            apart(&places, &widths, 6.0).into_iter().map(|at| f64::from(self.cpus[at])).collect();
        let mut chart = ChartBuilder::on(area)
            .margin_top(top * FINE)
            .margin_left(GAP * FINE)
            .margin_right(right * FINE)
            .margin_bottom(FOOT * FINE)
            .x_label_area_size(20 * FINE)
            .y_label_area_size(left * FINE)
            .build_cartesian_2d(Axis { low, most, ticks: cpus }, Axis { low: 0.0, most: upmost, ticks })
            .map_err(wrong)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(colour(FAINT).stroke_width(FINE as u32))
            .axis_style(colour(FAINT).stroke_width(FINE as u32))
            .set_all_tick_mark_size(3 * FINE)
            .label_style(font(SMALL, INK, false))
            .draw()
            .map_err(wrong)?;
        for curve in &self.curves {
            let ink = colour(curve.colour);
            chart
                .draw_series(LineSeries::new(curve.line.iter().copied(), ink.stroke_width(2 * FINE as u32)))
                .map_err(wrong)?;
            let points = curve.points.iter().map(|&at| Circle::new(at, POINT * FINE, ink.mix(0.6).filled()));
            chart.draw_series(points).map_err(wrong)?;
        }
        let ends: Vec<(i32, i32)> = self
            .curves
            .iter()
            .map(|curve| {
                chart
                    .backend_coord(&curve.line.last().or(curve.points.last()).copied().unwrap_or((most, 0.0)))
            })
            .collect();
        let (base_x, base_y) = area.get_base_pixel();
        let heights: Vec<f64> = ends.iter().map(|(_, y)| f64::from(y - base_y) / f64::from(FINE)).collect();
        let floor = f64::from(high - FOOT - 20);
        let heights = spread(&heights, labels::line(NAME), f64::from(top), floor);
        for (((curve, name), (x, _)), y) in self.curves.iter().zip(&names).zip(&ends).zip(heights) {
            let at = ((x - base_x) / FINE + GAP, y as i32);
            write(area, &Words { colour: curve.colour, ..Words::new(name, at, NAME) })?;
        }
        let at = (wide - right, high - FOOT / 2);
        write(area, &Words { anchor: Anchor::End, ..Words::new("CPUs", at, SMALL) })
    }

    /// Title and what is shown, in as many lines as they take; the pixels that they take.
    fn heading(&self, area: &Area<'_>, most: f64) -> Result<i32> {
        let mut y = 4.0;
        for (text, size) in [(&self.title, TITLE), (&self.what, SMALL)] {
            for line in labels::wrap(text, size, most) {
                y += labels::line(size);
                write(area, &Words::new(&line, (GAP, (y - labels::line(size) / 2.0) as i32), size))?;
            }
        }
        // Half of the uppermost tick's words stand above the axis.
        Ok((y + SMALL) as i32)
    }

    fn values(&self) -> impl Iterator<Item = (f64, f64)> {
        self.curves.iter().flat_map(|curve| curve.line.iter().chain(&curve.points)).copied()
    }

    /// From where to where the axis of CPUs goes: a point at its end is not cut.
    fn span(&self) -> (f64, f64) {
        let ticks = self.cpus.iter().map(|&cpus| f64::from(cpus));
        let all = || self.values().map(|(cpus, _)| cpus).chain(ticks.clone());
        let (low, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        if !low.is_finite() || most <= low {
            return (most - 1.0, most + 1.0);
        }
        (low - (most - low) * 0.05, most + (most - low) * 0.02)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{KERNELS, layout};

    fn curve(name: &str, colour: &'static str, points: &[(f64, f64)]) -> Curve {
        Curve { name: name.into(), colour, line: points.to_vec(), points: points.to_vec() }
    }

    fn chart(cpus: &[u32], scale: f64) -> Chart {
        let at = |factor: f64| -> Vec<(f64, f64)> {
            cpus.iter().map(|&cpus| (f64::from(cpus), f64::from(cpus) * factor * scale)).collect()
        };
        Chart {
            title: "faultzf with a name that is too long for one line of the picture".into(),
            what: "operations a second, all CPUs together".into(),
            curves: vec![
                curve("darter", KERNELS[0], &at(1.0)),
                curve("linux", KERNELS[1], &at(0.99)),
                curve("/tmp/a/kernel/of/ones/own/with/a/long/name", KERNELS[2], &at(0.985)),
            ],
            cpus: cpus.to_vec(),
        }
    }

    #[test]
    fn words_stay_inside_and_apart_whatever_is_drawn() {
        for cpus in [&[1][..], &[1, 2, 4], &[1, 2, 4, 16, 48], &[1, 8, 16, 24, 32, 48], &[2, 3]] {
            for scale in [0.0, 1e-4, 3.3, 187_500.0, 1e9] {
                for size in [(330, 230), (420, 260), (900, 500)] {
                    let svg = chart(cpus, scale).svg(size).unwrap();
                    layout::check(&svg).unwrap_or_else(|why| panic!("{cpus:?} {scale} {size:?}: {why}"));
                }
            }
        }
    }

    #[test]
    fn each_run_is_a_point_and_each_name_stands_at_its_line() {
        let svg = chart(&[1, 2, 4], 1000.0).svg((420, 260)).unwrap();
        let read = layout::read(&svg);
        assert_eq!(read.circles, 9);
        let last = svg.rsplit("cx=\"").next().unwrap().split('"').next().unwrap().parse::<f64>().unwrap();
        for name in ["darter", "linux"] {
            let words = read.words.iter().find(|words| words.text == name).unwrap();
            assert!(
                words.left > last && words.left < last + 20.0 * f64::from(FINE),
                "{name} at {} of {last}",
                words.left
            );
        }
    }

    #[test]
    fn a_chart_of_nothing_is_drawn() {
        let empty = Chart { title: String::new(), what: "x".into(), curves: Vec::new(), cpus: Vec::new() };
        assert!(empty.svg((300, 200)).is_ok());
    }
}
