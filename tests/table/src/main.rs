//! `darter-table`: the page of calls, and whether the table claims what nobody has shown.
//!
//!     darter-table check            is the page as the table and the record say, is all shown, and has each call a case in
//!                                   bench/calls (`make check`)
//!     darter-table check FILE       the same claims against another record
//!     darter-table page             writes docs/syscalls.md
//!     darter-table unshown          prints the claims that no program shows
#![forbid(unsafe_code)]

use darter_table::cases;
use darter_table::claims::{claims, findings};
use darter_table::page::page;
use darter_table::record::Record;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn root() -> PathBuf {
    std::env::var_os("DARTER_ROOT")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")), PathBuf::from)
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|e| Error::other(format!("{}: {e}", path.display())))
}

/// The C sources of a folder.
fn sources(folder: &Path) -> Result<Vec<String>, Error> {
    let files = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let files: Vec<PathBuf> = files.collect::<Result<_, _>>()?;
    files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "c"))
        .map(|file| read(file))
        .collect()
}

fn run(words: &[&str]) -> Result<bool, Error> {
    let root = root();
    let (record, unshown) = (root.join("tests/table/shown"), root.join("tests/table/unshown"));
    let page_file = root.join("docs/syscalls.md");
    match words {
        ["page"] => {
            std::fs::create_dir_all(root.join("docs"))?;
            std::fs::write(page_file, page(&Record::parse(&read(&record)?)))?;
        }
        ["unshown"] => {
            let record = Record::parse(&read(&record)?);
            claims()
                .iter()
                .filter(|claim| claim.shown_by(&record).is_none())
                .for_each(|claim| println!("{}", claim.text()));
        }
        ["check", rest @ ..] => {
            let kept = Record::parse(&read(&record)?);
            let (record, stale) = match rest {
                [file] => (Record::parse(&read(Path::new(file))?), false),
                _ => {
                    let stale = read(&page_file)? != page(&kept);
                    (kept, stale)
                }
            };
            let mut found = findings(&record, &read(&unshown)?);
            if stale {
                found.push("docs/syscalls.md is stale: make table".to_owned());
            }
            if rest.is_empty() {
                found.extend(cases::findings(&sources(&root.join("bench/calls"))?));
            }
            found.iter().for_each(|finding| println!("{finding}"));
            return Ok(found.is_empty());
        }
        _ => return Err(Error::other("usage: darter-table check [FILE] | page | unshown")),
    }
    Ok(true)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("darter-table: {error}");
            ExitCode::from(2)
        }
    }
}
