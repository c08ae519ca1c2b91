use std::collections::{HashMap, HashSet};

use regex::Regex;

use super::{Error, Map, Result};
use postgres::{PartitionedTable, Relation, RelationKind, RelationName};

const NEAR_NAMES: usize = 3;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Name patterns as in psql (`NamePattern`). Also selects indexes, TOAST and partitions of the matching relations.
    pub relations: Vec<String>,
    /// Pattern of schema names. Also selects TOAST tables of these schemas' tables.
    pub schema: Option<String>,
}

type Key<'a> = (&'a str, String);

impl Selection {
    /// Returns the positions of the selected relations in `relations`, which includes those without blocks.
    /// `partitioned` tables have no position.
    ///
    /// # Errors
    /// If a pattern matches nothing. The error names the first such pattern.
    pub fn find<'a>(
        &self,
        relations: impl Iterator<Item = &'a Relation>,
        partitioned: &'a [PartitionedTable],
    ) -> Result<Vec<usize>> {
        let relations: Vec<&Relation> = relations.collect();
        if *self == Selection::default() {
            return Ok((0..relations.len()).collect());
        }
        let patterns: Vec<NamePattern> = self.relations.iter().map(|name| NamePattern::new(name)).collect();
        let schema = self.schema.as_deref().map(NamePattern::new);
        let is_in_schema = |name: &&RelationName| schema.as_ref().is_none_or(|schema| schema.matches_schema(name));
        let tables = || partitioned.iter().map(|one| &one.name).filter(is_in_schema);
        let candidates = || relations.iter().map(|one| &one.name).filter(is_in_schema).chain(tables());
        let is_absent = |pattern: &NamePattern| !candidates().any(|name| pattern.matches(name));
        if let Some(place) = patterns.iter().position(is_absent) {
            return Err(unknown_relation(&self.relations[place], &relations, partitioned));
        }
        if candidates().next().is_none() {
            return Err(unknown_schema(self.schema.as_deref().unwrap_or_default(), &relations));
        }
        // With only a schema, partitions in other schemas are not selected.
        let mut meant: HashSet<Key<'_>> = match patterns.as_slice() {
            [] => relations.iter().map(|one| &one.name).filter(is_in_schema).map(key_of).collect(),
            _ => candidates().filter(|name| patterns.iter().any(|one| one.matches(name))).map(key_of).collect(),
        };
        add_owned(&mut meant, &relations, partitioned);
        Ok((0..relations.len()).filter(|place| meant.contains(&key_of(&relations[*place].name))).collect())
    }
}

impl Map {
    pub fn select(&self, selection: &Selection) -> Result<Vec<usize>> {
        let mut places = selection.find(self.every_relation(), &self.partitioned)?;
        places.retain(|place| *place < self.relations.len());
        Ok(places)
    }
}

/// Adds indexes, TOAST tables and partitions of the relations in `meant`. Repeats, because a partition may have a TOAST
/// table with an index.
fn add_owned<'a>(meant: &mut HashSet<Key<'a>>, relations: &[&'a Relation], partitioned: &'a [PartitionedTable]) {
    let of_relations = relations.iter().map(|one| (&one.name, &one.parent));
    let of_partitioned = partitioned.iter().map(|one| (&one.name, &one.parent));
    let owned: Vec<(Key<'a>, Key<'a>)> = of_relations
        .chain(of_partitioned)
        .filter_map(|(name, parent)| Some((key_of(name), (name.database.as_str(), parent.clone()?))))
        .collect();
    loop {
        let more = owned.iter().filter(|(one, owner)| meant.contains(owner) && !meant.contains(one));
        let more: Vec<Key<'a>> = more.map(|(one, _)| one.clone()).collect();
        if more.is_empty() {
            return;
        }
        meant.extend(more);
    }
}

fn key_of(name: &RelationName) -> Key<'_> {
    (&name.database, name.to_string())
}

fn unknown_relation(name: &str, relations: &[&Relation], partitioned: &[PartitionedTable]) -> Error {
    let written = name.replace('"', "");
    let own = relations.iter().filter(|one| !one.is_system).map(|one| &one.name);
    let names = own.chain(partitioned.iter().map(|one| &one.name)).map(|one| {
        let full = one.to_string();
        (likeness(&written, &one.name).max(likeness(&written, &full)), full)
    });
    Error::UnknownRelation { name: name.to_owned(), near: nearest(names) }
}

fn unknown_schema(name: &str, relations: &[&Relation]) -> Error {
    let schemas: HashSet<&str> = relations.iter().map(|one| one.name.schema.as_str()).collect();
    let near = schemas.into_iter().map(|schema| (likeness(name, schema), schema.to_owned()));
    Error::UnknownSchema { name: name.to_owned(), near: nearest(near) }
}

