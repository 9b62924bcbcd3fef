//! The tree of calls: a node is a place that something was called from, below the node of who called that; and who ran.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt::Write as _;

/// A node's place in the tree. 0 is above all roots.
pub type Node = u32;
/// A program's place in the list. 0: the kernel's own threads.
pub type Program = u32;
/// Nodes of which a tree consists at most; calls beyond it are their callers'.
const MOST: usize = 1 << 22;

/// A file that a program has mapped to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub bytes: u64,
    /// Of the file, at `start`.
    pub offset: u64,
    pub file: String,
}

/// What an executed file is known by: AT_EXECFN, AT_ENTRY and AT_BASE of getauxval(3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Executed {
    pub file: String,
    pub entry: u64,
    /// Of the interpreter; 0: it has none.
    pub base: u64,
}

pub struct Tree {
    nodes: Vec<(Node, u64)>,
    children: HashMap<(Node, u64), Node>,
    programs: Vec<(Executed, Vec<Mapping>)>,
    by_file: HashMap<Executed, Program>,
    /// By page table, what runs with it.
    by_table: HashMap<u64, Program>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            nodes: vec![(0, 0)],
            children: HashMap::new(),
            programs: vec![(Executed::default(), Vec::new())],
            by_file: HashMap::new(),
            by_table: HashMap::new(),
        }
    }
}

impl Tree {
    /// What was called from `place` by `node`; of node 0, the root of a program.
    pub fn child(&mut self, node: Node, place: u64) -> Node {
        let next = self.nodes.len();
        if next >= MOST {
            return self.children.get(&(node, place)).copied().unwrap_or(node);
        }
        *self.children.entry((node, place)).or_insert_with(|| {
            self.nodes.push((node, place));
            next as Node
        })
    }

    /// The program that was executed from a file. One that is placed alike is the same.
    pub fn executed(&mut self, table: u64, executed: Executed) -> Program {
        let programs = &mut self.programs;
        let program = *self.by_file.entry(executed).or_insert_with_key(|executed| {
            programs.push((executed.clone(), Vec::new()));
            (programs.len() - 1) as Program
        });
        self.by_table.insert(table, program);
        program
    }

    /// What runs with a page table, as far as it is known.
    pub fn with_table(&mut self, table: u64) -> Program {
        let unknown = Executed { file: "[unknown]".into(), ..Executed::default() };
        match self.by_table.get(&table) {
            Some(program) => *program,
            None => self.executed(table, unknown),
        }
    }

    /// A program has got a page table of its own, by fork(2).
    pub fn copied(&mut self, table: u64, program: Program) {
        self.by_table.insert(table, program);
    }

    pub fn mapped(&mut self, program: Program, mapping: Mapping) {
        if let Some((_, mappings)) = self.programs.get_mut(program as usize) {
            mappings.retain(|old| {
                old.start + old.bytes <= mapping.start || mapping.start + mapping.bytes <= old.start
            });
            mappings.push(mapping);
        }
    }

    /// The fields of the file: programs, nodes.
    pub fn fields(&self) -> String {
        let mut text = String::from("\"programs\":[");
        for (index, (Executed { file, entry, base }, mappings)) in self.programs.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let mappings: Vec<String> = mappings
                .iter()
                .map(|Mapping { start, bytes, offset, file }| {
                    format!("[{start},{bytes},{offset},{}]", quoted(file))
                })
                .collect();
            let file = quoted(file);
            let _ = write!(text, "{comma}\n[{file},{entry},{base},[{}]]", mappings.join(","));
        }
        text.push_str("],\"nodes\":[");
        for (index, (parent, place)) in self.nodes.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}[{parent},{place}]");
        }
        text.push(']');
        text
    }
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_below_a_node_is_one_node() {
        let mut tree = Tree::default();
        let root = tree.child(0, 1);
        let (a, b) = (tree.child(root, 16), tree.child(root, 32));
        assert_eq!([tree.child(root, 16), tree.child(root, 32)], [a, b]);
        assert_ne!(tree.child(a, 32), b);
        assert!(tree.fields().ends_with("\"nodes\":[[0,0],[0,1],[1,16],[1,32],[2,32]]"), "{}", tree.fields());
    }

    #[test]
    fn programs_are_known_by_file_and_place() {
        let mut tree = Tree::default();
        let file = |name: &str| Executed { file: name.into(), entry: 5, base: 0 };
        let hot = tree.executed(7, file("/h\"ot"));
        assert_eq!([tree.executed(8, file("/h\"ot")), tree.with_table(8)], [hot; 2]);
        let unknown = tree.with_table(9);
        assert_ne!(unknown, hot);
        tree.copied(9, hot);
        assert_eq!(tree.with_table(9), hot);
        let map = |start, offset| Mapping { start, bytes: 10, offset, file: "/lib".into() };
        tree.mapped(hot, map(100, 1));
        tree.mapped(hot, map(105, 2));
        assert!(tree.fields().contains("[\"/h\\\"ot\",5,0,[[105,10,2,\"/lib\"]]]"), "{}", tree.fields());
    }
}
