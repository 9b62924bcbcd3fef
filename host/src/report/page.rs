//! The page: what was measured where and how, then a section for each part.
//!
//! It needs nothing but itself: no script, no font and no file from elsewhere, but the flame graphs that it links.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::compare::{self, Comparison};
use super::kept::Kept;
use super::sections;
use crate::bench::results::Origin;
use crate::size::show_bytes;

const STYLE: &str = include_str!("page.css");

pub struct Page<'a> {
    pub kept: &'a Kept,
    pub comparison: Option<&'a Comparison>,
    /// Flame graphs.
    pub graphs: Vec<PathBuf>,
    /// In which the page will lie.
    pub folder: &'a Path,
    /// That makes this page.
    pub command: String,
}

impl Page<'_> {
    /// # Errors
    /// Something cannot be drawn.
    pub fn html(&self) -> Result<String> {
        let kept = self.kept;
        let parts = [
            ("beside", "Beside each other", sections::beside(kept)),
            ("scaling", "Rates over CPUs", sections::rates(kept)?),
            ("instructions", "Instructions", sections::instructions(kept)),
            ("expensive", "Expensive instructions", sections::expensive(kept)),
            ("lines", "Cache lines", sections::lines(kept)?),
            ("model", "A model to 48 CPUs", sections::model(kept)?),
            ("grid", "The grid", sections::grid(kept)?),
            ("flames", "Flame graphs", self.flames()),
        ];
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title()) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header { h1 { (self.title()) } (self.setting()) }
                    nav aria-label="Parts" {
                        ul {
                            @if self.comparison.is_some() { li { a href="#compared" { "Before and after" } } }
                            @for (id, title, _) in &parts { li { a href={ "#" (id) } { (title) } } }
                            li { a href="#commands" { "Commands" } }
                        }
                    }
                    main {
                        @if let Some(comparison) = self.comparison { (compared(comparison)) }
                        @for (id, title, content) in &parts {
                            section id=(id) {
                                h2 { (title) }
                                @match content {
                                    Some(content) => (content),
                                    None => (self.missing(id)),
                                }
                            }
                        }
                        (self.commands())
                    }
                }
            }
        };
        Ok(page.into_string())
    }

    fn title(&self) -> String {
        // Linux's version is a bare number.
        let name = |version: String| match version.starts_with(|letter: char| letter.is_ascii_digit()) {
            true => format!("Linux {version}"),
            false => version,
        };
        let versions: Vec<String> = self.versions().into_iter().map(name).collect();
        if versions.is_empty() { "Benchmarks".into() } else { versions.join(" beside ") }
    }

    fn origins(&self) -> impl Iterator<Item = (&'static str, &Origin)> {
        let kept = self.kept;
        [
            ("rates", kept.rates.as_ref().map(|rates| &rates.origin)),
            ("instructions", kept.instructions.as_ref().map(|counts| &counts.origin)),
            ("cache lines, model", kept.lines.as_ref().map(|lines| &lines.origin)),
            ("grid", kept.grid.as_ref().map(|grid| &grid.origin)),
        ]
        .into_iter()
        .filter_map(|(what, origin)| Some((what, origin?)))
    }

    fn versions(&self) -> Vec<String> {
        self.origins().next().map(|(_, origin)| origin.versions.clone()).unwrap_or_default()
    }

    /// On what the rates were measured.
    fn setting(&self) -> Markup {
        let Some(rates) = &self.kept.rates else { return html! {} };
        let plural = if rates.runs == 1 { "run" } else { "runs" };
        html! {
            dl {
                dt { "QEMU" } dd { (rates.origin.qemu) ", " (rates.accel) }
                dt { "Host" } dd { (rates.host_cpus) " CPUs" }
                dt { "Machines" } dd { (show_bytes(rates.memory_bytes)) " of memory" }
                dt { "Rates" }
                dd { (rates.runs) " " (plural) " of " (rates.seconds_each) " s each, the kernels in turn; " (format!("{:.0}", rates.seconds)) " s in all" }
            }
        }
    }

    /// What is not there, and the command that measures it.
    fn missing(&self, id: &str) -> Markup {
        let with = match id {
            "beside" => {
                return html! { p.missing { "Only one kernel was measured: " code { "--vs linux" } " puts another beside it." } };
            }
            "scaling" => "",
            "expensive" => "instructions",
            "model" => "lines",
            "flames" => "flame",
            other => other,
        };
        let command = if with.is_empty() {
            "./darter bench --vs linux --cpus 1,2,4 --report FILE.html".to_owned()
        } else {
            format!("{} --with {with}", self.command)
        };
        html! { div.missing { p { "Not measured. This command would:" } pre { code { (command) } } } }
    }

    fn flames(&self) -> Option<Markup> {
        (!self.graphs.is_empty()).then(|| {
            html! {
                p.soft { "Where CPUs were, in the kernel and in programs. Files of their own, beside this page." }
                ul { @for graph in &self.graphs { li { a href=(link(graph, self.folder)) { (name(graph)) } } } }
            }
        })
    }

    fn commands(&self) -> Markup {
        html! {
            section id="commands" {
                h2 { "Commands" }
                p { "This page:" }
                pre { code { (self.command) } }
                @for (what, origin) in self.origins() {
                    h3 { (what) }
                    p.soft { (origin.versions.join(" beside ")) "; QEMU " (origin.qemu) }
                    pre { code { (origin.command) } }
                }
            }
        }
    }
}

