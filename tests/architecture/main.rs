//! The tree checks itself: which folder may use which, and what must not be there. ARCHITECTURE.md says why. Every rule is a
//! function over a tree of texts, and has a test with a planted violation.
#![allow(clippy::unwrap_used)]

mod circles;
mod source;

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use source::{Source, Tree, read_tree, sources, syntax_of, tokens_of};

/// Which folders of `src/` a folder may use, itself aside. A new folder needs a row here.
const LAYERS: [(&str, &[&str]); 24] = [
    ("units", &[]),
    ("failure", &["units"]),
    ("files", &[]),
    ("linux", &["files", "units", "failure"]),
    ("pgbench", &[]),
    ("postgres", &["pgbench", "files", "units", "failure"]),
    ("model", &["pgbench", "units", "failure"]),
    ("observe", &["model", "linux", "postgres", "files", "units", "failure"]),
    ("cache", &["linux", "postgres", "files", "units", "failure"]),
    ("warm", &["cache", "linux", "postgres", "files", "units", "failure"]),
    ("trace", &["warm", "cache", "observe", "linux", "postgres", "files", "units", "failure"]),
    ("terminal", &["linux", "units", "failure"]),
    (
        "command",
        &[
            "terminal", "trace", "warm", "cache", "observe", "model", "linux", "postgres", "pgbench", "files", "units",
            "failure",
        ],
    ),
    (
        "commands",
        &[
            "laboratory",
            "command",
            "terminal",
            "trace",
            "warm",
            "cache",
            "observe",
            "model",
            "linux",
            "postgres",
            "files",
            "units",
            "failure",
        ],
    ),
    ("study", &["observe", "model", "warm", "linux", "postgres", "pgbench", "files", "units", "failure"]),
    ("verdict", &["study", "observe", "model", "postgres", "units"]),
    ("lab", &["study", "cache", "observe", "model", "linux", "postgres", "pgbench", "files", "units", "failure"]),
    (
        "bench",
        &[
            "lab", "verdict", "study", "warm", "cache", "observe", "model", "linux", "postgres", "pgbench", "files",
            "units", "failure",
        ],
    ),
    ("results", &["command", "verdict", "study", "observe", "linux", "postgres", "files", "units", "failure"]),
    ("report", &["command", "verdict", "study", "units"]),
    ("serve", &["command", "results", "report", "verdict", "study", "files", "units", "failure"]),
    (
        "laboratory",
        &[
            "command", "serve", "results", "report", "terminal", "bench", "lab", "verdict", "study", "warm", "cache",
            "observe", "model", "linux", "postgres", "files", "units", "failure",
        ],
    ),
    // lib.rs and main.rs.
    ("", &["command", "commands", "laboratory", "terminal"]),
    // A file of tests alone.
    ("untested", &[]),
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "utilities", "common", "helper", "helpers", "manager", "managers", "misc"];

