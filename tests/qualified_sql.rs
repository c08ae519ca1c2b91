//! Every statement that pgthaw runs on a PostgreSQL server is parsed here: a function, relation or type without its schema is
//! looked up in the session's search_path, where whoever owns the database could have put a namesake.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, ObjectName, Query, Statement, TableFactor, Visit as _, Visitor,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use syn::visit::Visit as _;

/// What PostgreSQL's grammar knows by itself: no schema is searched for it.
const GRAMMAR: [&str; 8] =
    ["array", "coalesce", "greatest", "least", "nullif", "current_user", "session_user", "current_timestamp"];

/// What stands for the schema of an extension.
const EXTENSION_SCHEMA: &str = "extension_schema";

/// The statements that run before the path is known to be harmless: not even an operator may be in them.
const FIRST: [&str; 3] = [
    "crates/postgres/src/sql/session_path_13.sql",
    "crates/pgthaw-lab/src/results/sql/session_path_13.sql",
    "crates/postgres/src/sql/use_path_13.sql",
];

/// Folders whose statements run on another path, each with its reason.
const ELSEWHERE: [(&str, &str); 1] = [(
    "crates/pgthaw-lab/src/results/",
    "the same text runs on SQLite; on a server the path is pgthaw's schema, of which nobody else has anything",
)];

/// Words that a statement begins with which names relations, functions or types.
const BEGINNINGS: [&str; 9] =
    ["SELECT ", "WITH ", "INSERT ", "UPDATE ", "DELETE ", "TRUNCATE ", "CREATE TABLE ", "DROP TABLE ", "DO $$ "];

#[test]
fn every_name_has_its_schema() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = BTreeMap::new();
    read(root, &root.join("crates"), &mut files);
    let (mut violations, mut statements) = (Vec::new(), 0);
    let constants = files.iter().flat_map(|(path, text)| strings_of(path, text).constants).collect();
    for (path, text) in &files {
        for statement in statements_of(path, text, &constants) {
            statements += 1;
            violations.extend(check(path, &statement));
        }
    }
    assert!(statements > 50, "only {statements} statements were found");
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn what_was_planted_is_found() {
    let planted = [
        ("SELECT count(*) FROM pg_catalog.pg_class", "count"),
        ("SELECT pg_catalog.count(*) FROM pg_class", "pg_class"),
        ("SELECT 1 FROM unnest($1::bigint[])", "unnest"),
        ("SELECT 1 FROM generate_series(1, 2)", "generate_series"),
        ("SELECT a::text FROM {schema}.pg_buffercache", "text"),
        ("SELECT a::oid[] FROM pg_catalog.pg_class", "oid"),
        ("SELECT a::bool", "bool"),
        ("SELECT CASE WHEN true THEN set_config('a', 'b', false) END", "set_config"),
        ("WITH x AS (SELECT now()) SELECT * FROM x", "now"),
        ("SELECT pg_catalog.max(x) FROM (SELECT to_regclass('a')) AS t (x) ORDER BY lower(x)", "lower"),
        ("DO $$ BEGIN IF to_regrole('a') IS NULL THEN CREATE ROLE a; END IF; END $$", "to_regrole"),
        ("TRUNCATE pgbench_history", "pgbench_history"),
        ("DROP TABLE IF EXISTS t", "t"),
        ("SELECT (1", "cannot be parsed"),
    ];
    for (statement, name) in planted {
        let found = check("src/x.sql", statement);
        assert!(found.iter().any(|one| one.contains(name)), "{statement}: {found:?}");
    }
    let first = FIRST[0];
    for statement in
        ["SELECT 1 + 1", "SELECT CASE 1 WHEN 1 THEN 2 END", "SELECT 1 IN (1)", "SELECT a IS DISTINCT FROM 1"]
    {
        assert!(!check(first, statement).is_empty(), "{statement}");
    }
}

#[test]
fn what_is_safe_is_left_alone() {
    for statement in [
        "SELECT pg_catalog.count(*)::bigint, coalesce(x, 1)::pg_catalog.text FROM {schema}.pg_buffercache WHERE a = b",
        "WITH x AS (SELECT 1 AS i) SELECT i::int FROM x CROSS JOIN pg_catalog.unnest($1::pg_catalog.oid[]) AS y (z)",
        "SELECT extract(epoch FROM pg_catalog.now() - interval '1 second')::pg_catalog.float8, current_user",
        "DO $$ BEGIN IF pg_catalog.to_regrole('a') IS NULL THEN CREATE ROLE a; END IF; END $$",
    ] {
        assert_eq!(check("src/x.sql", statement), Vec::<String>::new());
    }
    let rust = "const X: &str = \"FROM pg_class\"; fn f() { q(\"SELECT a {X} {Y}\"); format!(\"SELECT b\"); }\n\
                #[cfg(test)] mod tests { fn g() { q(\"SELECT c\"); } }";
    let constants = BTreeMap::from([("Y".to_owned(), "WHERE c".to_owned())]);
    assert_eq!(statements_of("src/x.rs", rust, &constants), ["SELECT a FROM pg_class WHERE c", "SELECT b"]);
}

