//! The parts of the page: pictures and tables of one kind of figure each; None where that was not measured.
#![forbid(unsafe_code)]

use anyhow::Result;
use maud::{Markup, PreEscaped, html};

use super::kept::Kept;
use crate::bench::FULL;
use crate::bench::exact::{Count, EXPENSIVE, RARE};
use crate::bench::results::Results;
use crate::bench::suite;
use crate::bench::table::{median, number};
use crate::lines::report::Figures;
use crate::lines::{grid as grids, predict};
use crate::plot::{Chart, Curve, KERNELS};

/// Of a chart: so narrow that a phone shows its letters in their own size.
const SIZE: (u32, u32) = (340, 240);

type Section = Option<Markup>;

/// What a benchmark does, where this program knows.
fn what(benchmark: &str) -> &'static str {
    suite::choose(&[benchmark.to_owned()])
        .ok()
        .and_then(|specs| specs.first().map(|spec| spec.what))
        .unwrap_or_default()
}

/// In the order in which they come first.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// The file's name of a kernel that is a file.
fn short(kernel: &str) -> &str {
    kernel.rsplit('/').next().unwrap_or(kernel)
}

fn drawn(chart: &Chart) -> Result<PreEscaped<String>> {
    Ok(PreEscaped(chart.svg(SIZE)?))
}

/// A table that scrolls in its own box. So many columns from the left are words, and all that is longer than a figure: that may be wrapped.
fn table(header: &[String], words: usize, rows: &[Vec<String>]) -> Markup {
    let long = |at: usize| rows.iter().any(|row| row.get(at).is_some_and(|cell| cell.len() > 24));
    let text: Vec<bool> = (0..header.len()).map(|at| at < words || long(at)).collect();
    html! {
        div.scroll {
            table {
                thead { tr { @for (cell, text) in header.iter().zip(&text) { th.text[*text] { (cell) } } } }
                tbody {
                    @for row in rows {
                        tr { @for (cell, text) in row.iter().zip(&text) { td.text[*text].wide[cell.len() > 40] { (cell) } } }
                    }
                }
            }
        }
    }
}

/// The first two kernels' figures by benchmark: rates, instructions, lines.
pub fn beside(kept: &Kept) -> Section {
    let rates = kept.rates.as_ref().filter(|rates| rates.kernels.len() > 1);
    let counted = |counts: &[Count]| distinct(counts.iter().map(|count| count.kernel.clone()));
    let counts = kept.instructions.as_ref().filter(|counts| counted(&counts.counts).len() > 1);
    let lines =
        kept.lines.as_ref().filter(|lines| distinct(lines.figures.iter().map(|f| &f.kernel)).len() > 1);
    if rates.is_none() && counts.is_none() && lines.is_none() {
        return None;
    }
    let benchmarks = distinct(
        (rates.into_iter().flat_map(|rates| rates.samples.iter().map(|sample| sample.benchmark.as_str())))
            .chain(
                counts
                    .into_iter()
                    .flat_map(|counts| counts.counts.iter().map(|count| count.benchmark.as_str())),
            )
            .chain(lines.into_iter().flat_map(|lines| lines.figures.iter().map(|f| f.bench.as_str()))),
    );
    let cells = rates.map(cells).unwrap_or_default();
    let line_cpus = lines.map(|lines| distinct(lines.figures.iter().map(|f| f.cpus))).unwrap_or_default();
    let mut header = vec!["benchmark".to_owned()];
    header.extend(cells.iter().map(|(model, cpus)| format!("rate, {}", place(model, *cpus))));
    header.extend(counts.map(|_| "instructions".to_owned()));
    header.extend(line_cpus.iter().map(|cpus| format!("lines taken, {cpus} CPUs")));
    header.push("operation".into());
    let ratio = |ours: Option<f64>, theirs: Option<f64>| match (ours, theirs) {
        (Some(ours), Some(theirs)) if theirs > 0.0 => format!("×{:.2}", ours / theirs),
        _ => "-".to_owned(),
    };
    let mut rows = Vec::new();
    for benchmark in benchmarks {
        let mut row = vec![benchmark.to_owned()];
        if let Some(rates) = rates {
            let of = |kernel: usize, model: &str, cpus| {
                median(&rates.rates(benchmark, &rates.kernels[kernel], model, cpus))
            };
            row.extend(cells.iter().map(|(model, cpus)| ratio(of(0, model, *cpus), of(1, model, *cpus))));
        }
        if let Some(counts) = counts {
            let own: Vec<&Count> =
                counts.counts.iter().filter(|count| count.benchmark == benchmark).collect();
            let of = |at: usize| own.get(at).and_then(|count| count.kernel_instructions);
            row.push(ratio(of(0), of(1)));
        }
        for cpus in &line_cpus {
            let kernels = lines.map(|lines| kernels(&lines.figures)).unwrap_or_default();
            let of = |kernel: &str| {
                let own = |f: &&Figures| f.bench == benchmark && f.cpus == *cpus && f.kernel == kernel;
                lines
                    .and_then(|lines| lines.figures.iter().find(own))
                    .map_or("-".into(), |f| taken(f.transfers_per_op))
            };
            row.push(kernels.iter().take(2).map(|kernel| of(kernel)).collect::<Vec<_>>().join(" : "));
        }
        row.push(what(benchmark).to_owned());
        rows.push(row);
    }
    Some(html! {
        p.soft { "The first kernel's median of rates and its instructions as so many times the second one's (rates: more is better; instructions: fewer). Lines taken by one CPU from another are those of an operation, first : second." }
        (table(&header, 1, &rows))
    })
}