#[test]
fn the_tree_keeps_its_rules() {
    let tree = read_tree(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    assert!(tree.contains_key("src/lib.rs"), "the tree was not read");
    let rules = [
        check_layers,
        circles::check_circles,
        check_names,
        check_reachable,
        check_unsafe,
        check_commands,
        check_places,
    ];
    let violations: Vec<String> = rules.into_iter().flat_map(|rule| rule(&tree)).collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

// ---- layers ----

/// Arrows that are not in [`LAYERS`].
fn check_layers(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for (path, text) in sources(tree) {
        let module = module_of(path);
        let folder = folder_of(path);
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == folder) else {
            violations.push(format!("{path}: src/{folder}/ is not in the table of layers"));
            continue;
        };
        let mut used = BTreeSet::new();
        collect_paths(tokens_of(path, text), &module, &mut used);
        for name in used.iter().filter(|name| *name != folder && !allowed.contains(&name.as_str())) {
            violations
                .push(format!("{path}: {} may not use {name}", if folder.is_empty() { "the root" } else { folder }));
        }
    }
    violations
}

/// `src/warm/plan.rs` is in `warm`; `src/main.rs` in the root, whose name is empty.
fn folder_of(path: &str) -> &str {
    let inside = path.trim_start_matches("src/");
    inside.split_once('/').map_or_else(|| root_module(inside), |(folder, _)| folder)
}

/// `src/units.rs` would be the folder `units` in one file.
fn root_module(file: &str) -> &str {
    match file.trim_end_matches(".rs") {
        "lib" | "main" => "",
        name => name,
    }
}

/// The module that a file is: `src/warm/plan.rs` is `[warm, plan]`, `src/warm/mod.rs` is `[warm]`.
fn module_of(path: &str) -> Vec<String> {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    let parts: Vec<String> = inside.split('/').map(str::to_owned).collect();
    match parts.last().map(String::as_str) {
        Some("mod" | "lib" | "main") => parts[..parts.len() - 1].to_vec(),
        _ => parts,
    }
}

/// The top-level modules that a file's paths lead to, wherever they stand: in `use`, in types, inside macros.
fn collect_paths(tokens: TokenStream, module: &[String], used: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => collect_paths(group.stream(), &inner_module(&tokens[..at], module), used),
            TokenTree::Ident(ident) if !is_after_colons(&tokens[..at]) => {
                let rest = &tokens[at + 1..];
                match ident.to_string().as_str() {
                    "crate" | "pgthaw" => collect_targets(rest, &[], used),
                    "super" => collect_targets(rest, parent(module), used),
                    "self" => collect_targets(rest, module, used),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// What follows `crate`, `self` or `super`, which stand for `base`: `::name`, `::super::name`, `::{one, two::three}`.
fn collect_targets(rest: &[TokenTree], base: &[String], used: &mut BTreeSet<String>) {
    let [TokenTree::Punct(first), TokenTree::Punct(second), next, rest @ ..] = rest else { return };
    if (first.as_char(), second.as_char()) != (':', ':') {
        return;
    }
    match next {
        TokenTree::Ident(name) if name == "super" => collect_targets(rest, parent(base), used),
        TokenTree::Ident(name) => {
            used.insert(base.first().cloned().unwrap_or_else(|| name.to_string()));
        }
        TokenTree::Group(group) => {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            for item in inside.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')) {
                // As if each item stood behind the `::` alone.
                let item: Vec<TokenTree> =
                    [&[TokenTree::Punct(first.clone()), TokenTree::Punct(second.clone())], item].concat();
                collect_targets(&item, base, used);
            }
        }
        // A glob of the root would bring in everything.
        _ => {
            used.insert(base.first().cloned().unwrap_or_else(|| "crate::*".to_owned()));
        }
    }
}

/// Inside the braces of `mod tests { … }` paths are one deeper.
fn inner_module(before: &[TokenTree], module: &[String]) -> Vec<String> {
    match before {
        [.., TokenTree::Ident(keyword), TokenTree::Ident(name)] if keyword == "mod" => {
            [module, &[name.to_string()]].concat()
        }
        _ => module.to_vec(),
    }
}

fn parent(module: &[String]) -> &[String] {
    &module[..module.len().saturating_sub(1)]
}

fn is_after_colons(before: &[TokenTree]) -> bool {
    matches!(before, [.., TokenTree::Punct(punct)] if punct.as_char() == ':')
        && matches!(before, [.., TokenTree::Punct(punct), _] if punct.as_char() == ':')
}

// ---- names, dead files, unsafe, commands ----

/// Files and folders whose names say nothing.
fn check_names(tree: &Tree) -> Vec<String> {
    let is_empty_name = |part: &str| EMPTY_NAMES.contains(&part.trim_end_matches(".rs"));
    let named_so = tree.keys().filter(|path| path.split('/').any(is_empty_name));
    named_so.map(|path| format!("{path}: a name should say what is inside")).collect()
}

/// Files that no `mod` leads to: the compiler never sees them.
fn check_reachable(tree: &Tree) -> Vec<String> {
    let mut reached = BTreeSet::new();
    for root in tree.keys().filter(|path| is_crate_root(path)) {
        reach(tree, root, &mut reached);
    }
    let dead = tree.keys().filter(|path| !reached.contains(*path));
    dead.map(|path| format!("{path}: no mod declares it")).collect()
}

fn is_crate_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts.as_slice(),
        ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["tests" | "benches", _]
            | ["tests" | "benches", _, "main.rs"]
    )
}

fn reach(tree: &Tree, path: &str, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.get(path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ if is_crate_root(path) => folder.to_owned(),
        file => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    for item in &syntax_of(path, text).items {
        if let syn::Item::Mod(declared) = item
            && declared.content.is_none()
        {
            reach(tree, &format!("{folder}/{}.rs", declared.ident), reached);
            reach(tree, &format!("{folder}/{}/mod.rs", declared.ident), reached);
        }
    }
}

/// `unsafe` outside of `src/linux/`.
fn check_unsafe(tree: &Tree) -> Vec<String> {
    let elsewhere = sources(tree).filter(|(path, _)| folder_of(path) != "linux");
    let unsafe_ones = elsewhere.filter(|(path, text)| contains_word(tokens_of(path, text), "unsafe"));
    unsafe_ones.map(|(path, _)| format!("{path}: unsafe belongs to src/linux/")).collect()
}

fn contains_word(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => contains_word(group.stream(), word),
        TokenTree::Ident(ident) => ident == word,
        _ => false,
    })
}

