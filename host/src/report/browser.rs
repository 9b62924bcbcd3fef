//! The page in a browser, where there is one: nothing is wider than a phone, a desktop or paper shows. A test alone.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use maud::{PreEscaped, html};

use super::page::Page;
use super::{kept::Kept, sample};
use crate::paths;

const NAMES: [&str; 2] = ["chromium", "google-chrome"];
/// Pixels: a small phone, a desktop.
const WIDTHS: [u32; 2] = [360, 1280];

/// An A4 page without its margins.
const PAPER: u32 = 703;

/// Writes what is wider than its window into the title of the page around it. What lies in a box that scrolls may be.
const MEASURE: &str = r#"
const scrolls = box => box && getComputedStyle(box).overflowX === 'auto';
addEventListener('load', () => {
    const inner = document.querySelector('iframe').contentDocument;
    const width = inner.documentElement.clientWidth;
    const wide = [...inner.querySelectorAll('body *')].filter(at =>
        !scrolls(at.parentElement.closest('.scroll')) && !at.parentElement.closest('svg') &&
        (at.getBoundingClientRect().right > width + 0.5 || at.getBoundingClientRect().left < -0.5));
    const names = wide.slice(0, 5).map(at => at.tagName + '.' + at.getAttribute('class') + ' ' + at.getBoundingClientRect().right);
    const cut = [...inner.querySelectorAll('svg text')].filter(at => {
        const words = at.getBoundingClientRect(), picture = at.ownerSVGElement.getBoundingClientRect();
        return words.left < picture.left - 1 || words.right > picture.right + 1 ||
            words.top < picture.top - 1 || words.bottom > picture.bottom + 1;
    }).slice(0, 5).map(at => at.textContent.trim());
    document.title = 'MEASURED ' + width + ' of ' + inner.documentElement.scrollWidth + ' [' + names + '] [' + cut + ']';
});
"#;

fn page(kept: &Kept) -> String {
    let page = Page {
        kept,
        comparison: None,
        graphs: vec!["/tmp/flame.svg".into()],
        folder: Path::new("/tmp"),
        command: format!("./darter bench {} --report x.html", "a-long-word".repeat(20)),
    };
    page.html().unwrap()
}

/// What the browser says of the page at this width.
fn measured(browser: &Path, folder: &Path, html: &str, width: u32) -> String {
    let around = folder.join(format!("{width}.html"));
    let outer = html! {
        html {
            head { script { (PreEscaped(MEASURE)) } }
            body style="margin: 0" { iframe width=(width) height="900" style="border: 0" srcdoc=(html) {} }
        }
    };
    std::fs::write(&around, outer.into_string()).unwrap();
    // One that hangs fails the test, and does not hold up the others.
    let output = Command::new("timeout")
        .arg("120")
        .arg(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
            "--dump-dom",
        ])
        .arg("--virtual-time-budget=5000")
        .arg(format!("--window-size={},1000", width.max(500) + 20))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", around.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.split("<title>MEASURED ").nth(1).and_then(|rest| rest.split("</title>").next());
    said.unwrap_or_else(|| {
        panic!("no word from {}: {}", browser.display(), String::from_utf8_lossy(&output.stderr))
    })
    .to_owned()
}

/// The page as it is printed, on a screen.
fn printed(html: &str) -> String {
    html.replace("@media print", "@media all")
}

#[test]
fn nothing_is_wider_than_a_phone_or_a_desktop_or_paper() {
    let Some(browser): Option<PathBuf> = NAMES.into_iter().find_map(paths::program) else {
        note!("skipped: no chromium here ('make browser' installs it)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for kept in [sample::kept(), Kept::default()] {
        for width in WIDTHS {
            let said = measured(&browser, folder.path(), &page(&kept), width);
            assert_eq!(said, format!("{width} of {width} [] []"));
        }
        let said = measured(&browser, folder.path(), &printed(&page(&kept)), PAPER);
        assert_eq!(said, format!("{PAPER} of {PAPER} [] []"), "on paper");
    }
}