fn kernels(figures: &[Figures]) -> Vec<String> {
    // `lines` sorts by benchmark and CPUs, and keeps the kernels' order.
    distinct(figures.iter().map(|f| f.kernel.clone()))
}

/// CPU models and counts.
fn cells(rates: &Results) -> Vec<(String, u32)> {
    let mut cells = distinct(rates.samples.iter().map(|sample| (sample.cpu_model.clone(), sample.cpus)));
    cells.sort_by_key(|(_, cpus)| *cpus);
    cells.sort_by_key(|(model, _)| model != FULL);
    cells
}

/// "2 CPUs", and the CPU model where it is not the usual one.
pub fn place(model: &str, cpus: u32) -> String {
    let plural = if cpus == 1 { "" } else { "s" };
    if model == FULL { format!("{cpus} CPU{plural}") } else { format!("{cpus} CPU{plural}, -cpu {model}") }
}

pub fn rates(kept: &Kept) -> Result<Section> {
    let Some(rates) = &kept.rates else { return Ok(None) };
    let benchmarks = distinct(rates.samples.iter().map(|sample| sample.benchmark.as_str()));
    let models = distinct(rates.samples.iter().map(|sample| sample.cpu_model.as_str()));
    let mut figures = Vec::new();
    for model in &models {
        for benchmark in &benchmarks {
            let chart = scaling(rates, benchmark, model);
            let failures = distinct(rates.samples.iter().filter_map(|sample| {
                let own = sample.benchmark == *benchmark && sample.cpu_model == *model;
                let why = sample.result.as_ref().err().filter(|_| own)?;
                Some(format!("failed: {} with {}: {why}", short(&sample.kernel), place(model, sample.cpus)))
            }));
            figures.push(html! {
                figure {
                    figcaption {
                        h3 { (benchmark) @if *model != FULL { " (-cpu " (model) ")" } }
                        (what(benchmark))
                    }
                    (drawn(&chart)?)
                    @for why in failures { p.bad { (why) } }
                }
            });
        }
    }
    Ok(Some(html! {
        p.soft { "Operations a second, all CPUs together. A point is a run; the line goes through the medians." }
        div.charts { @for figure in &figures { (figure) } }
        (runs(rates, &benchmarks))
    }))
}

fn scaling(rates: &Results, benchmark: &str, model: &str) -> Chart {
    let own = |cpus: &u32| {
        rates.samples.iter().any(|s| s.benchmark == benchmark && s.cpu_model == model && s.cpus == *cpus)
    };
    let mut cpus: Vec<u32> =
        distinct(rates.samples.iter().map(|sample| sample.cpus)).into_iter().filter(own).collect();
    cpus.sort_unstable();
    let curves = rates.kernels.iter().zip(KERNELS.iter().cycle()).map(|(kernel, colour)| {
        let all: Vec<(f64, Vec<Option<f64>>)> =
            cpus.iter().map(|&cpus| (f64::from(cpus), rates.rates(benchmark, kernel, model, cpus))).collect();
        let points = all.iter().flat_map(|(cpus, rates)| rates.iter().flatten().map(|rate| (*cpus, *rate)));
        let line = all.iter().filter_map(|(cpus, rates)| Some((*cpus, median(rates)?)));
        Curve { name: short(kernel).to_owned(), colour, line: line.collect(), points: points.collect() }
    });
    // One of which nothing is known has no line at which its name could stand.
    let curves = curves.filter(|curve| !curve.points.is_empty()).collect();
    Chart { title: String::new(), what: "operations a second".into(), curves, cpus }
}