/// The texts of Rust and SQL files below `directory`, by their paths from the package's root.
fn read(root: &Path, directory: &Path, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let is_elsewhere = ELSEWHERE.iter().any(|(folder, _)| name.starts_with(folder)) && !name.contains("/sql/");
        if path.is_dir() {
            read(root, &path, files);
        } else if (name.ends_with(".rs") || name.ends_with(".sql")) && !is_elsewhere {
            files.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The statements in a file: a file of SQL is one text; of a Rust file the strings that look like some, tests aside.
/// `constants` are those of all files, which a format string may have within braces.
fn statements_of(path: &str, text: &str, constants: &BTreeMap<String, String>) -> Vec<String> {
    if path.ends_with(".sql") {
        return vec![text.to_owned()];
    }
    let strings = strings_of(path, text);
    let with_constants = |text: &String| {
        let constants = strings.constants.iter().chain(constants);
        constants.fold(text.clone(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    };
    let texts = strings.texts.iter().map(with_constants);
    texts.filter(|text| BEGINNINGS.iter().any(|begin| text.starts_with(begin))).collect()
}

fn strings_of(path: &str, text: &str) -> Strings {
    let mut strings = Strings::default();
    if path.ends_with(".rs") {
        strings.visit_file(&syn::parse_file(text).unwrap());
    }
    strings
}

#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    /// By their names.
    constants: BTreeMap<String, String>,
}

impl Strings {
    fn collect(&mut self, tokens: proc_macro2::TokenStream) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Group(group) => self.collect(group.stream()),
                proc_macro2::TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.texts.push(text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'a> syn::visit::Visit<'a> for Strings {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|of| of.is_ident("test"))
        };
        if !module.attrs.iter().any(is_test) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &*item.expr {
            self.constants.insert(item.ident.to_string(), text.value());
        }
        syn::visit::visit_item_const(self, item);
    }

    fn visit_lit_str(&mut self, text: &'a syn::LitStr) {
        self.texts.push(text.value());
    }

    fn visit_macro(&mut self, item: &'a syn::Macro) {
        self.collect(item.tokens.clone());
    }

    // Documentation is no statement.
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}
}

/// What is wrong with a statement, or several, of a file.
fn check(path: &str, text: &str) -> Vec<String> {
    let text = without_block(&text.replace("{schema}", EXTENSION_SCHEMA));
    // What is put in at run time is a name or a number.
    let placeholder = regex::Regex::new(r"\{[a-z_.]*\}").unwrap();
    let text = placeholder.replace_all(&text, "placed");
    let parsed = match Parser::parse_sql(&PostgreSqlDialect {}, &text) {
        Ok(parsed) => parsed,
        Err(error) => return vec![format!("{path}: cannot be parsed: {error}: {text}")],
    };
    let mut names = Names { is_first: FIRST.contains(&path), ..Names::default() };
    let _ = parsed.visit(&mut names);
    names.violations.into_iter().map(|what| format!("{path}: {what}")).collect()
}

/// A block that asks one question and does one thing, as the two.
fn without_block(text: &str) -> String {
    let block = regex::Regex::new(r"(?s)^DO \$\$ BEGIN IF (.*) THEN (.*); END IF; END \$\$$").unwrap();
    // A role is in no schema.
    let done = |found: &regex::Captures<'_>| match found[2].starts_with("CREATE ROLE ") {
        true => format!("SELECT {}", &found[1]),
        false => format!("SELECT {}; {}", &found[1], &found[2]),
    };
    block.replace(text, done).into_owned()
}

#[derive(Default)]
struct Names {
    is_first: bool,
    /// Names that WITH gives.
    given: Vec<String>,
    violations: Vec<String>,
}

impl Names {
    fn require_schema(&mut self, kind: &str, name: &ObjectName) {
        let is_given = |name: &ObjectName| self.given.contains(&name.to_string());
        if name.0.len() < 2 && !(kind == "relation" && is_given(name)) {
            self.violations.push(format!("{kind} {name} has no schema"));
        }
    }

    fn check_type(&mut self, data_type: &DataType) {
        match data_type {
            // Words of the grammar, which stand for pg_catalog's.
            DataType::BigInt(None)
            | DataType::Int(None)
            | DataType::Integer(None)
            | DataType::SmallInt(None)
            | DataType::Boolean
            | DataType::DoublePrecision
            | DataType::Bit(_) => {}
            DataType::Custom(name, _) => self.require_schema("type", name),
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => self.check_type(element),
            other => self.violations.push(format!("type {} has no schema", other.to_string().to_lowercase())),
        }
    }
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let given = query.with.iter().flat_map(|with| &with.cte_tables);
        self.given.extend(given.map(|one| one.alias.name.to_string()));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.require_schema("relation", relation);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Function { name, .. } => self.require_schema("function", name),
            TableFactor::Table { .. } | TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => {}
            other => self.violations.push(format!("{} has no schema", other.to_string().to_lowercase())),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Function(function) => {
                let name = function.name.to_string().to_lowercase();
                if !GRAMMAR.contains(&name.as_str()) {
                    self.require_schema("function", &function.name);
                }
            }
            Expr::Cast { data_type, .. } => self.check_type(data_type),
            Expr::TypedString(text) => self.check_type(&text.data_type),
            _ => {}
        }
        let is_harmless =
            matches!(expression, Expr::Function(_) | Expr::Cast { .. } | Expr::Value(_) | Expr::Identifier(_));
        if self.is_first && !is_harmless {
            self.violations.push(format!("{expression} looks for an operator"));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        if let Statement::Drop { names, .. } = statement {
            names.iter().for_each(|name| self.require_schema("relation", name));
        }
        ControlFlow::Continue(())
    }
}