/// A subcommand's own file, as against what the commands share.
fn is_command(path: &str, text: &str) -> bool {
    ["commands", "laboratory"].contains(&folder_of(path)) && text.contains("\npub async fn run(")
}

/// The first line of a command's file says which command it is and where the work is done.
fn check_commands(tree: &Tree) -> Vec<String> {
    let says_so = |(_, text): &(&str, &Source)| {
        text.starts_with("//! `pgthaw ") && text.lines().next().unwrap_or("").contains("src/")
    };
    let silent = sources(tree).filter(|(path, text)| is_command(path, text)).filter(|command| !says_so(command));
    silent
        .map(|(path, _)| format!("{path}: begin with \"//! `pgthaw NAME`: the work is done in `src/FOLDER/`.\""))
        .collect()
}

// ---- files where others may write ----

const KERNEL: &str = "files of the kernel: /proc, /sys, cgroups";
const STORE: &str = "part of the store";
const OWN: &str = "below a directory of this process's own, which is closed to others";

/// Who opens, makes or removes files by a path without `src/files/`, and why that is no harm. A folder ends with a slash.
const PLACES_WITH_REASON: &[(&str, &str)] = &[
    ("src/bench/", OWN),
    ("src/lab/", OWN),
    ("src/cache/snapshot_file/", STORE),
    ("src/cache/snapshot_store.rs", STORE),
    ("src/commands/completions.rs", "where the user says that the manual pages go"),
    ("src/laboratory/judge.rs", "the first byte of a file that the user names"),
    ("src/laboratory/measured.rs", "a file of the user's, which may be a pipe: `<(…)`"),
    ("src/command/settings/", STORE),
    ("src/linux/block_device.rs", KERNEL),
    ("src/linux/capability/", "scratch files that are made anew, and /proc"),
    ("src/linux/cgroup/", KERNEL),
    ("src/linux/arguments.rs", KERNEL),
    ("src/linux/foreign_memory.rs", KERNEL),
    ("src/linux/loop_file_system/", "files of the kernel, and its own directory"),
    ("src/linux/machine.rs", KERNEL),
    ("src/linux/memory.rs", KERNEL),
    ("src/linux/page_cache/", "files of the kernel, and files without a name"),
    ("src/linux/process.rs", KERNEL),
    ("src/linux/read_ahead.rs", "files of the kernel, and this user's own state"),
    ("src/postgres/capability/directory_checks.rs", "tries whether a directory can be listed, and reads nothing"),
    ("src/postgres/configured.rs", OWN),
    ("src/postgres/error.rs", "lists the sockets of libpq's directories for a hint"),
    ("src/postgres/lender.rs", "a server's own log, with no more rights than the server's"),
    ("src/postgres/pgbench/", OWN),
    ("src/postgres/postmaster.rs", KERNEL),
    ("src/postgres/programs.rs", "lists where PostgreSQL is installed"),
    ("src/postgres/scratch/running.rs", KERNEL),
    ("src/command/document/", STORE),
    ("src/command/table/", STORE),
    ("src/results/", STORE),
    ("src/serve/", STORE),
    ("src/study/sweep/import/survey.rs", "lists what the user names"),
    ("src/terminal/password.rs", "the terminal"),
];

