//! The tree checks itself for what must not be there; which crate may use which stands in their manifests. Every rule is a function
//! over a tree of texts, and has a test with a planted violation.
#![allow(clippy::unwrap_used)]

mod circles;
mod source;

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use source::{Tree, read_tree, sources, syntax_of, tokens_of};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "utilities", "common", "helper", "helpers", "manager", "managers", "misc"];

#[test]
fn the_tree_keeps_its_rules() {
    let tree = read_tree(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    assert!(tree.contains_key("crates/host/src/lib.rs"), "the tree was not read");
    let rules = [circles::check_circles, check_names, check_reachable, check_unsafe, check_places, check_reasons];
    let violations: Vec<String> = rules.into_iter().flat_map(|rule| rule(&tree)).collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

// ---- words ----

/// Findings of scripts/check-words below a directory: `line "phrase"`.
fn find_phrases(root: &Path) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/check-words");
    let output = std::process::Command::new(script).arg(root).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!found.is_empty())), "{}", String::from_utf8_lossy(&output.stderr));
    let place = |line: &str| line.split_once(".rs:")?.1.split_once(" (better").map(|(place, _)| place.replace(':', ""));
    found.lines().filter_map(place).collect()
}

#[test]
fn phrases_that_a_reader_must_translate_are_found_where_they_are_printed() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("crates/x/src");
    std::fs::create_dir_all(&source).unwrap();
    let text = "/// A backend who waits, a user who asks.\n\
                // What is told here is not printed.\n\
                const A: &str = \"skipped \\\n    what was cached\"; // told\n\
                const B: &str = r#\"{told} `told` \"it\" is said\"#;\n\
                #[cfg(test)]\nmod tests { const C: &str = \"is told\"; }\n";
    std::fs::write(source.join("a.rs"), text).unwrap();
    assert_eq!(find_phrases(root.path()), ["1 \"who \"", "3 \"what was cached\"", "5 \"is said\""]);
    assert!(find_phrases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).is_empty());
}

// ---- paths ----

/// The crate of a file, by its directory.
fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or("")
}

/// The module that a file is, its crate first: `crates/cache/src/warm/plan.rs` is `[cache, warm, plan]`.
fn module_of(path: &str) -> Vec<String> {
    let parts = path.trim_end_matches(".rs").split('/').filter(|part| !["crates", "src"].contains(part));
    let mut module: Vec<String> = parts.map(str::to_owned).collect();
    module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    module
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

// ---- names, dead files, unsafe ----

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
        ["crates", _, "src", "lib.rs" | "main.rs"]
            | ["crates", _, "build.rs"]
            | ["crates", _, "tests", _]
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

/// `unsafe` outside of the crate `host`.
fn check_unsafe(tree: &Tree) -> Vec<String> {
    let elsewhere = sources(tree).filter(|(path, _)| crate_of(path) != "host");
    let unsafe_ones = elsewhere.filter(|(path, text)| contains_word(tokens_of(path, text), "unsafe"));
    unsafe_ones.map(|(path, _)| format!("{path}: unsafe belongs to crates/host/")).collect()
}

fn contains_word(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => contains_word(group.stream(), word),
        TokenTree::Ident(ident) => ident == word,
        _ => false,
    })
}

// ---- files where others may write ----

const KERNEL: &str = "files of the kernel: /proc, /sys, cgroups";
const STORE: &str = "part of the store";
const OWN: &str = "below a directory of this process's own, which is closed to others";

/// Who opens, makes or removes files by a path without `crates/host/src/files/`, and why that is no harm. A folder ends with a slash.
const PLACES_WITH_REASON: &[(&str, &str)] = &[
    ("crates/host/src/schema_fixture.rs", "tests compare docs/schemas/ with the types"),
    ("crates/pgthaw-lab/src/bench/", OWN),
    ("crates/pgthaw-lab/src/lab/", OWN),
    ("crates/command/src/completions.rs", "where the user says that the manual pages go"),
    ("crates/pgthaw-lab/src/laboratory/judge.rs", "the first byte of a file that the user names"),
    ("crates/host/src/linux/block_device.rs", KERNEL),
    ("crates/host/src/linux/capability.rs", "scratch files that are made anew, and /proc"),
    ("crates/host/src/linux/cgroup/", KERNEL),
    ("crates/host/src/linux/own_program.rs", KERNEL),
    ("crates/host/src/linux/foreign_memory.rs", KERNEL),
    ("crates/host/src/linux/loop_file_system/", "files of the kernel, and its own directory"),
    ("crates/host/src/linux/machine.rs", KERNEL),
    ("crates/host/src/linux/page_cache/", "files of the kernel, and files without a name"),
    ("crates/host/src/linux/process.rs", KERNEL),
    ("crates/host/src/linux/read_ahead.rs", "files of the kernel, and this user's own state"),
    ("crates/postgres/src/capability.rs", "tries whether a directory can be listed, and reads nothing"),
    ("crates/postgres/src/error.rs", "lists the sockets of libpq's directories for a hint"),
    (
        "crates/postgres/src/lender.rs",
        "a server's own log, with no more rights than the server's; a directory of this process's own",
    ),
    ("crates/postgres/src/pgbench.rs", OWN),
    ("crates/postgres/src/data_directory.rs", KERNEL),
    ("crates/postgres/src/programs.rs", "lists where PostgreSQL is installed"),
    ("crates/command/src/table.rs", STORE),
    ("crates/pgthaw-lab/src/study/import/files.rs", "lists what the user names"),
    ("crates/terminal/src/live_screen.rs", "the terminal"),
    ("crates/terminal/src/password.rs", "the terminal"),
];

