//! Stack mode: all instructions between two marks, by the calls that led to them.

use crate::{Error, refused};
use serde::Deserialize;

/// A file that a program had mapped to be executed: address, bytes, offset in the file at the address, name.
pub type Mapped = (u64, u64, u64, String);

/// A program that ran: its file as it was executed, the address of its first instruction, that of its interpreter (0: none), what it mapped later.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Program(pub String, pub u64, pub u64, pub Vec<Mapped>);

/// What was counted.
#[derive(Clone, Debug, Deserialize)]
pub struct StackCounts {
    /// All that the CPUs executed between the marks, as QEMU counted them.
    pub instructions: u64,
    pub programs: Vec<Program>,
    /// Who called it, which stands before it, and where the call returns. Node 0 is nothing; what it calls are programs, and the place is the program's in
    /// `programs`, 0 for the kernel's own threads. Where the kernel was entered the place is that of what was executed.
    pub nodes: Vec<(usize, u64)>,
    /// Below which node, where, how many.
    pub counts: Vec<(usize, u64, u64)>,
}

/// Reads the file that the plugin leaves.
///
/// # Errors
/// It is another one, or leads nowhere; the plugin refused to count.
pub fn parse_stacks(json: &str) -> Result<StackCounts, Error> {
    refused(json)?;
    let counts: StackCounts = serde_json::from_str(json).map_err(|error| Error::Format(error.to_string()))?;
    let in_order = counts.nodes.iter().enumerate().all(|(number, (parent, _))| *parent < number.max(1));
    if !in_order || counts.counts.iter().any(|(node, ..)| *node >= counts.nodes.len()) {
        return Err(Error::Format("a node that is not there".into()));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_plugin_writes_is_read() {
        let text = r#"{"format":"darter-lines/1","mode":"stacks","instructions":9,"programs":[["",0,0,[]],
            ["/hot",4096,0,[[8192,4096,0,"/lib"]]]],"nodes":[[0,0],[0,1],[1,32],[2,48]],"counts":[[3,64,4],[1,16,5]]}"#;
        let counts = parse_stacks(text).unwrap();
        let program = Program("/hot".into(), 4096, 0, vec![(8192, 4096, 0, "/lib".into())]);
        assert_eq!(counts.programs.get(1), Some(&program));
        assert_eq!((counts.nodes.len(), counts.counts), (4, vec![(3, 64, 4), (1, 16, 5)]));
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        let text = |nodes, counts| {
            format!(r#"{{"instructions":1,"programs":[],"nodes":{nodes},"counts":{counts}}}"#)
        };
        assert!(parse_stacks(&text("[[0,0],[2,0]]", "[]")).is_err(), "a node below a later one");
        assert!(parse_stacks(&text("[[0,0],[1,0]]", "[]")).is_err(), "a node below itself");
        assert!(parse_stacks(&text("[[0,0]]", "[[1,5,5]]")).is_err());
        assert!(parse_stacks(&text("[[0,0]]", "[[0,5,5]]")).is_ok());
        assert!(matches!(parse_stacks(r#"{"error":"no"}"#), Err(Error::Refused(_))));
    }
}