const FS_CALLS: [&str; 13] = [
    "read",
    "read_to_string",
    "read_dir",
    "write",
    "copy",
    "rename",
    "hard_link",
    "remove_file",
    "remove_dir",
    "remove_dir_all",
    "create_dir",
    "create_dir_all",
    "set_permissions",
];

/// Calls by path of what `src/files/` does by descriptor.
fn check_places(tree: &Tree) -> Vec<String> {
    let is_test = |path: &str| path.ends_with("tests.rs") || path.ends_with("fixtures.rs");
    let elsewhere = sources(tree).filter(|(path, _)| folder_of(path) != "files" && !is_test(path));
    let calling: Vec<(&str, Vec<String>)> = elsewhere
        .map(|(path, text)| (path, find_path_calls(syntax_of(path, text))))
        .filter(|(_, calls)| !calls.is_empty())
        .collect();
    let allows = |entry: &str, path: &str| path == entry || (entry.ends_with('/') && path.starts_with(entry));
    let unlisted = calling.iter().filter(|(path, _)| !PLACES_WITH_REASON.iter().any(|(entry, _)| allows(entry, path)));
    unlisted.map(|(path, calls)| format!("{path}: {} go through src/files/", calls.join(", "))).collect()
}

fn find_path_calls(file: &syn::File) -> Vec<String> {
    struct Calls(Vec<String>);
    impl<'ast> Visit<'ast> for Calls {
        fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
            let is_test = |attribute: &syn::Attribute| matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test");
            if !module.attrs.iter().any(is_test) {
                syn::visit::visit_item_mod(self, module);
            }
        }
        fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
            let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let is_one = match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [.., "fs", call] => FS_CALLS.contains(&call),
                [.., "File", call] => ["open", "create", "options"].contains(&call),
                [.., "OpenOptions" | "NamedTempFile", "new" | "new_in"] | ["tempfile", ..] => true,
                _ => false,
            };
            self.0.extend(is_one.then(|| names.join("::")));
        }
    }
    let mut calls = Calls(Vec::new());
    calls.visit_file(file);
    calls.0
}

// ---- each rule finds what it is there to find ----

mod planted {
    use super::*;

    fn tree<const N: usize>(files: [(&str, &str); N]) -> Tree {
        files.into_iter().map(|(path, text)| (path.to_owned(), text.into())).collect()
    }