/// Each run, as the table on the terminal has them.
fn runs(rates: &Results, benchmarks: &[&str]) -> Markup {
    let mut header: Vec<String> = ["benchmark", "where", "kernel"].map(str::to_owned).to_vec();
    header.extend((1..=rates.runs).map(|run| format!("run {run}")));
    header.extend(["median", "min", "max"].map(str::to_owned));
    let mut rows = Vec::new();
    for benchmark in benchmarks {
        for (model, cpus) in cells(rates) {
            for kernel in &rates.kernels {
                let own = rates.rates(benchmark, kernel, &model, cpus);
                if own.is_empty() {
                    continue;
                }
                let good = || own.iter().flatten().copied();
                let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
                let mut row = vec![(*benchmark).to_owned(), place(&model, cpus), short(kernel).to_owned()];
                row.extend(own.iter().map(|rate| rate.map_or_else(|| "failed".to_owned(), number)));
                row.extend([median(&own), good().reduce(f64::min), good().reduce(f64::max)].map(show));
                rows.push(row);
            }
        }
    }
    table(&header, 3, &rows)
}

pub fn instructions(kept: &Kept) -> Section {
    let counts = &kept.instructions.as_ref()?.counts;
    let kernels = distinct(counts.iter().map(|count| count.kernel.as_str()));
    let mut header = vec!["benchmark".to_owned()];
    for kernel in &kernels {
        header.extend([short(kernel).to_owned(), "iterations".into(), "user".into()]);
    }
    header.extend((kernels.len() == 2).then(|| "ratio".to_owned()));
    header.push("operation".into());
    let mut rows = Vec::new();
    for benchmark in distinct(counts.iter().map(|count| count.benchmark.as_str())) {
        let of =
            |kernel: &str| counts.iter().find(|count| count.benchmark == benchmark && count.kernel == kernel);
        let mut row = vec![benchmark.to_owned()];
        for kernel in &kernels {
            let show = |value: Option<f64>| value.map_or_else(|| "failed".to_owned(), number);
            let count = of(kernel);
            row.push(show(count.and_then(|count| count.kernel_instructions)));
            row.push(show(count.and_then(|count| count.iterations)));
            row.push(show(count.and_then(|count| count.user)));
        }
        if let [ours, theirs] = kernels[..] {
            let of = |kernel| of(kernel).and_then(|count| count.kernel_instructions);
            row.push(match (of(ours), of(theirs)) {
                (Some(ours), Some(theirs)) if theirs > 0.0 => format!("{:.2}", ours / theirs),
                _ => String::new(),
            });
        }
        row.push(what(benchmark).to_owned());
        rows.push(row);
    }
    let failures = counts.iter().filter_map(|count| Some((count, count.failed.as_ref()?)));
    Some(html! {
        p.soft { "The kernel's instructions of an operation, counted exactly, one task on one CPU. Iterations of repeated string instructions stand apart; so does the program's own part." }
        (table(&header, 1, &rows))
        @for (count, why) in failures { p.bad { "failed: " (count.benchmark) " on " (count.kernel) ": " (why) } }
    })
}

pub fn expensive(kept: &Kept) -> Section {
    let counts = &kept.instructions.as_ref()?.counts;
    let kernels = distinct(counts.iter().map(|count| count.kernel.as_str()));
    // Of a kind that no operation has, there is no column.
    let met =
        |kind: &str| counts.iter().any(|count| count.expensive.get(kind).is_some_and(|&each| each >= RARE));
    let kinds: Vec<(&str, &str)> = EXPENSIVE.into_iter().filter(|(kind, _)| met(kind)).collect();
    let mut header = vec!["benchmark".to_owned()];
    header.extend(kinds.iter().map(|(_, title)| (*title).to_owned()));
    let mut rows = Vec::new();
    for benchmark in distinct(counts.iter().map(|count| count.benchmark.as_str())) {
        let mut row = vec![benchmark.to_owned()];
        for &(kind, _) in &kinds {
            let each = kernels.iter().map(|kernel| {
                let count =
                    counts.iter().find(|count| count.benchmark == benchmark && count.kernel == *kernel);
                match count.and_then(|count| count.expensive.get(kind)) {
                    Some(&each) if each >= 1000.0 => number(each),
                    Some(&each) if each >= RARE => format!("{each:.2}"),
                    _ => "·".to_owned(),
                }
            });
            let each: Vec<String> = each.collect();
            // Dots alone are one.
            let none = each.iter().all(|each| each == "·");
            row.push(if none { "·".to_owned() } else { each.join(" : ") });
        }
        rows.push(row);
    }
    let order: Vec<&str> = kernels.iter().map(|kernel| short(kernel)).collect();
    Some(html! {
        p.soft {
            "Of the kernel's instructions those that cost more than others on hardware, for an operation"
            @if order.len() > 1 { ": " (order.join(" : ")) }
            ". A dot, or no column: fewer than " (RARE) ". Bytes are those of repeated string instructions."
        }
        (table(&header, 1, &rows))
    })
}

