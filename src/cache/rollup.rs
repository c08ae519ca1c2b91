//! Relations summed up to what they belong to: indexes and TOAST to their table, partitions to their partitioned table.

use std::collections::HashMap;

use super::{ForkMap, Map, RelationMap, Residency};
use crate::postgres::{PartitionedTable, Relation, RelationKind, RelationName};
use crate::units::Fork;

/// Partitions of partitions of …: nobody has more levels, and a snapshot's may go round in a circle.
const LEVELS: usize = 64;

/// What a row stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RolledUp {
    /// A table with its indexes and TOAST; of a partitioned table all of it.
    #[default]
    ToTable,
    /// A table or a partition with its indexes and TOAST.
    ToPartition,
    /// A relation.
    Not,
}

impl RolledUp {
    /// The word of `--by`.
    pub fn name(self) -> &'static str {
        match self {
            RolledUp::ToTable => "table",
            RolledUp::ToPartition => "partition",
            RolledUp::Not => "relation",
        }
    }

    /// One level more in detail.
    pub fn unfolded(self) -> RolledUp {
        match self {
            RolledUp::ToTable => RolledUp::ToPartition,
            _ => RolledUp::Not,
        }
    }
}

/// Relations that are summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Of the table that they belong to.
    pub name: RelationName,
    /// Of that table; a partitioned one is a table too.
    pub kind: RelationKind,
    /// Is it a partitioned table?
    pub is_partitioned: bool,
    pub is_system: bool,
    /// Places in the map, in its order.
    pub members: Vec<usize>,
}

/// Who a group is named after.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Head {
    /// A place in the map.
    Relation(usize),
    /// A place among the partitioned tables.
    Partitioned(usize),
}

/// The relations at `places` summed up to what they belong to, in the map's order. An index is summed up to its table only
/// where that is meant too, and a partition only where all partitions are: a sum stands for the whole.
pub fn compute_groups(map: &Map, places: &[usize], rolled_up: RolledUp) -> Vec<Group> {
    let owners = Owners::new(map, places);
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<Head, usize> = HashMap::new();
    for place in places.iter().copied().filter(|place| *place < map.relations.len()) {
        let head = owners.find_head(place, rolled_up);
        let group = *known.entry(head).or_insert_with(|| {
            groups.push(named_after(map, head));
            groups.len() - 1
        });
        groups[group].members.push(place);
    }
    groups
}

fn named_after(map: &Map, head: Head) -> Group {
    let members = Vec::new();
    match head {
        Head::Relation(place) => {
            let Relation { name, kind, is_system, .. } = &map.relations[place].relation;
            Group { name: name.clone(), kind: *kind, is_partitioned: false, is_system: *is_system, members }
        }
        Head::Partitioned(place) => Group {
            name: map.partitioned[place].name.clone(),
            kind: RelationKind::Table,
            is_partitioned: true,
            is_system: false,
            members,
        },
    }
}

impl Group {
    /// The relations.
    pub fn relations<'a>(&'a self, map: &'a Map) -> impl Iterator<Item = &'a RelationMap> {
        self.members.iter().map(|place| &map.relations[*place])
    }

    /// All of them in numbers.
    pub fn residency(&self, map: &Map) -> Residency {
        self.relations(map).map(RelationMap::residency).sum()
    }

    /// The tables, of a partitioned one its partitions: what is neither an index nor TOAST of another.
    pub fn tables<'a>(&'a self, map: &'a Map) -> impl Iterator<Item = &'a RelationMap> {
        let is_summed = self.members.len() > 1;
        self.relations(map).filter(move |one| !is_summed || !is_part(&one.relation))
    }

    /// The forks that its bar shows: the main forks of its tables, one after the other.
    pub fn main_forks<'a>(&'a self, map: &'a Map) -> Vec<&'a ForkMap> {
        self.tables(map).flat_map(|one| &one.forks).filter(|fork| fork.fork == Fork::Main).collect()
    }
}

fn is_part(relation: &Relation) -> bool {
    matches!(relation.kind, RelationKind::Index | RelationKind::Toast)
}