/// What opens files by descriptor.
const FILES: &str = "crates/host/src/files/";

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

/// Files outside `crates/host/src/files/` that open files by path, with these calls.
fn calling_files(tree: &Tree) -> Vec<(&str, Vec<String>)> {
    let is_test = |path: &str| path.ends_with("tests.rs") || path.ends_with("fixtures.rs");
    let elsewhere = sources(tree).filter(|(path, _)| !path.starts_with(FILES) && !is_test(path));
    let calling = elsewhere.map(|(path, text)| (path, find_path_calls(syntax_of(path, text))));
    calling.filter(|(_, calls)| !calls.is_empty()).collect()
}

fn allows(entry: &str, path: &str) -> bool {
    path == entry || (entry.ends_with('/') && path.starts_with(entry))
}

/// Calls by path without a reason in `PLACES_WITH_REASON`.
fn check_places(tree: &Tree) -> Vec<String> {
    let mut calling = calling_files(tree);
    calling.retain(|(path, _)| !PLACES_WITH_REASON.iter().any(|(entry, _)| allows(entry, path)));
    calling
        .iter()
        .map(|(path, calls)| format!("{path}: {} go through crates/host/src/files/", calls.join(", ")))
        .collect()
}

/// Entries of `PLACES_WITH_REASON` without such a call.
fn check_reasons(tree: &Tree) -> Vec<String> {
    let calling = calling_files(tree);
    let stale = PLACES_WITH_REASON.iter().filter(|(entry, _)| !calling.iter().any(|(path, _)| allows(entry, path)));
    stale.map(|(entry, _)| format!("{entry}: opens no file by path, and needs no reason")).collect()
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

    #[test]
    fn empty_names_are_found() {
        assert_eq!(
            check_names(&tree([
                ("crates/cache/src/utils.rs", ""),
                ("crates/x/src/helpers/x.rs", ""),
                ("crates/host/src/units/a.rs", "")
            ]))
            .len(),
            2
        );
    }

    #[test]
    fn dead_files_are_found() {
        let tree = tree([
            ("crates/x/src/lib.rs", "mod a; mod c { }"),
            ("crates/x/src/a.rs", "mod b;"),
            ("crates/x/src/a/b.rs", ""),
            ("crates/x/src/c.rs", ""),
            ("tests/all/main.rs", "mod one;"),
            ("tests/all/one.rs", ""),
            ("tests/all/forgotten.rs", ""),
            ("tests/architecture.rs", ""),
        ]);
        let found = check_reachable(&tree);
        assert_eq!(found, ["crates/x/src/c.rs: no mod declares it", "tests/all/forgotten.rs: no mod declares it"]);
    }

    #[test]
    fn unsafe_code_is_found() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(
            check_unsafe(&tree([("crates/cache/src/warm/a.rs", text), ("crates/host/src/linux/a.rs", text)])).len(),
            1
        );
        assert!(
            check_unsafe(&tree([("crates/cache/src/warm/a.rs", "/// unsafe\nfn f() { let s = \"unsafe\"; }")]))
                .is_empty()
        );
    }

    #[test]
    fn files_that_are_opened_by_path_are_found() {
        let text = "fn f() { let _ = (std::fs::read(p), File::open(p), tempfile::tempdir(), fs::metadata(p)); }
            #[cfg(test)] mod tests { fn g() { std::fs::write(p, t); } }";
        let found = check_places(&tree([
            ("crates/cache/src/warm/a.rs", text),
            ("crates/host/src/files/a.rs", text),
            ("crates/pgthaw-lab/src/bench/a.rs", text),
        ]));
        assert_eq!(
            found,
            [
                "crates/cache/src/warm/a.rs: std::fs::read, File::open, tempfile::tempdir go through crates/host/src/files/"
            ]
        );
    }

    #[test]
    fn a_reason_for_a_file_that_opens_none_is_found() {
        let opens = "fn f() { let _ = std::fs::read(p); }";
        let one = |text| check_reasons(&tree([("crates/terminal/src/password.rs", text)])).len();
        assert_eq!((one(opens), one("")), (PLACES_WITH_REASON.len() - 1, PLACES_WITH_REASON.len()));
    }
}
