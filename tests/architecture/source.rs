//! The texts of the tree, each parsed once for all rules.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;

use proc_macro2::TokenStream;

/// Paths from the package's root, and what stands there.
pub(super) type Tree = BTreeMap<String, Source>;

/// A text, with what it is parsed into as soon as a rule asks for that.
pub(super) struct Source {
    text: String,
    tokens: OnceCell<TokenStream>,
    syntax: OnceCell<syn::File>,
}

impl<T: Into<String>> From<T> for Source {
    fn from(text: T) -> Source {
        Source { text: text.into(), tokens: OnceCell::new(), syntax: OnceCell::new() }
    }
}

impl Deref for Source {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Every Rust file of the package.
pub(super) fn read_tree(root: &Path) -> Tree {
    fn read(root: &Path, directory: &Path, tree: &mut Tree) {
        for entry in std::fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(root, &path, tree);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                tree.insert(name, std::fs::read_to_string(&path).unwrap().into());
            }
        }
    }
    let mut tree = Tree::new();
    for directory in ["crates", "tests", "benches"] {
        read(root, &root.join(directory), &mut tree);
    }
    tree
}

/// What of it is the crates' own code.
pub(super) fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &Source)> {
    tree.iter()
        .map(|(path, source)| (path.as_str(), source))
        .filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"))
}

pub(super) fn tokens_of(path: &str, source: &Source) -> TokenStream {
    source.tokens.get_or_init(|| source.parse().unwrap_or_else(|error| panic!("{path}: {error}"))).clone()
}

pub(super) fn syntax_of<'a>(path: &str, source: &'a Source) -> &'a syn::File {
    source.syntax.get_or_init(|| syn::parse2(tokens_of(path, source)).unwrap_or_else(|error| panic!("{path}: {error}")))
}
