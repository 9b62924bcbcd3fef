//! `darter-stack IMAGE...`: how deep a kernel's stack gets, and every recursion in it, from its machine code.
//!
//! Fails when a function takes more stack, or a path of calls goes deeper, than tests/stack/stack.toml allows, when a recursion is not named
//! there with its bound, and when one that is named is gone. Calls through registers and memory (`dyn`, function pointers) are followed where the
//! file says whom they mean; of the rest it prints how many there are. What a booted kernel really used is /proc/stack's (feature lockdep).
#![forbid(unsafe_code)]

mod frame;
mod graph;
mod image;
mod rules;

use anyhow::{Context, Result};
use graph::Graph;
use rules::Rules;
use std::path::{Path, PathBuf};

/// Functions and paths that are shown.
const SHOWN: usize = 5;

fn main() -> Result<()> {
    let images: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    anyhow::ensure!(!images.is_empty(), "usage: darter-stack IMAGE...");
    let rules = Rules::read(Path::new("tests/stack/stack.toml"))?;
    let mut faults = Vec::new();
    let mut met = vec![false; rules.recursion.len()];
    for image in &images {
        check(image, &rules, &mut met, &mut faults)?;
    }
    println!("calls left out:");
    rules
        .never
        .iter()
        .for_each(|rule| println!("  {} -> {}: {}", rule.from.join(", "), rule.to.join(", "), rule.why));
    println!("recursions, and how often each goes round at most:");
    rules
        .recursion
        .iter()
        .for_each(|rule| println!("  {:>4}  {}: {}", rule.rounds, rule.functions.join(", "), rule.why));
    for (rule, _) in rules.recursion.iter().zip(&met).filter(|(_, met)| !**met) {
        faults.push(format!(
            "the recursion of {} is not there any more: take it out of tests/stack/stack.toml",
            rule.functions.join(", ")
        ));
    }
    faults.iter().for_each(|fault| println!("{fault}"));
    anyhow::ensure!(faults.is_empty(), "{} faults", faults.len());
    Ok(())
}

fn check(file: &Path, rules: &Rules, met: &mut [bool], faults: &mut Vec<String>) -> Result<()> {
    let profile = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let allowed = rules.image.iter().find(|image| image.profile == profile);
    let allowed =
        allowed.with_context(|| format!("tests/stack/stack.toml says nothing of profile {profile}"))?;
    let frames = image::functions(file)?.into_iter().map(|(at, function)| {
        let frame = frame::of(&function);
        (at, (function.name, frame))
    });
    let graph = Graph::new(
        &frames.collect(),
        |name| rules.ends(name),
        |from, to| rules.never(from, to),
        |name| rules.meant(name),
    );

    for group in graph.recursions() {
        let names: Vec<&str> = group.iter().map(|&at| &*graph.nodes[at].name).collect();
        for name in &names {
            match rules.recursion_of(name) {
                Some(rule) => met[rule] = true,
                None => faults.push(format!(
                    "{profile}: a recursion without a bound: {name}, in a round of {} functions",
                    names.len()
                )),
            }
        }
    }

    let elsewhere = |at: usize| rules.elsewhere.iter().any(|part| graph.nodes[at].name.contains(&**part));
    let named = |name: &str| {
        rules.recursion_of(name).and_then(|rule| rules.recursion.get(rule)).map_or(1, |rule| rule.rounds)
    };
    let depths = graph.depths(named);
    let mut by_frame: Vec<usize> = (0..graph.nodes.len()).collect();
    by_frame.sort_by_key(|&at| std::cmp::Reverse(graph.nodes[at].frame));
    println!(
        "{profile}: {} functions, {} calls that no rule resolves",
        graph.nodes.len(),
        graph.nodes.iter().map(|node| node.open).sum::<usize>()
    );
    for &at in by_frame
        .iter()
        .filter(|&&at| !rules.ends(&graph.nodes[at].name))
        .filter(|&&at| !elsewhere(at))
        .take(SHOWN)
    {
        println!("  {:>6} bytes  {}", graph.nodes[at].frame, graph.nodes[at].name);
    }
    for (_, node) in graph
        .nodes
        .iter()
        .enumerate()
        .filter(|&(at, node)| node.frame > allowed.frame && !rules.ends(&node.name) && !elsewhere(at))
    {
        faults.push(format!(
            "{profile}: {} takes {} bytes of stack; {} are allowed",
            node.name, node.frame, allowed.frame
        ));
    }

    let mut by_depth: Vec<usize> = (0..graph.nodes.len()).filter(|&at| !elsewhere(at)).collect();
    by_depth.sort_by_key(|&at| std::cmp::Reverse(depths[at].0));
    if let Some(&deepest) = by_depth.first() {
        println!("  {:>6} bytes on the deepest path:", depths[deepest].0);
        let mut next = Some(deepest);
        while let Some(at) = next {
            println!("      {:>6}  {}", graph.nodes[at].frame, graph.nodes[at].name);
            next = depths[at].1;
        }
        if depths[deepest].0 > allowed.path {
            faults.push(format!(
                "{profile}: the deepest path takes {} bytes; {} are allowed",
                depths[deepest].0, allowed.path
            ));
        }
    }
    Ok(())
}
