//! What a file of Rust says, read from its tokens, so that what stands in macros is seen too: the modules that it declares, what
//! they import, and every path that they name. Code of tests (`#[cfg(test)]`) is passed over: a test may use what it likes.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::UseTree;

/// A path that is named in code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mention {
    pub segments: Vec<String>,
    pub line: usize,
}

/// A name that `use` brings in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The name here; `*` for all names of a module.
    pub name: String,
    pub target: Vec<String>,
    pub line: usize,
}

/// One module: a file, or a `mod` with a body in one.
#[derive(Clone, Default, Debug)]
pub struct Module {
    /// From the crate's root; the root's is empty.
    pub path: Vec<String>,
    /// The file, from the root of the repository.
    pub file: String,
    pub imports: Vec<Import>,
    pub mentions: Vec<Mention>,
    /// Functions, types, constants and so on that are defined here.
    pub items: BTreeSet<String>,
    pub macros: BTreeSet<String>,
    /// Macros that are called by a bare name.
    pub called_macros: Vec<(String, usize)>,
    /// Every identifier, and where it stands first.
    pub identifiers: BTreeMap<String, usize>,
    /// Where `unsafe` stands first.
    pub first_unsafe: Option<usize>,
    /// Here and in every module below.
    pub forbids_unsafe: bool,
    /// Here; a module below may allow it.
    pub denies_unsafe: bool,
    /// Name, first and last line of each function.
    pub functions: Vec<(String, usize, usize)>,
    /// Modules of tests that it declares in files of their own.
    pub test_modules: BTreeSet<String>,
}

/// The modules of a file: its own first, then those with bodies in it.
///
/// # Errors
/// It is no Rust.
pub fn read(file: &str, path: &[String], text: &str) -> Result<Vec<Module>, String> {
    let tokens: TokenStream =
        text.parse().map_err(|e: proc_macro2::LexError| format!("{file}:{}: {e}", e.span().start().line))?;
    let mut reader = Reader { file, found: Vec::new() };
    reader.module(path.to_vec(), tokens);
    reader.found.reverse();
    Ok(reader.found)
}

struct Reader<'a> {
    file: &'a str,
    found: Vec<Module>,
}

impl Reader<'_> {
    fn module(&mut self, path: Vec<String>, tokens: TokenStream) {
        let mut module = Module { path, file: self.file.to_owned(), ..Module::default() };
        self.tokens(&mut module, tokens);
        self.found.push(module);
    }

    fn tokens(&mut self, module: &mut Module, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = self.step(module, &tokens, at);
        }
    }

    /// Reads what begins at `at`; returns where to go on.
    fn step(&mut self, module: &mut Module, tokens: &[TokenTree], at: usize) -> usize {
        match &tokens[at] {
            TokenTree::Group(group) => {
                self.tokens(module, group.stream());
                at + 1
            }
            TokenTree::Punct(punct) if punct.as_char() == '#' => self.attribute(module, tokens, at),
            TokenTree::Ident(_) => self.identifier(module, tokens, at),
            _ => at + 1,
        }
    }

    fn attribute(&mut self, module: &mut Module, tokens: &[TokenTree], at: usize) -> usize {
        let inner = is_punct(tokens.get(at + 1), '!');
        let Some(group) = bracket(tokens.get(at + 1 + usize::from(inner))) else { return at + 1 };
        let after = at + 2 + usize::from(inner);
        let words: String = group.stream().to_string().split_whitespace().collect();
        if inner && words.starts_with("forbid(") && words.contains("unsafe_code") {
            module.forbids_unsafe = true;
        }
        if inner && words.starts_with("deny(") && words.contains("unsafe_code") {
            module.denies_unsafe = true;
        }
        if words.starts_with("unsafe(") {
            module.first_unsafe.get_or_insert(group.span_open().start().line);
        }
        if !inner && (words.starts_with("cfg(test)") || words.starts_with("cfg(all(test")) {
            return skip_item(module, tokens, after);
        }
        // `#[path = …]`, derives and the like name nothing that is used.
        after
    }

    fn identifier(&mut self, module: &mut Module, tokens: &[TokenTree], at: usize) -> usize {
        let (word, line) = ident(&tokens[at]).unwrap_or_default();
        module.identifiers.entry(word.clone()).or_insert(line);
        let name = |n: usize| tokens.get(n).and_then(ident).map(|(name, _)| name);
        match word.as_str() {
            "use" if !is_punct(tokens.get(at + 1), '<') => return import(module, tokens, at + 1, line),
            "unsafe" => {
                module.first_unsafe.get_or_insert(line);
            }
            "mod" => {
                if let (Some(child), Some(body)) = (name(at + 1), brace(tokens.get(at + 2))) {
                    let mut path = module.path.clone();
                    path.push(child);
                    self.module(path, body.stream());
                    return at + 3;
                }
            }
            "fn" => {
                if let Some(function) = name(at + 1) {
                    // The body: the first braces before the function's end.
                    let rest = tokens[at..].iter().take_while(|t| !is_punct(Some(t), ';'));
                    let last = rest.filter_map(|t| brace(Some(t))).map(|b| b.span_close().end().line).next();
                    if let Some(last) = last {
                        module.functions.push((function.clone(), line, last));
                    }
                    module.items.insert(function);
                    return at + 2;
                }
            }
            "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                // `static mut X`, `const fn f`: the word behind is read next.
                if let Some(item) = name(at + 1).filter(|n| n != "mut" && n != "fn") {
                    module.items.insert(item);
                    return at + 2;
                }
            }
            "macro_rules" if is_punct(tokens.get(at + 1), '!') => {
                if let Some(defined) = name(at + 2) {
                    module.macros.insert(defined);
                    return at + 3;
                }
            }
            _ => {}
        }
        path(module, tokens, at)
    }
}

