//! No circle of files: an edge leads from a file to the one that defines what it names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use super::source::{Tree, sources, syntax_of, tokens_of};
use super::{is_after_colons, module_of};

/// Of each file: the files whose items it names, and the names.
type Edges = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Files that lead back to themselves, each once, with a shortest way around.
pub(super) fn check_circles(tree: &Tree) -> Vec<String> {
    let mut edges = find_edges(tree);
    drop_ends(&mut edges);
    let mut told = BTreeSet::new();
    let mut circles = Vec::new();
    for path in edges.keys() {
        let circle = find_circle(&edges, path);
        if !circle.is_empty() && circle.iter().all(|step| told.insert(*step)) {
            circles.push(describe(&edges, path, &circle));
        }
    }
    circles
}

fn find_edges(tree: &Tree) -> Edges {
    let house = House::read(tree);
    let mut edges = Edges::new();
    for (path, text) in sources(tree).filter(|(path, _)| house.is_product(path)) {
        let mut named = Named { house: &house, path, found: BTreeMap::new() };
        named.collect(tokens_of(path, text), &module_of(path));
        edges.insert(path.to_owned(), named.found);
    }
    edges
}

/// Leaves out the files that lead nowhere, which are in no circle; then those that led to these alone, and so on.
fn drop_ends(edges: &mut Edges) {
    loop {
        let is_end = |next: &BTreeMap<String, BTreeSet<String>>| !next.keys().any(|path| edges.contains_key(path));
        let ends: Vec<String> = edges.iter().filter(|(_, next)| is_end(next)).map(|(path, _)| path.clone()).collect();
        if ends.is_empty() {
            return;
        }
        ends.iter().for_each(|path| _ = edges.remove(path));
    }
}

/// A shortest way from a file back to itself: the files after it, itself the last. Empty without one.
fn find_circle<'a>(edges: &'a Edges, start: &'a str) -> Vec<&'a str> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(at) = waiting.pop_front() {
        for next in edges.get(at).into_iter().flat_map(BTreeMap::keys) {
            if came_from.contains_key(next.as_str()) {
                continue;
            }
            came_from.insert(next, at);
            waiting.push_back(next);
        }
        if came_from.contains_key(start) {
            let mut way = vec![start];
            while came_from[way[way.len() - 1]] != start {
                way.push(came_from[way[way.len() - 1]]);
            }
            way.reverse();
            return way;
        }
    }
    Vec::new()
}

fn describe(edges: &Edges, start: &str, circle: &[&str]) -> String {
    let mut said = format!("{start} is in a circle of files:");
    let mut at = start;
    for next in circle {
        let names: Vec<&str> = edges[at][*next].iter().map(String::as_str).collect();
        said.push_str(&format!(" it names {} of {next};", names.join(", ")));
        at = next;
    }
    said
}

// ---- who defines what ----

/// What stands behind a name.
#[derive(Clone)]
enum Target {
    /// An item, defined in this file.
    Item(String),
    Module(Vec<String>),
}

/// What a module brings into its scope; of a name that means several things, each.
#[derive(Default)]
struct Scope {
    items: BTreeMap<String, String>,
    modules: BTreeSet<String>,
    uses: Vec<(String, Vec<String>)>,
    globs: Vec<Vec<String>>,
}

struct House {
    scopes: BTreeMap<Vec<String>, Scope>,
    test_modules: BTreeSet<Vec<String>>,
}

impl House {
    fn read(tree: &Tree) -> House {
        let mut house = House { scopes: BTreeMap::new(), test_modules: BTreeSet::new() };
        for (path, text) in sources(tree) {
            house.read_items(path, &module_of(path), &syntax_of(path, text).items);
        }
        house
    }

    /// Whether a file is not one of tests alone.
    fn is_product(&self, path: &str) -> bool {
        let module = module_of(path);
        !(0..=module.len()).any(|depth| self.test_modules.contains(&module[..depth]))
    }

    fn read_items(&mut self, path: &str, module: &[String], items: &[syn::Item]) {
        self.scopes.entry(module.to_vec()).or_default();
        for item in items {
            if let syn::Item::Mod(inner) = item {
                let inside = [module, &[inner.ident.to_string()]].concat();
                if is_test(&inner.attrs) {
                    self.test_modules.insert(inside);
                    continue;
                }
                if let Some((_, items)) = &inner.content {
                    self.read_items(path, &inside, items);
                }
            }
            self.scopes.entry(module.to_vec()).or_default().add(path, item);
        }
    }