fn compared(comparison: &Comparison) -> Markup {
    html! {
        section id="compared" {
            h2 { "Before and after" }
            dl {
                dt { "Before" } dd { (comparison.before) }
                dt { "After" } dd { (comparison.after) }
            }
            @for note in &comparison.notes { p.bad { "Not measured alike: " (note) } }
            div.scroll {
                table {
                    thead { tr { @for (at, title) in compare::HEADER.iter().enumerate() { th.text[at < 2] { (title) } } } }
                    tbody {
                        @for row in &comparison.rows {
                            tr {
                                td.text { (row.benchmark) }
                                td.text { (row.what) }
                                @for cell in row.before.cells().into_iter().chain(row.after.cells()) { td { (cell) } }
                                td { (row.percent()) }
                                td.bad[row.is_worse()].good[!row.is_worse()] { (row.verdict()) }
                            }
                        }
                    }
                }
            }
            p.bad[comparison.is_worse()] { (comparison.summary()) "." }
        }
    }
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// From the page's folder where the file lies below it, else from the root.
fn link(file: &Path, folder: &Path) -> String {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let file = whole(file);
    let below = if folder.as_os_str().is_empty() { whole(Path::new(".")) } else { whole(folder) };
    let path = file.strip_prefix(&below).unwrap_or(&file);
    // A blank or a percent sign is no part of an address.
    path.display().to_string().replace('%', "%25").replace(' ', "%20").replace('#', "%23").replace('?', "%3F")
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::*;
    use crate::report::sample;

    fn page(kept: &Kept) -> String {
        let graphs = if kept.grid.is_some() { vec!["flame.svg".into()] } else { Vec::new() };
        let page = Page {
            kept,
            comparison: None,
            graphs,
            folder: Path::new(""),
            command: "./darter bench a<b --report x.html".into(),
        };
        page.html().unwrap()
    }

    /// Each element that is opened is closed in its turn; the page's tags by name.
    fn tags(html: &str) -> Vec<String> {
        const VOID: [&str; 1] = ["meta"];
        let mut reader = Reader::from_str(html);
        reader.config_mut().check_end_names = false;
        reader.config_mut().allow_unmatched_ends = true;
        let (mut open, mut seen) = (Vec::new(), Vec::new());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => break,
                Event::Start(tag) => {
                    let name = text(tag.name().as_ref());
                    seen.push(name.clone());
                    if !VOID.contains(&name.as_str()) {
                        open.push(name);
                    }
                }
                Event::Empty(tag) => seen.push(text(tag.name().as_ref())),
                Event::End(tag) => assert_eq!(open.pop(), Some(text(tag.name().as_ref()))),
                _ => {}
            }
        }
        assert!(open.is_empty(), "{open:?} are not closed");
        seen
    }

    #[test]
    fn the_page_is_well_formed_and_needs_nothing_from_elsewhere() {
        let html = page(&sample::kept());
        let tags = tags(&html);
        for wanted in ["svg", "table", "style", "h1"] {
            assert!(tags.iter().any(|tag| tag == wanted), "{wanted}");
        }
        for wrong in ["script", "link", "img", "iframe", "image", "use"] {
            assert!(!tags.iter().any(|tag| tag == wrong), "{wrong}");
        }
        let addresses = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!addresses.contains("http") && !addresses.contains("url(") && !addresses.contains("@import"));
        assert!(html.contains("a&lt;b") && !html.contains("Not measured") && !html.contains("NaN"));
    }

    #[test]
    fn each_run_is_a_point() {
        let kept = sample::kept();
        let runs = kept.rates.as_ref().unwrap().samples.iter().filter(|sample| sample.result.is_ok()).count();
        let html = page(&Kept { rates: kept.rates.clone(), ..Kept::default() });
        assert_eq!(html.matches("<circle").count(), runs);
        assert!(runs > 10 && html.contains("it hung"), "the failed run is said");
    }

    #[test]
    fn what_was_not_measured_says_which_command_would() {
        let kept = Kept { rates: sample::kept().rates, ..Kept::default() };
        let html = page(&kept);
        tags(&html);
        for part in ["instructions", "lines", "grid", "flame"] {
            assert!(html.contains(&format!("./darter bench a&lt;b --report x.html --with {part}")), "{part}");
        }
        tags(&page(&Kept::default()));
    }

    #[test]
    fn flame_graphs_are_linked_from_where_the_page_lies() {
        assert_eq!(link(Path::new("/tmp/a/x y.svg"), Path::new("/tmp/a")), "x%20y.svg");
        assert_eq!(link(Path::new("/tmp/b/x.svg"), Path::new("/tmp/a")), "/tmp/b/x.svg");
        assert_eq!(link(Path::new("x.svg"), Path::new("")), "x.svg");
    }

    #[test]
    fn a_dark_screen_has_a_colour_for_each_that_is_drawn() {
        for colour in
            crate::plot::KERNELS.into_iter().chain([crate::plot::INK, crate::plot::FAINT, crate::plot::PAPER])
        {
            assert!(STYLE.contains(&format!("=\"{colour}\"]")), "{colour}");
        }
    }

    #[test]
    fn a_comparison_stands_first() {
        let kept = sample::kept();
        let rates = kept.rates.as_ref().unwrap();
        let mut comparison = Comparison::new("old".into(), "new".into());
        comparison.rates((rates, "darter"), (rates, "darter"), None);
        let page = Page {
            kept: &kept,
            comparison: Some(&comparison),
            graphs: vec!["/tmp/flame.svg".into()],
            folder: Path::new("/tmp"),
            command: String::new(),
        };
        let html = page.html().unwrap();
        tags(&html);
        assert!(html.contains("+0.0 %") && html.contains("href=\"flame.svg\""));
    }
}
