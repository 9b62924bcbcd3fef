//! `darter top`: what each CPU of a machine does while a program runs in it, after DragonFly's `systat -pv 1`.
//!
//! Without a program it is the machine of another process (`crate::attach`). Init sends /proc/darter/cpus at each interval; what is shown is the difference of two looks. On a terminal that is a screen, elsewhere lines; the
//! program's output does not come between either.
#![forbid(unsafe_code)]

mod figures;
mod lines;
mod screen;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::attach::{self, Attaching, Running};
use crate::cli::Top;
use crate::relay::output::Sink;
use crate::relay::watched::{Keys, Watcher};
use crate::root::Watch;
use crate::run::{self, Ended, Watching};
pub use figures::Column;
use figures::{Figures, Snapshot};
use lines::View;
use screen::Screen;

/// The kernel's file.
const FILE: &str = "/proc/darter/cpus";
/// Two looks that are closer together say nothing: the last one comes when the program ends, whenever that is.
const SHORTEST: f64 = 0.02;
/// What is kept of the program's output while the screen is there.
const KEPT: usize = 1 << 20;
/// Columns where no terminal says how many it has.
const WIDTH: usize = 80;

/// What `--json` prints in a line.
#[derive(Serialize)]
struct Look<'a> {
    /// Of the guest's clock.
    at_seconds: f64,
    /// Since the look before.
    seconds: f64,
    total: &'a Figures,
    cpus: Vec<&'a Figures>,
}

/// The time between two looks, seconds of the guest's clock.
struct Span {
    /// Its end.
    at: f64,
    seconds: f64,
}

/// The last look, and what is wrong with what came.
#[derive(Default)]
struct Looks {
    last: Option<Snapshot>,
    wrong: Option<anyhow::Error>,
}

impl Looks {
    /// What was done since the last look.
    fn take(&mut self, text: &[u8]) -> Option<(Span, Figures, Vec<Figures>)> {
        let figures = Snapshot::parse(&String::from_utf8_lossy(text)).and_then(|snapshot| {
            let at = snapshot.at();
            let Some(last) = &self.last else {
                self.last = Some(snapshot);
                return Ok(None);
            };
            if at - last.at() < SHORTEST {
                return Ok(None);
            }
            let span = Span { at, seconds: at - last.at() };
            let (total, cpus) = figures::between(last, &snapshot)?;
            self.last = Some(snapshot);
            Ok(Some((span, total, cpus)))
        });
        figures.unwrap_or_else(|error| {
            self.wrong = Some(error);
            None
        })
    }
}

pub fn top(options: &Top) -> Result<u8> {
    let is_screen = !options.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let source = match options.command.as_slice() {
        [] => Source::Running(Box::new(attach::choose(options.attach.pid())?)),
        command => Source::Command(command),
    };
    if is_screen { on_screen(options, source) } else { in_lines(options, source) }
}

/// What is watched.
enum Source<'a> {
    /// A program, in a machine of its own.
    Command(&'a [String]),
    /// The machine of another process.
    Running(Box<Running>),
}

impl Source<'_> {
    /// In a line.
    fn title(&self) -> String {
        match self {
            Source::Command(command) => {
                command.iter().flat_map(|word| word.split_whitespace()).collect::<Vec<_>>().join(" ")
            }
            Source::Running(running) => format!("{} {}", running.about.pid, running.about.command),
        }
    }
}

/// Where what comes goes; of the streams only a program of one's own has any.
struct Shown<'a> {
    watcher: Watcher<'a>,
    keys: Option<Keys<'a>>,
    stdout: Sink<'a>,
    stderr: Sink<'a>,
}

fn watch_source(options: &Top, source: Source<'_>, shown: Shown<'_>) -> Result<Ended> {
    let Shown { watcher, keys, stdout, stderr } = shown;
    let watch = watch(options);
    match source {
        Source::Command(command) => {
            run::watched(&options.machine, command, Watching { watch, watcher, keys, stdout, stderr })
        }
        Source::Running(running) => {
            let limit = options.attach.limit();
            attach::watch(*running, Attaching { watch, watcher, keys, limit })
        }
    }
}

fn watch(options: &Top) -> Watch {
    let every = Duration::from_secs_f64(options.interval);
    Watch { set: Vec::new(), files: vec![FILE], maps: None, every }
}

fn view(options: &Top) -> View {
    View { sort: options.sort, reversed: false, busy: options.busy, filter: options.filter.clone() }
}

fn in_lines(options: &Top, source: Source<'_>) -> Result<u8> {
    let looks = RefCell::new(Looks::default());
    let view = view(options);
    let watcher: Watcher<'_> = Box::new(|_, text| {
        let Some((span, total, cpus)) = looks.borrow_mut().take(text) else { return };
        if options.json {
            let cpus = view.of(&cpus);
            let look = Look { at_seconds: span.at, seconds: span.seconds, total: &total, cpus };
            if let Ok(line) = serde_json::to_string(&look) {
                out!("{line}");
            }
            return;
        }
        out!("{}\n{}", lines::heading(WIDTH), lines::line(&total, WIDTH));
        view.of(&cpus).into_iter().for_each(|cpu| out!("{}", lines::line(cpu, WIDTH)));
        out!("");
    });
    let stream = || Sink::Fd(rustix::stdio::stderr());
    let shown = Shown { watcher, keys: None, stdout: stream(), stderr: stream() };
    let ended = watch_source(options, source, shown)?;
    if let Some(why) = ended.why {
        note!("darter: {why}");
    }
    finish(looks.into_inner(), ended.status)
}

fn on_screen(options: &Top, source: Source<'_>) -> Result<u8> {
    let looks = RefCell::new(Looks::default());
    let screen = RefCell::new(Screen::enter(view(options), source.title())?);
    let kept: [RefCell<VecDeque<u8>>; 2] = Default::default();
    let keep = |which: usize| -> Sink<'_> {
        let kept = &kept[which];
        Sink::Call(Box::new(move |data| {
            let mut kept = kept.borrow_mut();
            kept.extend(data);
            let more = kept.len().saturating_sub(KEPT);
            kept.drain(..more);
        }))
    };
    let watcher: Watcher<'_> = Box::new(|_, text| {
        if let Some((_, total, cpus)) = looks.borrow_mut().take(text) {
            screen.borrow_mut().show(total, cpus);
        }
    });
    let keys: Keys<'_> = Box::new(|typed| screen.borrow_mut().take(typed));
    let (stdout, stderr) = (keep(0), keep(1));
    let ended = watch_source(options, source, Shown { watcher, keys: Some(keys), stdout, stderr });
    // The terminal is as it was from here on, whatever has happened.
    drop(screen);
    // Nobody may read them any more.
    let _ = std::io::stdout().write_all(kept[0].borrow_mut().make_contiguous());
    let _ = std::io::stderr().write_all(kept[1].borrow_mut().make_contiguous());
    let ended = ended?;
    if let Some(why) = ended.why {
        note!("darter: {why}");
    }
    finish(looks.into_inner(), ended.status)
}

fn finish(looks: Looks, status: u8) -> Result<u8> {
    if let Some(error) = looks.wrong {
        bail!("{FILE} is not as this program knows it: {error:#}");
    }
    Ok(status)
}