    /// What a path means that is written in a module: the file that defines it. Paths into other crates are none: cargo allows no circle of crates.
    fn find_definer(&self, module: &[String], path: &[String]) -> Option<String> {
        match self.resolve(module, path, 0)? {
            Target::Item(file) => Some(file),
            Target::Module(_) => None,
        }
    }

    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<Target> {
        // Names that only lead to each other.
        if depth > 16 {
            return None;
        }
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (module[..1].to_vec(), &path[1..]),
            "self" => (module.to_vec(), &path[1..]),
            "super" => (super::parent(module).to_vec(), &path[1..]),
            _ => (module.to_vec(), path),
        };
        while let [name, after @ ..] = rest {
            rest = after;
            if name == "super" {
                at.pop();
                continue;
            }
            match self.look_up(&at, name, after.is_empty(), depth)? {
                Target::Module(module) => at = module,
                item @ Target::Item(_) => return Some(item),
            }
        }
        Some(Target::Module(at))
    }

    /// A name in a module. One that is both an item and a module is the item where the path ends.
    fn look_up(&self, module: &[String], name: &str, is_last: bool, depth: usize) -> Option<Target> {
        let scope = self.scopes.get(module)?;
        let item = scope.items.get(name).map(|file| Target::Item(file.clone()));
        let inner = scope.modules.contains(name).then(|| Target::Module([module, &[name.to_owned()]].concat()));
        let here = if is_last { item.or(inner) } else { inner.or(item) };
        here.or_else(|| {
            let mut named = scope.uses.iter().filter(|(used, _)| used == name);
            named.find_map(|(_, path)| self.resolve(module, path, depth + 1))
        })
        .or_else(|| {
            let mut globs = scope.globs.iter().filter_map(|path| match self.resolve(module, path, depth + 1)? {
                Target::Module(found) => Some(found),
                Target::Item(_) => None,
            });
            globs.find_map(|found| self.look_up(&found, name, is_last, depth + 1))
        })
    }
}

impl Scope {
    fn add(&mut self, path: &str, item: &syn::Item) {
        let (attributes, name) = match item {
            syn::Item::Fn(item) => (&item.attrs, &item.sig.ident),
            syn::Item::Struct(item) => (&item.attrs, &item.ident),
            syn::Item::Enum(item) => (&item.attrs, &item.ident),
            syn::Item::Trait(item) => (&item.attrs, &item.ident),
            syn::Item::Type(item) => (&item.attrs, &item.ident),
            syn::Item::Const(item) => (&item.attrs, &item.ident),
            syn::Item::Static(item) => (&item.attrs, &item.ident),
            syn::Item::Mod(item) => {
                self.modules.insert(item.ident.to_string());
                return;
            }
            syn::Item::Use(item) if !is_test(&item.attrs) => return self.add_use(&item.tree, Vec::new()),
            _ => return,
        };
        if !is_test(attributes) {
            self.items.insert(name.to_string(), path.to_owned());
        }
    }

    fn add_use(&mut self, tree: &syn::UseTree, mut path: Vec<String>) {
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.add_use(&step.tree, path);
            }
            syn::UseTree::Name(last) if last.ident == "self" => {
                self.uses.extend(path.last().cloned().map(|name| (name, path)));
            }
            syn::UseTree::Name(last) => self.add_renamed(&last.ident, &last.ident, path),
            syn::UseTree::Rename(last) => self.add_renamed(&last.ident, &last.rename, path),
            syn::UseTree::Glob(_) => self.globs.push(path),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.add_use(item, path.clone())),
        }
    }

    fn add_renamed(&mut self, name: &Ident, here: &Ident, mut path: Vec<String>) {
        path.push(name.to_string());
        self.uses.push((here.to_string(), path));
    }
}

/// `#[cfg(test)]`, and what else is there with tests alone, as `#[cfg(all(test, unix))]`.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && is_test_condition(&list.tokens),
        _ => false,
    })
}

fn is_test_condition(condition: &TokenStream) -> bool {
    condition.to_string() == "test" || condition.to_string().starts_with("all (test,")
}

// ---- who names what ----

/// Goes through one file's tokens, so that paths are found in types, expressions and macros alike.
struct Named<'a> {
    house: &'a House,
    path: &'a str,
    found: BTreeMap<String, BTreeSet<String>>,
}