/// What belongs to what.
struct Owners<'a> {
    map: &'a Map,
    /// The relations that are meant, by database and full name.
    meant: HashMap<(&'a str, String), usize>,
    partitioned: HashMap<(&'a str, String), usize>,
    /// Of each partitioned table: are all partitions meant?
    is_whole: Vec<bool>,
}

impl<'a> Owners<'a> {
    fn new(map: &'a Map, places: &[usize]) -> Owners<'a> {
        let key = |name: &'a RelationName| (name.database.as_str(), name.to_string());
        let meant = places.iter().filter_map(|place| Some((key(&map.relations.get(*place)?.relation.name), *place)));
        let partitioned = map.partitioned.iter().enumerate().map(|(place, one)| (key(&one.name), place));
        let is_whole = vec![true; map.partitioned.len()];
        let mut owners = Owners { map, meant: meant.collect(), partitioned: partitioned.collect(), is_whole };
        for one in map.relations.iter().filter(|one| one.relation.kind == RelationKind::Table) {
            if one.relation.parent.is_some() && !owners.meant.contains_key(&key(&one.relation.name)) {
                let incomplete: Vec<usize> = owners.ancestors(&one.relation).collect();
                incomplete.into_iter().for_each(|place| owners.is_whole[place] = false);
            }
        }
        owners
    }

    fn find_head(&self, place: usize, rolled_up: RolledUp) -> Head {
        if rolled_up == RolledUp::Not {
            return Head::Relation(place);
        }
        let table = self.find_table(place);
        let whole = |ancestor: &usize| self.is_whole[*ancestor];
        let relation = &self.map.relations[table].relation;
        let topmost = match (rolled_up, relation.kind) {
            (RolledUp::ToTable, RelationKind::Table) => self.ancestors(relation).take_while(whole).last(),
            _ => None,
        };
        topmost.map_or(Head::Relation(table), Head::Partitioned)
    }

    /// An index's table, a TOAST table's owner, the owner of the TOAST table whose index it is; otherwise itself.
    fn find_table(&self, place: usize) -> usize {
        let owner = |place: &usize| {
            let relation = &self.map.relations[*place].relation;
            let parent = relation.parent.as_ref().filter(|_| is_part(relation))?;
            self.meant.get(&(relation.name.database.as_str(), parent.clone())).copied()
        };
        std::iter::successors(Some(place), owner).take(3).last().unwrap_or(place)
    }

    /// The partitioned tables that a table is a partition of, the nearest first.
    fn ancestors(&self, relation: &'a Relation) -> impl Iterator<Item = usize> + use<'a, '_> {
        let database = relation.name.database.as_str();
        let find = move |parent: &Option<String>| {
            parent.as_ref().and_then(|parent| self.partitioned.get(&(database, parent.clone())).copied())
        };
        let above = move |place: &usize| {
            let PartitionedTable { parent, .. } = &self.map.partitioned[*place];
            find(parent)
        };
        std::iter::successors(find(&relation.parent), above).take(LEVELS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::fixtures::{map_of, relation};

    /// orders → orders_old → old_1 (with an index and TOAST with its index), old_2; orders → new; a lone table.
    fn map() -> Map {
        let make = |number: u32, kind, schema: &str, name: &str, parent: Option<&str>| {
            let mut one = relation(number, ForkMap::empty(Fork::Main, 10_u64.pow(number - 1)));
            (one.relation.kind, one.relation.parent) = (kind, parent.map(str::to_owned));
            (one.relation.name.schema, one.relation.name.name) = (schema.to_owned(), name.to_owned());
            one
        };
        use RelationKind::{Index, Table, Toast};
        let mut map = map_of(vec![
            make(1, Table, "public", "old_1", Some("public.orders_old")),
            make(2, Index, "public", "old_1_pkey", Some("public.old_1")),
            make(3, Toast, "pg_toast", "pg_toast_1", Some("public.old_1")),
            make(4, Index, "pg_toast", "pg_toast_1_index", Some("pg_toast.pg_toast_1")),
            make(5, Table, "public", "old_2", Some("public.orders_old")),
            make(6, Table, "public", "new", Some("public.orders")),
            make(7, Table, "public", "lone", None),
        ]);
        let partitioned = |name: &str, parent: Option<&str>| PartitionedTable {
            name: RelationName { database: "app".into(), schema: "public".into(), name: name.into() },
            parent: parent.map(str::to_owned),
        };
        map.partitioned = vec![partitioned("orders", None), partitioned("orders_old", Some("public.orders"))];
        map
    }

    fn blocks(places: &[usize], rolled_up: RolledUp) -> Vec<(String, u64)> {
        let map = map();
        let groups = compute_groups(&map, places, rolled_up);
        groups.iter().map(|group| (group.name.name.clone(), group.residency(&map).blocks)).collect()
    }

    fn expected(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
        rows.iter().map(|(name, blocks)| ((*name).to_owned(), *blocks)).collect()
    }

    const ALL: [usize; 7] = [0, 1, 2, 3, 4, 5, 6];

    #[test]
    fn a_partitioned_table_sums_all_levels() {
        assert_eq!(blocks(&ALL, RolledUp::ToTable), expected(&[("orders", 111_111), ("lone", 1_000_000)]));
        let map = map();
        let orders = &compute_groups(&map, &ALL, RolledUp::ToTable)[0];
        assert!(orders.is_partitioned && orders.tables(&map).count() == 3 && orders.main_forks(&map).len() == 3);
    }

    #[test]
    fn a_partition_has_its_indexes_and_toast() {
        let rows = [("old_1", 1111), ("old_2", 10_000), ("new", 100_000), ("lone", 1_000_000)];
        assert_eq!(blocks(&ALL, RolledUp::ToPartition), expected(&rows));
        assert_eq!(blocks(&ALL, RolledUp::Not).len(), 7);
    }

    #[test]
    fn what_is_not_all_there_has_not_the_name_of_the_whole() {
        assert_eq!(blocks(&[0, 1, 4], RolledUp::ToTable), expected(&[("orders_old", 10_011)]));
        assert_eq!(blocks(&[0, 5], RolledUp::ToTable), expected(&[("old_1", 1), ("new", 100_000)]));
        assert_eq!(blocks(&[1, 3], RolledUp::ToTable), expected(&[("old_1_pkey", 10), ("pg_toast_1_index", 1000)]));
    }

    #[test]
    fn a_circle_of_a_forged_snapshot_comes_to_an_end() {
        let mut map = map();
        map.partitioned[0].parent = Some("public.orders_old".into());
        map.relations[2].relation.parent = Some("pg_toast.pg_toast_1".into());
        let groups = compute_groups(&map, &ALL, RolledUp::ToTable);
        assert_eq!(groups.iter().map(|group| group.members.len()).sum::<usize>(), ALL.len());
    }
}
