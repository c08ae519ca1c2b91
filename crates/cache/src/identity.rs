//! Who a relation is, across rewrites, dumps and other servers.

use std::collections::HashMap;

use postgres::{Relation, RelationKind, RelationName};

/// A relation's identity: its name; of a TOAST table and its index the name of the table that owns it, because their own
/// names are made of an oid, which a dump and restore changes. The index of a TOAST table of PostgreSQL's own has its name: those
/// oids stay, and a snapshot does not keep such a table while it is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub name: RelationName,
    pub part: Part,
}

/// What of the named relation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Itself,
    Toast,
    ToastIndex,
}

/// The identities of these relations, in their order. All relations of a database are needed to find owners.
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

/// `owner` is `schema.name`; taken whole, as either part may have a dot in it.
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

    /// A map has PostgreSQL's own empty relations, and a snapshot has not.
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