impl Named<'_> {
    fn collect(&mut self, tokens: TokenStream, module: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let (before, rest) = tokens.split_at(at);
            let skipped = count_test_item(rest).max(count_shown(rest));
            if skipped > 0 {
                at += skipped;
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) if !is_after_colons(before) => {
                    self.collect(group.stream(), &super::inner_module(before, module));
                }
                TokenTree::Ident(_) if !is_after_colons(before) && !is_after_dot(before) => {
                    self.add_paths(rest, &[], module);
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// The paths that begin here: `a::b::c`, `a::{b, c::d}`.
    fn add_paths(&mut self, tokens: &[TokenTree], before: &[String], module: &[String]) {
        match tokens {
            [TokenTree::Ident(name), rest @ ..] => {
                let path = [before, &[name.to_string()]].concat();
                match rest {
                    [TokenTree::Punct(one), TokenTree::Punct(two), rest @ ..]
                        if (one.as_char(), two.as_char()) == (':', ':')
                            && matches!(rest.first(), Some(TokenTree::Ident(_) | TokenTree::Group(_))) =>
                    {
                        self.add_paths(rest, &path, module);
                    }
                    _ => self.add(&path, module),
                }
            }
            [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                for item in inside.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')) {
                    self.add_paths(item, before, module);
                }
            }
            _ => self.add(before, module),
        }
    }

    fn add(&mut self, path: &[String], module: &[String]) {
        if let Some(definer) = self.house.find_definer(module, path)
            && definer != self.path
        {
            self.found.entry(definer).or_default().insert(path.join("::"));
        }
    }
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == word)
}

/// Whether a field or a method stands next; what stands after `..` is neither.
fn is_after_dot(before: &[TokenTree]) -> bool {
    is_punct(before.last(), '.') && !is_punct(before.len().checked_sub(2).map(|at| &before[at]), '.')
}

/// How many tokens a `pub use` has that begins here: who shows a name to others does not use it.
fn count_shown(tokens: &[TokenTree]) -> usize {
    let to_whom = usize::from(matches!(tokens.get(1), Some(TokenTree::Group(_))));
    if is_word(tokens.first(), "pub") && is_word(tokens.get(1 + to_whom), "use") { count_item(tokens) } else { 0 }
}

/// How many tokens an item of tests has that begins here, its attribute included.
fn count_test_item(tokens: &[TokenTree]) -> usize {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), rest @ ..] = tokens else { return 0 };
    let inside: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match inside.as_slice() {
        [TokenTree::Ident(cfg), TokenTree::Group(condition)]
            if hash.as_char() == '#' && cfg == "cfg" && is_test_condition(&condition.stream()) =>
        {
            2 + count_item(rest)
        }
        _ => 0,
    }
}

/// Up to the semicolon or the braces that end an item. The braces of a `use` end nothing.
fn count_item(tokens: &[TokenTree]) -> usize {
    let is_use = tokens.iter().take(3).any(|token| is_word(Some(token), "use"));
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !is_use,
        token => is_punct(Some(token), ';'),
    };
    tokens.iter().position(is_end).map_or(tokens.len(), |at| at + 1)
}

mod planted {
    use super::*;

    /// What is told of two files of `bench`, one of which stands behind its folder's `mod.rs`.
    fn circles(one: &str, other: &str) -> Vec<String> {
        let files = [
            ("crates/lab/src/lib.rs", "pub mod bench;"),
            ("crates/lab/src/bench/mod.rs", "mod one;\nmod inner;\npub use inner::Other;\npub use one::{One, make};"),
            ("crates/lab/src/bench/inner/mod.rs", "mod other;\npub use other::Other;"),
            ("crates/lab/src/bench/one.rs", one),
            ("crates/lab/src/bench/inner/other.rs", other),
        ];
        check_circles(&files.into_iter().map(|(path, text)| (path.to_owned(), text.into())).collect())
    }

    #[test]
    fn circles_are_found_however_the_names_are_written() {
        let one = "use super::Other; pub struct One(Other); pub fn make() {}";
        let ways = [
            "use crate::bench::One; pub struct Other(One);",
            "use crate::bench::{one::{One as First}}; pub struct Other;",
            "pub struct Other; fn f(one: &crate::bench::One) {}",
            "use crate::bench; pub struct Other; fn f() { println!(\"{:?}\", bench::make()); }",
            "use super::super::*; pub struct Other; fn f() -> Vec<One> { Vec::new() }",
            "pub struct Other; mod deep { use super::super::super::one::make; }",
        ];
        for other in ways {
            let found = circles(one, other);
            assert!(found.len() == 1 && found[0].contains("crates/lab/src/bench/one.rs"), "{other}: {found:?}");
        }
    }

    #[test]
    fn what_is_only_shown_declared_or_tested_makes_no_circle() {
        let one = "use super::Other; pub struct One(Other); pub fn make() {}";
        let ways = [
            "pub struct Other; #[cfg(test)] mod tests { use crate::bench::One; }",
            "pub struct Other; #[cfg(test)] use crate::bench::One; fn f(one: &str) { one.make(); }",
            "/// As [`crate::bench::One`].\npub struct Other; pub use crate::bench::One;",
        ];
        for other in ways {
            assert_eq!(circles(one, other), [""; 0], "{other}");
        }
    }
}
