//! Which relations the user means.

use std::collections::HashSet;

use super::name_pattern::NamePattern;
use super::{Error, Map};
use crate::postgres::{PartitionedTable, Relation, RelationName};

/// Names that are offered when the one given is unknown.
const NEAR_NAMES: usize = 3;

/// Which relations are meant; without anything, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Names and patterns as psql takes them, schema-qualified or not ([`NamePattern`]). A table brings its indexes and its
    /// TOAST table, a partitioned table its partitions.
    pub relations: Vec<String>,
    /// The relations of the schemas of this name or pattern, with the TOAST tables of their tables.
    pub schema: Option<String>,
}

/// A relation is known by its database and its full name.
type Key<'a> = (&'a str, String);

impl Selection {
    /// The places of the relations meant, in order. `relations` are all that there are, also those of which nothing is
    /// resident; `partitioned` are the partitioned tables, which have none of their own.
    ///
    /// # Errors
    /// When a name or a schema was given and there is no such relation: of several names, the first that is none.
    pub fn find<'a>(
        &self,
        relations: impl Iterator<Item = &'a Relation>,
        partitioned: &'a [PartitionedTable],
    ) -> Result<Vec<usize>, Error> {
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
        // Of a schema alone only its own partitions are meant.
        let mut meant: HashSet<Key<'_>> = match patterns.as_slice() {
            [] => relations.iter().map(|one| &one.name).filter(is_in_schema).map(key_of).collect(),
            _ => candidates().filter(|name| patterns.iter().any(|one| one.matches(name))).map(key_of).collect(),
        };
        add_owned(&mut meant, &relations, partitioned);
        Ok((0..relations.len()).filter(|place| meant.contains(&key_of(&relations[*place].name))).collect())
    }
}

impl Map {
    /// The places of the relations that are meant and have blocks.
    ///
    /// # Errors
    /// Those of [`Selection::find`].
    pub fn select(&self, selection: &Selection) -> Result<Vec<usize>, Error> {
        let mut places = selection.find(self.every_relation(), &self.partitioned)?;
        places.retain(|place| *place < self.relations.len());
        Ok(places)
    }
}

/// Adds what belongs to those meant, and what belongs to that: a partition of a partition has a TOAST table with an index.
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
    let names = own.chain(partitioned.iter().map(|one| &one.name)).flat_map(|one| {
        let full = one.to_string();
        let likeness = likeness(&written, &one.name).max(likeness(&written, &full));
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
