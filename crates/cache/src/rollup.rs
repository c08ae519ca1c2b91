use std::collections::HashMap;

use super::{ForkMap, Map, RelationMap, Residency};
use postgres::{PartitionedTable, Relation, RelationKind, RelationName};

/// Maximum number of ancestors: the parents in an untrusted snapshot may form a circle.
const LEVELS: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
pub enum RolledUp {
    /// A table with its indexes and TOAST; a partitioned table as a whole.
    #[default]
    #[strum(serialize = "table")]
    ToTable,
    /// A table or partition with its indexes and TOAST.
    #[strum(serialize = "partition")]
    ToPartition,
    #[strum(serialize = "relation")]
    Not,
}

host::named!(RolledUp);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: RelationName,
    pub kind: RelationKind,
    /// Number of partitions, empty ones included; `None` unless a partitioned table.
    pub partitions: Option<usize>,
    pub is_system: bool,
    pub members: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Head {
    /// Position among all relations of the map, empty ones last.
    Relation(usize),
    Partitioned(usize),
}

/// An index joins its table only if `places` contains the table. A partition joins its partitioned table only if
/// `places` contains all its partitions.
pub fn compute_groups(map: &Map, places: &[usize], rolled_up: RolledUp) -> Vec<Group> {
    let owners = Owners::new(map, places);
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<Head, usize> = HashMap::new();
    for place in places.iter().copied().filter(|place| *place < map.relations.len()) {
        let head = owners.find_head(place, rolled_up);
        let group = *known.entry(head).or_insert_with(|| {
            groups.push(owners.begin_group(head));
            groups.len() - 1
        });
        groups[group].members.push(place);
    }
    for group in &mut groups {
        let with_blocks = group.tables(map).count();
        group.partitions = group.partitions.map(|empty| empty + with_blocks);
    }
    groups
}

impl Group {
    pub fn relations<'a>(&'a self, map: &'a Map) -> impl Iterator<Item = &'a RelationMap> {
        self.members.iter().map(|place| &map.relations[*place])
    }

    pub fn residency(&self, map: &Map) -> Residency {
        self.relations(map).map(RelationMap::residency).sum()
    }

    pub fn tables<'a>(&'a self, map: &'a Map) -> impl Iterator<Item = &'a RelationMap> {
        self.relations(map).filter(move |one| self.is_table(one))
    }

    fn is_table(&self, one: &RelationMap) -> bool {
        one.relation.name == self.name || !is_part(&one.relation)
    }

    pub fn parts(&self, map: &Map) -> usize {
        self.members.len() - self.tables(map).count()
    }

    pub fn forks<'a>(&'a self, map: &'a Map) -> Vec<&'a ForkMap> {
        let (tables, parts): (Vec<_>, Vec<_>) = self.relations(map).partition(|one| self.is_table(one));
        tables.into_iter().chain(parts).flat_map(|one| &one.forks).collect()
    }
}

fn is_part(relation: &Relation) -> bool {
    matches!(relation.kind, RelationKind::Index | RelationKind::Toast)
}