/// Of an operation: three digits behind the point, as the targets have.
fn taken(lines: f64) -> String {
    if lines < 10.0 { format!("{lines:.3}") } else { number(lines) }
}

pub fn lines(kept: &Kept) -> Result<Section> {
    let Some(lines) = &kept.lines else { return Ok(None) };
    let all = &lines.figures;
    let names = kernels(all);
    let mut charts = Vec::new();
    for bench in distinct(all.iter().map(|f| f.bench.as_str())) {
        let curves = names.iter().zip(KERNELS.iter().cycle()).map(|(kernel, colour)| {
            let own = all.iter().filter(|f| f.bench == bench && f.kernel == *kernel);
            let points: Vec<(f64, f64)> = own.map(|f| (f64::from(f.cpus), f.transfers_per_op)).collect();
            Curve { name: short(kernel).to_owned(), colour, line: points.clone(), points }
        });
        let mut cpus = distinct(all.iter().map(|f| f.cpus));
        cpus.sort_unstable();
        let chart = Chart {
            title: String::new(),
            what: "lines taken for an operation".into(),
            curves: curves.collect(),
            cpus,
        };
        charts.push(html! { figure { figcaption { h3 { (bench) } (what(bench)) } (drawn(&chart)?) } });
    }
    let header = [
        "benchmark",
        "CPUs",
        "kernel",
        "lines taken",
        "of these the kernel's",
        "between sockets",
        "conflict lines",
        "the one taken most",
        "so often",
    ];
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|f| {
            let mut row = vec![f.bench.clone(), f.cpus.to_string(), short(&f.kernel).to_owned()];
            row.extend([f.transfers_per_op, f.kernel_transfers_per_op, f.remote_transfers_per_op].map(taken));
            row.push(f.conflict_lines.to_string());
            row.extend([f.hottest.clone().unwrap_or_else(|| "-".into()), taken(f.hottest_per_op)]);
            row
        })
        .collect();
    Ok(Some(html! {
        p.soft { "Cache lines that one CPU takes from another, for an operation. Counts depend in part on who comes first; conflict lines (a writer and another CPU in the same window) do not." }
        div.charts { @for chart in &charts { (chart) } }
        (table(&header.map(str::to_owned), 3, &rows))
    }))
}

pub fn model(kept: &Kept) -> Result<Section> {
    let Some(lines) = kept.lines.as_ref().filter(|lines| !lines.model.is_empty()) else { return Ok(None) };
    let mut figures = Vec::new();
    for mut chart in predict::charts(&lines.model) {
        let bench = std::mem::take(&mut chart.title);
        chart.what = "modelled operations a second".into();
        let bounds = lines.model.iter().filter(|curve| curve.bench == bench).filter_map(|curve| {
            let (cpus, line) = curve.bound.as_ref()?;
            Some(format!("{}: from {cpus} CPUs on {line} is the limit", short(&curve.kernel)))
        });
        figures.push(html! {
            figure { figcaption { h3 { (bench) } @for bound in bounds { p.soft { (bound) } } } (drawn(&chart)?) }
        });
    }
    Ok(Some(html! {
        p { strong { "A model, not a measurement:" } " the rates that instructions and cache lines alone would allow on hardware, all CPUs together." }
        p.soft {
            "Points stand where lines were counted; between them the count is interpolated, beyond them it stays as it is. "
            @if let Some(costs) = &lines.costs { "Costs: " (costs) "." }
        }
        div.charts { @for figure in &figures { (figure) } }
    }))
}

pub fn grid(kept: &Kept) -> Result<Section> {
    let Some(kept) = &kept.grid else { return Ok(None) };
    let mut pictures = Vec::new();
    for grid in &kept.grids {
        let failures = grid.cells.iter().filter_map(|cell| {
            Some(format!(
                "failed: {} on {}: {}",
                cell.pair.join(" beside "),
                short(&grid.kernel),
                cell.failed.as_ref()?
            ))
        });
        pictures.push(html! {
            div.scroll role="img" aria-label={ "Lines shared on " (short(&grid.kernel)) } {
                (PreEscaped(grids::draw(std::slice::from_ref(grid))?))
            }
            @for why in failures { p.bad { (why) } }
        });
    }
    Ok(Some(html! {
        p.soft { "How many lines two operations share that run side by side on two CPUs. White: none, so that as far as memory tells the two scale. A pointer held over a square shows the names of its lines." }
        @for picture in &pictures { (picture) }
    }))
}
