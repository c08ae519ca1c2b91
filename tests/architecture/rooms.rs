//! Rooms are as the table of layers says, no more and no less, and none of them outgrows the house.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Tree, sources, tokens_of};
use super::{LAYERS, collect_paths, folder_of, module_of};

/// Of all lines of `src/`, the most that one room may have.
const ROOM_SHARE_MAX: f64 = 0.16;

/// Arrows of [`LAYERS`] that nobody uses. A folder that is not there uses none.
pub(super) fn check_arrows(tree: &Tree) -> Vec<String> {
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources(tree) {
        collect_paths(tokens_of(path, text), &module_of(path), used.entry(folder_of(path)).or_default());
    }
    let arrows = LAYERS.iter().flat_map(|(folder, allowed)| allowed.iter().map(move |one| (*folder, *one)));
    let idle = arrows.filter(|(folder, one)| used.get(folder).is_some_and(|used| !used.contains(*one)));
    idle.map(|(folder, one)| format!("src/{folder}/ does not use {one}: strike the arrow")).collect()
}

/// Rooms with too large a share of all lines.
pub(super) fn check_shares(tree: &Tree) -> Vec<String> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, text) in sources(tree) {
        *lines.entry(folder_of(path)).or_default() += text.lines().count();
    }
    let all: usize = lines.values().sum();
    let share = |lines: usize| lines as f64 / all.max(1) as f64;
    let large = lines.into_iter().filter(|(_, lines)| share(*lines) > ROOM_SHARE_MAX);
    large.map(|(folder, lines)| format!("src/{folder}/: {lines} of {all} lines: build another room")).collect()
}

mod planted {
    use super::*;

    fn tree<const N: usize>(files: [(&str, &str); N]) -> Tree {
        files.into_iter().map(|(path, text)| (path.to_owned(), text.into())).collect()
    }

    #[test]
    fn arrows_that_nobody_uses_are_found() {
        let one = ("src/model/mod.rs", "use crate::units::Bytes;");
        assert_eq!(check_arrows(&tree([one])), ["src/model/ does not use failure: strike the arrow"]);
        let both = ("src/model/fit.rs", "fn f() -> crate::failure::ErrorKind { g() }");
        assert!(check_arrows(&tree([one, both])).is_empty());
    }

    #[test]
    fn rooms_that_outgrow_the_house_are_found() {
        let (small, large) = ("//\n".repeat(16), "//\n".repeat(17));
        let rooms = |last: &'static str| {
            let names = ["a", "b", "c", "d", "e", "f"];
            let small = names.map(|name| (format!("src/{name}/mod.rs"), small.as_str().into()));
            small.into_iter().chain([(format!("src/{last}/mod.rs"), "//\n".repeat(4).into())]).collect::<Tree>()
        };
        assert!(check_shares(&rooms("g")).is_empty());
        let mut outgrown = rooms("g");
        outgrown.insert("src/a/mod.rs".into(), large.into());
        assert_eq!(check_shares(&outgrown), ["src/a/: 17 of 101 lines: build another room"]);
    }
}