struct Owners<'a> {
    map: &'a Map,
    relations: Vec<&'a Relation>,
    /// Whether each relation is selected. A relation without blocks counts as selected, unless one of its indexes or
    /// TOAST tables is not.
    is_meant: Vec<bool>,
    is_whole: Vec<bool>,
    by_name: HashMap<(&'a str, String), usize>,
    partitioned: HashMap<(&'a str, String), usize>,
}

impl<'a> Owners<'a> {
    fn new(map: &'a Map, places: &[usize]) -> Owners<'a> {
        let key = |name: &'a RelationName| (name.database.as_str(), name.to_string());
        let partitioned = map.partitioned.iter().enumerate().map(|(place, one)| (key(&one.name), place));
        let mut is_meant = vec![false; map.relations.len()];
        for place in places.iter().filter(|place| **place < map.relations.len()) {
            is_meant[*place] = true;
        }
        let left_out: Vec<usize> = (0..is_meant.len()).filter(|place| !is_meant[*place]).collect();
        is_meant.resize(map.relations.len() + map.empty.len(), true);
        let mut owners = Owners {
            map,
            relations: map.every_relation().collect(),
            is_meant,
            is_whole: vec![true; map.partitioned.len()],
            by_name: map.every_relation().enumerate().map(|(place, one)| (key(&one.name), place)).collect(),
            partitioned: partitioned.collect(),
        };
        left_out.into_iter().for_each(|place| owners.leave_out(place));
        owners
    }

    /// Applies the deselection of the relation at `place` to others. If it is an index or TOAST table of a table
    /// without blocks, that table is deselected too. If a deselected table is a partition, all partitioned tables above
    /// it are incomplete.
    fn leave_out(&mut self, place: usize) {
        let Some(owner) = self.owners(place).last() else { return };
        if owner != place && !self.is_empty(owner) {
            return;
        }
        self.is_meant[owner] = false;
        if self.relations[owner].kind == RelationKind::Table {
            let incomplete: Vec<usize> = self.ancestors(self.relations[owner]).collect();
            incomplete.into_iter().for_each(|place| self.is_whole[place] = false);
        }
    }

    fn is_empty(&self, place: usize) -> bool {
        place >= self.map.relations.len()
    }

    fn find_head(&self, place: usize, rolled_up: RolledUp) -> Head {
        if rolled_up == RolledUp::Not {
            return Head::Relation(place);
        }
        let table = self.find_table(place);
        let whole = |ancestor: &usize| self.is_whole[*ancestor];
        let relation = self.relations[table];
        let topmost = match (rolled_up, relation.kind) {
            (RolledUp::ToTable, RelationKind::Table) => self.ancestors(relation).take_while(whole).last(),
            _ => None,
        };
        topmost.map_or(Head::Relation(table), Head::Partitioned)
    }

    fn find_table(&self, place: usize) -> usize {
        // An empty TOAST table heads no group: its index would be the only member.
        let can_be_head = |place: &usize| !self.is_empty(*place) || !is_part(self.relations[*place]);
        self.owners(place).take_while(|place| self.is_meant[*place]).filter(can_be_head).last().unwrap_or(place)
    }

    fn owners(&self, place: usize) -> impl Iterator<Item = usize> + use<'a, '_> {
        let owner = |place: &usize| {
            let relation = self.relations[*place];
            let parent = relation.parent.as_ref().filter(|_| is_part(relation))?;
            self.by_name.get(&(relation.name.database.as_str(), parent.clone())).copied()
        };
        std::iter::successors(Some(place), owner).take(3)
    }

    /// Returns a group without members. Its `partitions` counts only empty ones; `compute_groups` adds the others.
    fn begin_group(&self, head: Head) -> Group {
        let members = Vec::new();
        match head {
            Head::Relation(place) => {
                let Relation { name, kind, is_system, .. } = self.relations[place];
                Group { name: name.clone(), kind: *kind, partitions: None, is_system: *is_system, members }
            }
            Head::Partitioned(place) => {
                let tables = self.map.empty.iter().filter(|one| one.kind == RelationKind::Table);
                let empty = tables.filter(|one| self.ancestors(one).any(|ancestor| ancestor == place)).count();
                let name = self.map.partitioned[place].name.clone();
                Group { name, kind: RelationKind::Table, partitions: Some(empty), is_system: false, members }
            }
        }
    }

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
    use crate::fixtures::{map_of, relation};
    use host::units::Fork;

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
        assert!(orders.partitions == Some(3) && orders.tables(&map).count() == 3);
        let sizes: Vec<u64> = orders.forks(&map).iter().map(|fork| fork.blocks).collect();
        assert_eq!(sizes.iter().sum::<u64>(), orders.residency(&map).blocks);
        assert!(sizes.starts_with(&[1, 10_000, 100_000]), "{sizes:?}");
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

    /// old_2 is empty except for its index; old_1's TOAST is empty except for its index; empty_3 has nothing.
    fn map_with_empty_ones() -> Map {
        let mut map = map();
        let mut empty_3 = map.relations[4].relation.clone();
        empty_3.name.name = "empty_3".into();
        map.relations[1].relation.parent = Some("public.old_2".into());
        map.empty = vec![map.relations.remove(4).relation, map.relations.remove(2).relation, empty_3];
        map
    }

    #[test]
    fn what_belongs_to_an_empty_relation_is_summed_too() {
        let map = map_with_empty_ones();
        let groups = |places: &[usize], rolled_up| compute_groups(&map, places, rolled_up);
        let rows = |places: &[usize], rolled_up| -> Vec<(String, u64, usize)> {
            let row = |one: &Group| (one.name.name.clone(), one.residency(&map).blocks, one.parts(&map));
            groups(places, rolled_up).iter().map(row).collect()
        };
        let row = |name: &str, blocks, parts| (name.to_owned(), blocks, parts);
        let all = [0, 1, 2, 3, 4];
        let (new, lone) = (row("new", 100_000, 0), row("lone", 1_000_000, 0));
        let old = [row("old_1", 1001, 1), row("old_2", 10, 1)];
        assert_eq!(rows(&all, RolledUp::ToPartition), [&old[..], &[new.clone(), lone.clone()]].concat());
        assert_eq!(rows(&all, RolledUp::ToTable), [row("orders", 101_011, 2), lone]);
        assert_eq!(groups(&all, RolledUp::ToTable)[0].partitions, Some(4));
        assert_eq!(rows(&all, RolledUp::Not).len(), 5, "what has no block is no row");
        assert_eq!(rows(&[0, 2, 3], RolledUp::ToTable), [row("old_1", 1001, 1), new]);
        assert_eq!(rows(&[2], RolledUp::ToTable), [row("pg_toast_1_index", 1000, 0)]);
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