/// Reads the path that begins at `at`.
fn path(module: &mut Module, tokens: &[TokenTree], at: usize) -> usize {
    let Some((first, line)) = ident(&tokens[at]) else { return at + 1 };
    // `.name` is a field or a method, `'name` a lifetime, `a::name` the end of a path that began in brackets.
    let before = at.checked_sub(1).map(|n| &tokens[n]);
    let starts = !is_punct(before, '.') && !is_punct(before, '\'') && !is_punct(before, ':')
        || first == "crate"
        || is_range(tokens, at)
        || is_punct(before, ':') && !is_double_colon(tokens, at.wrapping_sub(2));
    let mut segments = vec![first.clone()];
    let mut end = at + 1;
    while is_double_colon(tokens, end) {
        let Some((segment, line)) = tokens.get(end + 2).and_then(ident) else { break };
        module.identifiers.entry(segment.clone()).or_insert(line);
        segments.push(segment);
        end += 3;
    }
    if starts && segments.len() > 1 {
        module.mentions.push(Mention { segments, line });
    } else if starts
        && is_punct(tokens.get(end), '!')
        && matches!(tokens.get(end + 1), Some(TokenTree::Group(_)))
    {
        module.called_macros.push((first, line));
    }
    end
}

/// Is `at` what follows the two dots of a range?
fn is_range(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && is_punct(tokens.get(at - 1), '.') && is_punct(tokens.get(at - 2), '.')
}

/// Reads the tree behind `use`; returns where to go on, behind the semicolon.
fn import(module: &mut Module, tokens: &[TokenTree], at: usize, line: usize) -> usize {
    let end = (at..tokens.len()).find(|n| is_punct(tokens.get(*n), ';')).unwrap_or(tokens.len());
    let tree: TokenStream = tokens[at..end].iter().cloned().collect();
    if let Ok(tree) = syn::parse2::<UseTree>(tree) {
        flatten(&tree, &mut Vec::new(), line, &mut module.imports);
    }
    end + 1
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, line: usize, out: &mut Vec<Import>) {
    let mut push = |name: String, last: Option<String>, line: usize| {
        let mut target = prefix.clone();
        target.extend(last);
        out.push(Import { name, target, line });
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, path.ident.span().start().line, out);
            prefix.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            push(prefix.last().cloned().unwrap_or_default(), None, name.ident.span().start().line);
        }
        UseTree::Name(name) => {
            push(name.ident.to_string(), Some(name.ident.to_string()), name.ident.span().start().line);
        }
        UseTree::Rename(rename) => {
            let last = (rename.ident != "self").then(|| rename.ident.to_string());
            push(rename.rename.to_string(), last, rename.ident.span().start().line);
        }
        UseTree::Glob(_) => push("*".to_owned(), None, line),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, prefix, line, out)),
    }
}