fn likeness(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(&one.to_lowercase(), &other.to_lowercase())
}

fn nearest(names: impl Iterator<Item = (f64, String)>) -> Vec<String> {
    let mut names: Vec<(f64, String)> = names.filter(|(likeness, _)| *likeness > 0.8).collect();
    names.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    names.dedup_by(|one, other| one.1 == other.1);
    names.into_iter().take(NEAR_NAMES).map(|(_, name)| name).collect()
}

/// Name pattern as in psql's `\d`: `orders`, `sales.*`, `shop.public.orders`, `"Odd Name"`. A relation's exact name
/// always matches.
#[derive(Clone, Debug)]
pub struct NamePattern {
    raw: String,
    /// Patterns of name, schema and database; empty if invalid.
    parts: Vec<Regex>,
}

impl NamePattern {
    pub fn new(text: &str) -> NamePattern {
        let parts = split(text).filter(|parts| !text.is_empty() && parts.len() <= 3).unwrap_or_default();
        let parts: Option<Vec<Regex>> = parts.iter().rev().map(|part| compile(part)).collect();
        NamePattern { raw: text.to_owned(), parts: parts.unwrap_or_default() }
    }

    /// Without a schema, matches in every schema.
    pub fn matches(&self, name: &RelationName) -> bool {
        // A shared catalog has no database: it belongs to all.
        let database = Some(&name.database).filter(|database| !database.is_empty());
        let names = [Some(&name.name), Some(&name.schema), database];
        let is_match = |(part, name): (&Regex, Option<&String>)| name.is_none_or(|name| part.is_match(name));
        let is_pattern_of = !self.parts.is_empty() && self.parts.iter().zip(names).all(is_match);
        is_pattern_of || self.raw == name.name || self.raw == name.to_string()
    }

    pub fn matches_schema(&self, name: &RelationName) -> bool {
        let is_pattern_of = match self.parts.as_slice() {
            [schema] => schema.is_match(&name.schema),
            [schema, database] => schema.is_match(&name.schema) && database.is_match(&name.database),
            _ => false,
        };
        is_pattern_of || self.raw == name.schema
    }
}

/// Splits at dots, as PostgreSQL's `patternToSQLRegex`. `None` for an unclosed quote.
fn split(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let part = parts.last_mut()?;
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => part.push('"'),
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => part.push_str(&regex::escape(character.encode_utf8(&mut [0; 4]))),
            '.' => parts.push(String::new()),
            '*' => part.push_str(".*"),
            '?' => part.push('.'),
            '$' => part.push_str("\\$"),
            // `[]` is probably part of an array type's name, not a character class.
            '[' if characters.peek() == Some(&']') => part.push_str("\\["),
            _ => part.push(character.to_ascii_lowercase()),
        }
    }
    (!is_quoted).then_some(parts)
}

fn compile(part: &str) -> Option<Regex> {
    let part = if part.is_empty() { ".*" } else { part };
    Regex::new(&format!("(?s)^(?:{part})$")).ok()
}

/// Identity of a relation across rewrites, dumps and servers. A TOAST table is identified by its owner, because its own
/// name contains an oid. The index of a system catalog's TOAST table is identified by its own name: the oid in the name
/// is fixed, and snapshots omit the TOAST table while empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub name: RelationName,
    pub part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Itself,
    Toast,
    ToastIndex,
}

/// `relations` must have all relations of a database, so that owners are found.
pub fn compute_identities<'a>(relations: impl Iterator<Item = &'a Relation> + Clone) -> Vec<Identity> {
    let toast = relations.clone().filter(|one| one.kind == RelationKind::Toast);
    let owners: HashMap<(&str, String), &str> = toast
        .filter_map(|one| Some(((one.name.database.as_str(), one.name.to_string()), one.parent.as_deref()?)))
        .collect();
    let identify = |one: &'a Relation| {
        let parent = one.parent.as_deref();
        let of_toast = parent.and_then(|parent| owners.get(&(one.name.database.as_str(), parent.to_owned())).copied());
        match (one.kind, parent, of_toast) {
            (RelationKind::Toast, Some(owner), _) => owned(one, owner, Part::Toast),
            (RelationKind::Index, _, Some(owner)) if !one.is_system => owned(one, owner, Part::ToastIndex),
            _ => Identity { name: one.name.clone(), part: Part::Itself },
        }
    };
    relations.map(identify).collect()
}

