//! Which relations the user means.

use std::collections::HashSet;

use super::Error;
use crate::postgres::{Relation, RelationName};

/// Names that are offered when the one given is unknown.
const NEAR_NAMES: usize = 3;

/// Which relations are meant; without anything, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Names, schema-qualified or not; `*` stands for any characters. A table brings its indexes and its TOAST table.
    pub relations: Vec<String>,
    /// The relations of this schema, with the TOAST tables of its tables.
    pub schema: Option<String>,
}

impl Selection {
    /// The places of the relations meant, in order. `relations` are all that there are, also those of which nothing is
    /// resident.
    ///
    /// # Errors
    /// When a name or a schema was given and there is no such relation: of several names, the first that is none.
    pub fn find<'a>(&self, relations: impl Iterator<Item = &'a Relation>) -> Result<Vec<usize>, Error> {
        let relations: Vec<&Relation> = relations.collect();
        if *self == Selection::default() {
            return Ok((0..relations.len()).collect());
        }
        let candidates: Vec<&Relation> = relations.iter().copied().filter(|one| self.is_in_schema(one)).collect();
        let is_absent = |name: &&String| !candidates.iter().any(|one| matches_name(name, &one.name));
        if let Some(name) = self.relations.iter().find(is_absent) {
            return Err(unknown_relation(name, &relations));
        }
        if candidates.is_empty() {
            return Err(unknown_schema(self.schema.as_deref().unwrap_or_default(), &relations));
        }
        let is_named = |one: &&&Relation| {
            self.relations.is_empty() || self.relations.iter().any(|name| matches_name(name, &one.name))
        };
        let mut owners: HashSet<(&str, String)> = candidates.iter().filter(is_named).map(|one| key_of(one)).collect();
        // A table's TOAST table has an index too.
        for _ in 0..2 {
            let owned = relations.iter().filter(|one| is_owned(one, &owners)).map(|one| key_of(one));
            let owned: Vec<(&str, String)> = owned.collect();
            owners.extend(owned);
        }
        Ok((0..relations.len()).filter(|place| owners.contains(&key_of(relations[*place]))).collect())
    }
}

impl Selection {
    fn is_in_schema(&self, one: &Relation) -> bool {
        self.schema.as_ref().is_none_or(|schema| one.name.schema == *schema)
    }
}

fn key_of(relation: &Relation) -> (&str, String) {
    (&relation.name.database, relation.name.to_string())
}

fn is_owned(relation: &Relation, owners: &HashSet<(&str, String)>) -> bool {
    let database = relation.name.database.as_str();
    relation.parent.as_ref().is_some_and(|parent| owners.contains(&(database, parent.clone())))
}

/// Is `wanted` the relation's name, alone or with its schema, or a pattern of it?
fn matches_name(wanted: &str, name: &RelationName) -> bool {
    matches_pattern(wanted, &name.name) || matches_pattern(wanted, &name.to_string())
}

/// `*` stands for any characters, also for none.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    let mut text = text;
    for part in parts {
        let Some(found) = text.find(part) else { return false };
        text = &text[found + part.len()..];
    }
    text.ends_with(tail)
}

fn unknown_relation(name: &str, relations: &[&Relation]) -> Error {
    let names = relations.iter().filter(|one| !one.is_system).flat_map(|one| {
        let full = one.name.to_string();
        let likeness = likeness(name, &one.name.name).max(likeness(name, &full));
        (likeness > 0.8).then_some((likeness, full))
    });
    Error::UnknownRelation { name: name.to_owned(), near: nearest(names.collect()) }
}

fn unknown_schema(name: &str, relations: &[&Relation]) -> Error {
    let schemas: HashSet<&str> = relations.iter().map(|one| one.name.schema.as_str()).collect();
    let near = schemas.into_iter().map(|schema| (likeness(name, schema), schema.to_owned()));
    let near = nearest(near.filter(|(likeness, _)| *likeness > 0.8).collect());
    Error::UnknownSchema { name: name.to_owned(), near }
}

/// 1 for the same text but for upper and lower case, 0 for nothing in common.
fn likeness(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(&one.to_lowercase(), &other.to_lowercase())
}

fn nearest(mut names: Vec<(f64, String)>) -> Vec<String> {
    names.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    names.dedup_by(|one, other| one.1 == other.1);
    names.into_iter().take(NEAR_NAMES).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::ForkMap;
    use crate::cache::fixtures::relation;
    use crate::units::Fork;

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
        ]
    }

    fn find(relation: Option<&str>, schema: Option<&str>) -> Result<Vec<usize>, Error> {
        find_all(relation.as_slice(), schema)
    }

    fn find_all(names: &[&str], schema: Option<&str>) -> Result<Vec<usize>, Error> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Selection { relations: names, schema: schema.map(str::to_owned) }.find(relations().iter())
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
        assert_eq!(find(None, Some("archive")).unwrap(), [4, 5]);
        assert_eq!(find(None, Some("public")).unwrap(), [0, 1, 2, 3]);
        assert_eq!(find(None, None).unwrap().len(), 6);
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert_eq!(find(Some("p*s"), None).unwrap(), [0, 1, 2, 3, 5]);
        assert_eq!(find(Some("archive.*"), None).unwrap(), [4, 5]);
        assert!(matches_pattern("a*b*c", "a-b-b-c") && matches_pattern("*", "") && matches_pattern("ab*", "ab"));
        assert!(!matches_pattern("a*b*c", "a-c") && !matches_pattern("ab*b", "ab") && !matches_pattern("b", "ab"));
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
