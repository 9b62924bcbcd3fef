//! Who calls whom: recursions, and the deepest path from each function.

use crate::frame::{Frame, To};
use std::collections::BTreeMap;

pub struct Node {
    pub name: String,
    pub frame: u64,
    /// Callee and bytes of the caller's frame at the call; indirect calls that the rules resolve are among them.
    pub calls: Vec<(usize, u64)>,
    /// Calls through registers or memory that no rule resolves.
    pub open: usize,
}

pub struct Graph {
    pub nodes: Vec<Node>,
}

impl Graph {
    /// `ends`: functions that end the machine, whose stack is not the callers' concern. `never`: calls to leave out. `resolves`: whom a function's indirect calls mean.
    pub fn new(
        functions: &BTreeMap<u64, (String, Frame)>,
        ends: impl Fn(&str) -> bool,
        never: impl Fn(&str, &str) -> bool,
        resolves: impl Fn(&str) -> Vec<String>,
    ) -> Graph {
        let index: BTreeMap<u64, usize> =
            functions.keys().enumerate().map(|(at, &address)| (address, at)).collect();
        let names: Vec<&str> = functions.values().map(|(name, _)| &**name).collect();
        let nodes = functions.values().map(|(name, frame)| {
            let mut node = Node { name: name.clone(), frame: frame.size, calls: Vec::new(), open: 0 };
            if ends(name) {
                return node;
            }
            let meant = resolves(name);
            for call in &frame.calls {
                match call.to {
                    To::Direct(to) => node.calls.extend(
                        index
                            .get(&to)
                            .filter(|&&to| !ends(names[to]) && !never(name, names[to]))
                            .map(|&to| (to, call.depth)),
                    ),
                    To::Indirect if meant.is_empty() => node.open += 1,
                    To::Indirect => {
                        let targets = (0..names.len())
                            .filter(|&at| meant.iter().any(|part| names[at].contains(&**part)));
                        node.calls.extend(targets.map(|at| (at, call.depth)));
                    }
                }
            }
            node
        });
        Graph { nodes: nodes.collect() }
    }

    /// Groups of functions that lead back to themselves: Tarjan's strongly connected components, without recursion.
    pub fn recursions(&self) -> Vec<Vec<usize>> {
        self.components().into_iter().filter(|group| self.is_recursion(group)).collect()
    }

    fn is_recursion(&self, group: &[usize]) -> bool {
        group.len() > 1 || self.nodes[group[0]].calls.iter().any(|&(callee, _)| callee == group[0])
    }

    /// Components in an order in which callees come before callers.
    fn components(&self) -> Vec<Vec<usize>> {
        const NEW: usize = usize::MAX;
        let count = self.nodes.len();
        let (mut number, mut low, mut on_stack) = (vec![NEW; count], vec![0; count], vec![false; count]);
        let (mut stack, mut groups, mut next) = (Vec::new(), Vec::new(), 0);
        for root in 0..count {
            if number[root] != NEW {
                continue;
            }
            let mut path = vec![(root, 0)];
            while let Some(&mut (at, ref mut edge)) = path.last_mut() {
                if *edge == 0 {
                    (number[at], low[at]) = (next, next);
                    next += 1;
                    stack.push(at);
                    on_stack[at] = true;
                }
                if let Some(&(to, _)) = self.nodes[at].calls.get(*edge) {
                    *edge += 1;
                    if number[to] == NEW {
                        path.push((to, 0));
                    } else if on_stack[to] {
                        low[at] = low[at].min(number[to]);
                    }
                    continue;
                }
                path.pop();
                if let Some(&(above, _)) = path.last() {
                    low[above] = low[above].min(low[at]);
                }
                if low[at] == number[at] {
                    let from = stack.iter().rposition(|&one| one == at).unwrap_or_default();
                    let group = stack.split_off(from);
                    group.iter().for_each(|&one| on_stack[one] = false);
                    groups.push(group);
                }
            }
        }
        groups
    }

    /// The deepest path from each function: its bytes below the function's return address, and the callee that it goes through.
    /// `rounds`: how often a recursion may go round, by a function in it; its frames count so many times.
    pub fn depths(&self, rounds: impl Fn(&str) -> u64) -> Vec<(u64, Option<usize>)> {
        let mut deep = vec![(0, None); self.nodes.len()];
        for group in self.components() {
            // What a recursion takes at most: each of its frames, as often as it goes round.
            let around = if self.is_recursion(&group) {
                let turns = group.iter().map(|&at| rounds(&self.nodes[at].name)).max().unwrap_or(1);
                turns * group.iter().map(|&at| self.nodes[at].frame + 8).sum::<u64>()
            } else {
                0
            };
            let outside = |at: usize| {
                self.nodes[at]
                    .calls
                    .iter()
                    .filter(|(to, _)| !group.contains(to))
                    .map(|&(to, depth)| (depth + deep[to].0, Some(to)))
            };
            let most = group
                .iter()
                .map(|&at| outside(at).max().unwrap_or_default().max((self.nodes[at].frame, None)))
                .max()
                .unwrap_or_default();
            group.iter().for_each(|&at| deep[at] = (most.0 + around, most.1));
        }
        deep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Call;

    /// Functions of 16 bytes at 0, 1, 2, ...; each calls those given.
    fn graph(calls: &[&[u64]]) -> Graph {
        let functions = calls.iter().zip(0..).map(|(to, at)| {
            let calls = to.iter().map(|&to| Call { to: To::Direct(to), depth: 24 }).collect();
            (at, (format!("f{at}"), Frame { size: 16, calls }))
        });
        Graph::new(&functions.collect(), |name| name == "f9", |_, _| false, |_| Vec::new())
    }

    #[test]
    fn the_deepest_path_is_the_longest() {
        let seen = graph(&[&[1, 3], &[2], &[], &[]]).depths(|_| 1);
        assert_eq!(seen[0], (24 + 24 + 16, Some(1)));
        assert_eq!(seen[2], (16, None));
    }

    #[test]
    fn a_recursion_is_found_and_counts_as_often_as_it_goes_round() {
        let seen = graph(&[&[1], &[2], &[1, 3], &[], &[4]]);
        let mut groups = seen.recursions();
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort();
        assert_eq!(groups, [vec![1, 2], vec![4]]);
        let (once, thrice) = (seen.depths(|_| 1), seen.depths(|_| 3));
        assert_eq!(thrice[0].0 - once[0].0, 2 * 2 * 24);
        assert_eq!(once[0].0, 24 + 2 * 24 + 24 + 16);
    }

    #[test]
    fn what_ends_the_machine_is_left_out() {
        let seen = graph(&[&[9], &[], &[], &[], &[], &[], &[], &[], &[], &[0]]);
        assert!(seen.recursions().is_empty());
    }
}