/// `owner` (schema and name) is not split, because both may contain dots.
fn owned(relation: &Relation, owner: &str, part: Part) -> Identity {
    let name = RelationName { database: relation.name.database.clone(), schema: String::new(), name: owner.to_owned() };
    Identity { name, part }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ForkMap;
    use crate::fixtures::relation;
    use host::units::Fork;

    fn relations() -> Vec<Relation> {
        let make = |number: u32, schema: &str, name: &str, parent: Option<&str>| {
            let mut one = relation(number, ForkMap::empty(Fork::Main, 1)).relation;
            (one.name.schema, one.name.name) = (schema.to_owned(), name.to_owned());
            one.parent = parent.map(str::to_owned);
            one
        };
        vec![
            make(1, "public", "orders", None),
            make(2, "public", "orders_pkey", Some("public.orders")),
            make(3, "pg_toast", "pg_toast_1", Some("public.orders")),
            make(4, "pg_toast", "pg_toast_1_index", Some("pg_toast.pg_toast_1")),
            make(5, "archive", "orders", None),
            make(6, "archive", "parts", None),
            make(7, "archive", "sales_1", Some("public.sales_old")),
            make(8, "public", "sales_2", Some("public.sales")),
            make(9, "public", "sales_2_pkey", Some("public.sales_2")),
        ]
    }

    fn partitioned() -> Vec<PartitionedTable> {
        let make = |name: &str, parent: Option<&str>| PartitionedTable {
            name: RelationName { database: "app".into(), schema: "public".into(), name: name.into() },
            parent: parent.map(str::to_owned),
        };
        vec![make("sales", None), make("sales_old", Some("public.sales"))]
    }

    fn find(relation: Option<&str>, schema: Option<&str>) -> Result<Vec<usize>, Error> {
        find_all(relation.as_slice(), schema)
    }

    fn find_all(names: &[&str], schema: Option<&str>) -> Result<Vec<usize>, Error> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let selection = Selection { relations: names, schema: schema.map(str::to_owned) };
        selection.find(relations().iter(), &partitioned())
    }

    #[test]
    fn several_names_are_all_shown_and_each_has_to_be_there() {
        assert_eq!(find_all(&["parts", "orders_pkey"], None).unwrap(), [1, 5]);
        let Err(Error::UnknownRelation { name, .. }) = find_all(&["parts", "xyzzy"], None) else { panic!() };
        assert_eq!(name, "xyzzy");
        assert!(find_all(&["parts", "orders_pkey"], Some("archive")).is_err());
    }

    #[test]
    fn a_table_brings_its_indexes_and_toast() {
        assert_eq!(find(Some("public.orders"), None).unwrap(), [0, 1, 2, 3]);
        assert_eq!(find(Some("orders"), None).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(find(Some("orders"), Some("archive")).unwrap(), [4]);
        assert_eq!(find(Some("orders_pkey"), None).unwrap(), [1]);
        assert_eq!(find(None, Some("archive")).unwrap(), [4, 5, 6]);
        assert_eq!(find(None, Some("public")).unwrap(), [0, 1, 2, 3, 7, 8]);
        assert_eq!(find(None, Some("arch*")).unwrap(), [4, 5, 6]);
        assert_eq!(find(None, None).unwrap().len(), 9);
    }

    #[test]
    fn a_partitioned_table_brings_its_partitions() {
        assert_eq!(find(Some("sales"), None).unwrap(), [6, 7, 8]);
        assert_eq!(find(Some("public.sales_old"), None).unwrap(), [6]);
        assert_eq!(find(Some("sales_2"), None).unwrap(), [7, 8]);
    }

    #[test]
    fn patterns_are_psqls() {
        assert_eq!(find(Some("p*s"), None).unwrap(), [5]);
        assert_eq!(find(Some("archive.*"), None).unwrap(), [4, 5, 6]);
        assert_eq!(find(Some("pub*.ORDERS"), None).unwrap(), [0, 1, 2, 3]);
        assert!(find(Some("\"ORDERS\""), None).is_err());
    }

    #[test]
    fn what_is_unknown_gets_near_names() {
        let Err(Error::UnknownRelation { near, .. }) = find(Some("Order"), None) else { panic!() };
        assert_eq!(near[..2], ["archive.orders", "public.orders"]);
        let Err(Error::UnknownRelation { near, .. }) = find(Some("xyzzy"), None) else { panic!() };
        assert_eq!(near, Vec::<String>::new());
        let Err(Error::UnknownSchema { near, .. }) = find(None, Some("archiv")) else { panic!() };
        assert_eq!(near, ["archive"]);
    }
}

#[cfg(test)]
mod name_pattern_tests {
    use super::*;

    fn name(schema: &str, name: &str) -> RelationName {
        RelationName { database: "shop".into(), schema: schema.into(), name: name.into() }
    }

