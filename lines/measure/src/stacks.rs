//! Stack and transfer mode: all instructions, or lines that CPUs took from each other, between two marks, by the calls that led there.

use crate::{Error, refused};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A file that a program had mapped to be executed: address, bytes, offset in the file at the address, name.
pub type Mapped = (u64, u64, u64, String);

/// A program that ran: its file as it was executed, the address of its first instruction, that of its interpreter (0: none), what it mapped later.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Program(pub String, pub u64, pub u64, pub Vec<Mapped>);

/// What was counted, in counts of this kind.
#[derive(Clone, Debug, Deserialize)]
pub struct Stacks<C> {
    /// Of all CPUs between the marks, as it was counted without the calls.
    #[serde(alias = "instructions", alias = "transfers")]
    pub all: u64,
    pub programs: Vec<Program>,
    /// Who called it, which stands before it, and where the call returns. Node 0 is nothing; what it calls are programs, and the place is the program's in
    /// `programs`, 0 for the kernel's own threads. Where the kernel was entered the place is that of what was executed.
    pub nodes: Vec<(usize, u64)>,
    pub counts: Vec<C>,
}

/// A number below nodes.
pub trait Counted {
    /// Are there so many nodes that its own are among them?
    fn is_among(&self, nodes: usize) -> bool;
    fn number(&self) -> u64;
}

/// Instructions: below which node, where, how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Instructions(pub usize, pub u64, pub u64);

impl Counted for Instructions {
    fn is_among(&self, nodes: usize) -> bool {
        self.0 < nodes
    }

    fn number(&self) -> u64 {
        self.2
    }
}

/// Lines that were taken: below which node, where, how many; below which node and where they had been written last (none: they were only read; twice 0: it is not
/// known); whether they were taken at an address of a program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Transfers(pub usize, pub u64, pub u64, pub Option<(usize, u64)>, pub bool);

impl Counted for Transfers {
    fn is_among(&self, nodes: usize) -> bool {
        self.0 < nodes && self.3.is_none_or(|(node, _)| node < nodes)
    }

    fn number(&self) -> u64 {
        self.2
    }
}

/// Reads the file that the plugin leaves.
///
/// # Errors
/// It is another one, or leads nowhere; its numbers are not all that was counted; the plugin refused to count.
pub fn parse_stacks<C: Counted + DeserializeOwned>(json: &str) -> Result<Stacks<C>, Error> {
    refused(json)?;
    let stacks: Stacks<C> = serde_json::from_str(json).map_err(|error| Error::Format(error.to_string()))?;
    let in_order = stacks.nodes.iter().enumerate().all(|(number, (parent, _))| *parent < number.max(1));
    if !in_order || !stacks.counts.iter().all(|count| count.is_among(stacks.nodes.len())) {
        return Err(Error::Format("a node that is not there".into()));
    }
    let found: u64 = stacks.counts.iter().map(Counted::number).sum();
    if found != stacks.all {
        return Err(Error::Format(format!("the stacks have {found}, and {} were counted", stacks.all)));
    }
    Ok(stacks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_plugin_writes_is_read() {
        let text = r#"{"format":"darter-lines/1","mode":"stacks","instructions":9,"programs":[["",0,0,[]],
            ["/hot",4096,0,[[8192,4096,0,"/lib"]]]],"nodes":[[0,0],[0,1],[1,32],[2,48]],"counts":[[3,64,4],[1,16,5]]}"#;
        let stacks = parse_stacks::<Instructions>(text).unwrap();
        let program = Program("/hot".into(), 4096, 0, vec![(8192, 4096, 0, "/lib".into())]);
        assert_eq!(stacks.programs.get(1), Some(&program));
        assert_eq!((stacks.nodes.len(), stacks.all), (4, 9));
        assert_eq!(stacks.counts, [Instructions(3, 64, 4), Instructions(1, 16, 5)]);
    }

    #[test]
    fn transfers_are_read_with_who_wrote() {
        let text = r#"{"format":"darter-lines/1","mode":"transfers","transfers":6,"programs":[["",0,0,[]]],"nodes":[[0,0],[0,0]],
            "counts":[[1,64,2,[1,80],false],[1,64,3,null,false],[1,64,1,[0,0],true]]}"#;
        let stacks = parse_stacks::<Transfers>(text).unwrap();
        let wanted = [
            Transfers(1, 64, 2, Some((1, 80)), false),
            Transfers(1, 64, 3, None, false),
            Transfers(1, 64, 1, Some((0, 0)), true),
        ];
        assert_eq!(stacks.counts, wanted);
    }

    #[test]
    fn numbers_that_are_not_all_are_refused() {
        let text = |all| {
            format!(r#"{{"transfers":{all},"programs":[],"nodes":[[0,0]],"counts":[[0,5,5,null,true]]}}"#)
        };
        assert!(parse_stacks::<Transfers>(&text(5)).is_ok());
        for wrong in [4, 6] {
            let error = parse_stacks::<Transfers>(&text(wrong)).unwrap_err().to_string();
            assert!(error.contains("the stacks have 5"), "{error}");
        }
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        let text = |nodes, counts| {
            parse_stacks::<Instructions>(&format!(
                r#"{{"instructions":5,"programs":[],"nodes":{nodes},"counts":{counts}}}"#
            ))
        };
        assert!(text("[[0,0],[2,0]]", "[[0,5,5]]").is_err(), "a node below a later one");
        assert!(text("[[0,0],[1,0]]", "[[0,5,5]]").is_err(), "a node below itself");
        assert!(text("[[0,0]]", "[[1,5,5]]").is_err());
        assert!(text("[[0,0]]", "[[0,5,5]]").is_ok());
        let text = |from| {
            parse_stacks::<Transfers>(&format!(
                r#"{{"transfers":5,"programs":[],"nodes":[[0,0]],"counts":[[0,5,5,[{from},5],true]]}}"#
            ))
        };
        assert!(text(1).is_err(), "a writer that is not there");
        assert!(text(0).is_ok());
        assert!(matches!(parse_stacks::<Instructions>(r#"{"error":"no"}"#), Err(Error::Refused(_))));
    }
}