    /// What the file uses that it may not.
    fn forbidden(path: &str, text: &str) -> Vec<String> {
        check_layers(&tree([(path, text)])).iter().map(|said| said.rsplit(' ').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn arrows_are_found_however_they_are_written() {
        let ways = [
            "use crate::warm;",
            "use crate::warm::Plan;",
            "use crate::{units::Bytes, warm::{Plan, Receipt}};",
            "use pgthaw::warm;",
            "use super::super::warm::Plan;",
            "use super::super::{units, warm};",
            "fn f(plan: crate::warm::Plan) {}",
            "fn f() { println!(\"{}\", crate::warm::NAME); }",
            "mod tests { use super::super::super::warm; }",
            "mod tests { fn f() { super::super::super::warm::f(); } }",
        ];
        for text in ways {
            assert_eq!(forbidden("src/cache/map.rs", text), ["warm"], "{text}");
        }
    }

    #[test]
    fn allowed_paths_are_left_alone() {
        let text = "use crate::{failure, linux::{self, page_cache}, units::Bytes}; use super::Map; use self::inner::X;
            /// See [`crate::warm::Plan`].
            fn f() { std::warm::f(); let warm = warm::f(); }
            mod tests { use super::*; use super::super::Snapshot; }";
        assert_eq!(forbidden("src/cache/map.rs", text), [""; 0]);
        assert_eq!(forbidden("src/cache/mod.rs", "use super::units;"), [""; 0]);
        assert_eq!(forbidden("src/main.rs", "use pgthaw::commands::Cli;"), [""; 0]);
    }

    #[test]
    fn the_layers_are_those_of_the_design() {
        assert_eq!(forbidden("src/linux/proc.rs", "use crate::postgres::Server;"), ["postgres"]);
        assert_eq!(forbidden("src/postgres/server.rs", "use crate::linux::Error;"), ["linux"]);
        assert_eq!(forbidden("src/bench/run.rs", "use crate::{terminal, results};"), ["results", "terminal"]);
        assert_eq!(forbidden("src/units/mod.rs", "use crate::failure::Explain;"), ["failure"]);
        assert_eq!(forbidden("src/main.rs", "use pgthaw::cache::Map;"), ["cache"]);
        assert_eq!(forbidden("src/cache/map.rs", "use crate::*;"), ["crate::*"]);
        assert!(check_layers(&tree([("src/novelty/mod.rs", "")]))[0].contains("not in the table"));
    }

    #[test]
    fn empty_names_are_found() {
        assert_eq!(
            check_names(&tree([("src/cache/utils.rs", ""), ("src/helpers/x.rs", ""), ("src/units/a.rs", "")])).len(),
            2
        );
    }

    #[test]
    fn dead_files_are_found() {
        let tree = tree([
            ("src/lib.rs", "mod a; mod c { }"),
            ("src/a.rs", "mod b;"),
            ("src/a/b.rs", ""),
            ("src/c.rs", ""),
            ("tests/all/main.rs", "mod one;"),
            ("tests/all/one.rs", ""),
            ("tests/all/forgotten.rs", ""),
            ("tests/architecture.rs", ""),
        ]);
        let found = check_reachable(&tree);
        assert_eq!(found, ["src/c.rs: no mod declares it", "tests/all/forgotten.rs: no mod declares it"]);
    }

    #[test]
    fn unsafe_code_is_found() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(check_unsafe(&tree([("src/warm/a.rs", text), ("src/linux/a.rs", text)])).len(), 1);
        assert!(check_unsafe(&tree([("src/warm/a.rs", "/// unsafe\nfn f() { let s = \"unsafe\"; }")])).is_empty());
    }

    #[test]
    fn files_that_are_opened_by_path_are_found() {
        let text = "fn f() { let _ = (std::fs::read(p), File::open(p), tempfile::tempdir(), fs::metadata(p)); }
            #[cfg(test)] mod tests { fn g() { std::fs::write(p, t); } }";
        let found =
            check_places(&tree([("src/warm/a.rs", text), ("src/files/a.rs", text), ("src/results/a.rs", text)]));
        assert_eq!(found, ["src/warm/a.rs: std::fs::read, File::open, tempfile::tempdir go through src/files/"]);
    }

    #[test]
    fn commands_that_do_not_say_who_works_are_found() {
        let run = "\npub async fn run() {}";
        let good = format!("//! `pgthaw map`: the work is done in `src/cache/`.\n{run}");
        let files =
            tree([("src/commands/map.rs", good.as_str()), ("src/commands/top.rs", run), ("src/warm/a.rs", run)]);
        assert_eq!(check_commands(&files).len(), 1);
    }
}