    #[track_caller]
    fn check(pattern: &str, relation: &RelationName, expected: bool) {
        assert_eq!(NamePattern::new(pattern).matches(relation), expected, "{pattern} on {relation:?}");
    }

    #[test]
    fn names_are_read_as_sql_reads_them() {
        let orders = name("public", "orders");
        for pattern in ["orders", "ORDERS", "public.orders", "Public.Orders", "shop.public.orders", "\"orders\""] {
            check(pattern, &orders, true);
        }
        for pattern in ["\"Orders\"", "order", "other.public.orders", "a.shop.public.orders", "", "\"orders", "orders."]
        {
            check(pattern, &orders, false);
        }
        check(
            "shop.pg_catalog.pg_database",
            &RelationName { database: String::new(), ..name("pg_catalog", "pg_database") },
            true,
        );
    }

    #[test]
    fn quotes_keep_what_is_in_them() {
        let odd = name("sc.hema", "ta.ble");
        check("\"sc.hema\".\"ta.ble\"", &odd, true);
        check("\"ta.ble\"", &odd, true);
        check("sc.hema.ta.ble", &odd, true);
        check("\"sc\".\"hema.ta.ble\"", &odd, false);
        check("\"Odd Name\"", &name("public", "Odd Name"), true);
        check("Odd Name", &name("public", "Odd Name"), true);
        check("odd name", &name("public", "Odd Name"), false);
        check("\"a\"\"b\"", &name("public", "a\"b"), true);
        check("FOO\"BAR\"", &name("public", "fooBAR"), true);
        check("\"a*\"", &name("public", "ab"), false);
        check("\"a*\"", &name("public", "a*"), true);
    }

    #[test]
    fn patterns_are_those_of_psql() {
        let sales = name("sales", "orders_2024");
        for pattern in
            ["sal*.*", "*.*", "*", "orders_202?", "orders*", "sales.", "*_*", "orders_202[45]", "(orders|x)_2024"]
        {
            check(pattern, &sales, true);
        }
        for pattern in ["sal*", "orders", "sale.*", "orders_?", "orders_202[67]", "o*.o*", "orders_(2024"] {
            check(pattern, &sales, false);
        }
        check("a$b", &name("public", "a$b"), true);
        check("a[]", &name("public", "a[]"), true);
    }

    #[test]
    fn a_schema_has_patterns_too() {
        let of = |pattern: &str| NamePattern::new(pattern).matches_schema(&name("Sales", "orders"));
        assert!(of("Sales") && of("\"Sales\"") && of("?ales") && of("shop.\"Sales\"") && of("*"));
        assert!(!of("sales") && !of("other.\"Sales\"") && !of("ales"));
    }
}

#[cfg(test)]
mod identity_tests {
    use super::*;
    use crate::ForkMap;
    use crate::fixtures::relation;
    use host::units::Fork;

    fn relations(oid: u32) -> Vec<Relation> {
        let make = |kind, schema: &str, name: &str, parent: Option<&str>| {
            let mut one = relation(oid, ForkMap::empty(Fork::Main, 1)).relation;
            (one.kind, one.name.schema, one.name.name) = (kind, schema.to_owned(), name.to_owned());
            one.parent = parent.map(str::to_owned);
            one
        };
        let toast = format!("pg_toast_{oid}");
        vec![
            make(RelationKind::Index, "pg_toast", &format!("{toast}_index"), Some(&format!("pg_toast.{toast}"))),
            make(RelationKind::Toast, "pg_toast", &toast, Some("public.t")),
            make(RelationKind::Table, "public", "t", None),
            make(RelationKind::Index, "public", "t_pkey", Some("public.t")),
        ]
    }

    /// Maps include PostgreSQL's own empty relations, snapshots do not.
    #[test]
    fn the_index_of_an_empty_toast_table_of_postgresql_itself_is_known_without_it() {
        let mut live = relations(2604);
        live.iter_mut().for_each(|one| one.is_system = true);
        let kept: Vec<Relation> = live.iter().filter(|one| one.kind != RelationKind::Toast).cloned().collect();
        assert_eq!(compute_identities(kept.iter())[0], compute_identities(live.iter())[0]);
    }

    #[test]
    fn toast_is_known_by_its_owner() {
        let before = compute_identities(relations(16_384).iter());
        let after = compute_identities(relations(24_576).iter());
        assert_eq!(before, after);
        assert_eq!(before[0].part, Part::ToastIndex);
        assert_eq!(before[3].name.name, "t_pkey");
        let distinct: std::collections::HashSet<&Identity> = before.iter().collect();
        assert_eq!(distinct.len(), 4);
    }
}
