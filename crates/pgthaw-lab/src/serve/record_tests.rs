//! Generates the page's TypeScript types.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};

use ts_rs::{Config, TS, TypeVisitor};

use super::live::LiveTrial;
use crate::report::PageData;
use crate::results::StudyLine;
use crate::verdict::{ByMetric, SweepComparison};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/generated/record.ts");

const HEAD: &str = "\
// What the page is sent, by the types of src/. Not to be edited: PGTHAW_WRITE_DOCS=1 cargo nextest run record_tests writes it.
";

/// By key; the page reads the keys from the metrics' facts.
impl<T: TS> TS for ByMetric<T> {
    type WithoutGenerics = ByMetric<ts_rs::Dummy>;
    type OptionInnerType = Self;

    fn name(config: &Config) -> String {
        Self::inline(config)
    }

    fn inline(config: &Config) -> String {
        format!("{{ [figure in string]: {} | null }}", T::name(config))
    }

    fn inline_flattened(config: &Config) -> String {
        // Parenthesised, because ts-rs would merge its braces with the surrounding ones.
        format!("({})", Self::inline(config))
    }

    fn visit_dependencies(visitor: &mut impl TypeVisitor)
    where
        Self: 'static,
    {
        visitor.visit::<Option<T>>();
        T::visit_dependencies(visitor);
    }

    fn visit_generics(visitor: &mut impl TypeVisitor)
    where
        Self: 'static,
    {
        visitor.visit::<T>();
    }
}

struct Declarations {
    config: Config,
    seen: HashSet<TypeId>,
    texts: BTreeMap<String, String>,
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // Types without an output path are built into TypeScript.
        if T::output_path().is_none() || !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        let name = T::ident(&self.config);
        // docs/schemas/ describes the fields.
        let declaration = T::decl(&self.config);
        let lines: Vec<&str> =
            declaration.lines().filter(|line| !line.starts_with("/*") && !line.starts_with(" *")).collect();
        let text = format!("export {}", lines.join("\n"));
        assert!(self.texts.insert(name.clone(), text).is_none(), "two types are called {name}");
        T::visit_dependencies(self);
    }
}

fn render_declarations() -> String {
    let config = Config::new().with_large_int("number");
    let mut all = Declarations { config, seen: HashSet::new(), texts: BTreeMap::new() };
    all.visit::<PageData>();
    all.visit::<StudyLine>();
    all.visit::<SweepComparison>();
    all.visit::<LiveTrial>();
    let texts: Vec<String> = all.texts.into_values().collect();
    format!("{HEAD}\n{}\n", texts.join("\n\n"))
}

#[test]
fn the_page_knows_the_types_that_it_is_sent() {
    let expected = render_declarations();
    if std::env::var_os("PGTHAW_WRITE_DOCS").is_some() {
        std::fs::write(FILE, expected).unwrap();
    } else {
        let written = std::fs::read_to_string(FILE).unwrap();
        assert!(written == expected, "PGTHAW_WRITE_DOCS=1 writes it");
    }
}