/// Passes over the item at `at`, which is a test's, with its other attributes.
fn skip_item(module: &mut Module, tokens: &[TokenTree], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        if let Some(("mod", child)) =
            ident(token).as_ref().map(|(w, _)| w.as_str()).zip(tokens.get(at + 1).and_then(ident))
        {
            module.test_modules.insert(child.0);
        }
        at += 1;
        if is_punct(Some(token), ';') || brace(Some(token)).is_some() {
            break;
        }
    }
    at
}

fn ident(token: &TokenTree) -> Option<(String, usize)> {
    match token {
        TokenTree::Ident(ident) => {
            let word = ident.to_string();
            Some((word.strip_prefix("r#").map(str::to_owned).unwrap_or(word), ident.span().start().line))
        }
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, which: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == which)
}

fn is_double_colon(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':' && p.spacing() == Spacing::Joint)
        && is_punct(tokens.get(at + 1), ':')
}

fn brace(token: Option<&TokenTree>) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

fn bracket(token: Option<&TokenTree>) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => Some(group),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Module {
        read("a.rs", &[], text).unwrap().remove(0)
    }

    fn mentions(text: &str) -> Vec<String> {
        one(text).mentions.iter().map(|m| m.segments.join("::")).collect()
    }

    #[test]
    fn imports_are_flattened() {
        let module = one("use crate::{a::{self, B as C}, d::*};\npub use super::e;");
        let found: Vec<_> =
            module.imports.iter().map(|i| format!("{}={}", i.name, i.target.join("::"))).collect();
        assert_eq!(found, ["a=crate::a", "C=crate::a::B", "*=crate::d", "e=super::e"]);
        assert_eq!(module.imports[3].line, 2);
    }

    #[test]
    fn paths_are_seen_in_macros_types_and_bodies() {
        assert_eq!(mentions("fn f() -> crate::a::B { x.y(crate::c::d()); }"), ["crate::a::B", "crate::c::d"]);
        assert_eq!(mentions("m! { static X: T = crate::a::B; }"), ["crate::a::B"]);
        assert_eq!(mentions("macro_rules! m { () => { $crate::log::print() } }"), ["crate::log::print"]);
        assert_eq!(mentions("fn f(a: b::C) { 0..d::E; &f::G }"), ["b::C", "d::E", "f::G"]);
    }

    #[test]
    fn code_of_tests_is_passed_over() {
        assert_eq!(
            mentions("#[cfg(test)]\n#[allow(x)]\nmod tests { use crate::a; fn f() { crate::b::c() } }"),
            [""; 0]
        );
        assert!(one("#[cfg(test)] mod tests;").test_modules.contains("tests"));
        assert_eq!(mentions("#[cfg(not(test))]\nfn f() { crate::b::c() }"), ["crate::b::c"]);
    }

    #[test]
    fn a_module_with_a_body_has_its_own_paths() {
        let modules = read("a.rs", &["a".to_owned()], "mod b { use super::c; } fn d() {}").unwrap();
        assert_eq!(modules[0].path, ["a"]);
        assert_eq!(modules[1].path, ["a", "b"]);
        assert_eq!(modules[1].imports[0].target, ["super", "c"]);
        assert!(modules[0].items.contains("d") && modules[0].imports.is_empty());
    }

    #[test]
    fn unsafe_code_and_its_refusal_are_seen() {
        assert!(one("#![forbid(unsafe_code)]").forbids_unsafe);
        assert_eq!(one("// unsafe\nfn f() { unsafe { g() } }").first_unsafe, Some(2));
        assert_eq!(one("#[unsafe(no_mangle)] fn f() {}").first_unsafe, Some(1));
    }

    #[test]
    fn functions_have_their_lines() {
        assert_eq!(one("fn f(\n) -> [u8; 2] {\n}\n").functions, [("f".to_owned(), 1, 3)]);
    }
}
