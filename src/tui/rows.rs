//! The rows of the live map: groups of relations, unfolded where the user wants to look closer.

use std::cmp::Reverse;
use std::collections::HashSet;

use jiff::Zoned;

use super::changes::{Changed, compute_changes};
use crate::cache::{Group, Map, RelationMap, Residency, RolledUp, compute_groups};
use crate::postgres::RelationName;
use crate::terminal::{display_name, short_kind};
use crate::units::Fork;

/// One look at what is resident.
#[derive(Debug)]
pub struct Look {
    pub map: Map,
    /// Places of the relations that are meant.
    pub places: Vec<usize>,
    /// Of each relation of the map.
    pub residencies: Vec<Residency>,
    /// Of each relation of the map since the look before.
    pub changes: Vec<Changed>,
    pub at: Zoned,
}

impl Look {
    /// Counts once what every key would have to count again.
    pub fn new(before: Option<&Map>, map: Map, places: Vec<usize>) -> Look {
        let changes = compute_changes(before, &map);
        let residencies = map.relations.iter().map(RelationMap::residency).collect();
        Look { map, places, residencies, changes, at: Zoned::now() }
    }
}

/// By what rows are sorted: the greatest first, names from A to Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Size,
    Os,
    Buffers,
    Dirty,
    Changed,
    Name,
}

impl Order {
    /// What the screen calls it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Size => "largest",
            Order::Os => "most in the page cache",
            Order::Buffers => "most in shared_buffers",
            Order::Dirty => "most dirty",
            Order::Changed => "most changed",
            Order::Name => "by name",
        }
    }

    pub fn next(self) -> Order {
        match self {
            Order::Size => Order::Os,
            Order::Os => Order::Buffers,
            Order::Buffers => Order::Dirty,
            Order::Dirty => Order::Changed,
            Order::Changed => Order::Name,
            Order::Name => Order::Size,
        }
    }
}

/// What a row is, from one look to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    pub name: RelationName,
    pub depth: usize,
    pub fork: Option<Fork>,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    pub key: RowKey,
    pub text: String,
    pub kind: String,
    pub residency: Residency,
    pub changed: Changed,
    /// Is there more to see below it?
    pub can_unfold: bool,
    pub is_unfolded: bool,
    pub group: Group,
}

/// What decides on the rows.
#[derive(Debug)]
pub struct RowsAsked<'a> {
    pub rolled_up: RolledUp,
    pub order: Order,
    pub filter: &'a str,
    pub with_system: bool,
    /// Forks of every relation, unfolded or not.
    pub with_forks: bool,
    pub unfolded: &'a HashSet<RowKey>,
}

/// What was seen as rows.
pub fn compute_rows(look: &Look, asked: &RowsAsked<'_>) -> Vec<Row> {
    let map = &look.map;
    let filter = asked.filter.to_lowercase();
    let has_it = |name: &RelationName| name.to_string().to_lowercase().contains(&filter);
    let is_meant = |group: &Group| {
        (asked.with_system || !group.is_system)
            && (has_it(&group.name) || group.relations(map).any(|one| has_it(&one.relation.name)))
    };
    let groups = compute_groups(map, &look.places, asked.rolled_up).into_iter().filter(is_meant).collect();
    let mut rows = Vec::new();
    push_groups(&mut rows, groups, (asked.rolled_up, 0), &Looked { look, map, asked });
    rows
}

struct Looked<'a> {
    look: &'a Look,
    map: &'a Map,
    asked: &'a RowsAsked<'a>,
}

fn push_groups(rows: &mut Vec<Row>, groups: Vec<Group>, (rolled_up, depth): (RolledUp, usize), looked: &Looked<'_>) {
    let mut level: Vec<Row> = groups.into_iter().map(|group| row_of(group, depth, looked)).collect();
    sort(&mut level, looked.asked.order);
    for mut row in level {
        let parts = parts_of(&row.group, rolled_up, looked.map);
        let forks: usize = row.group.relations(looked.map).map(|one| one.forks.len()).sum();
        row.can_unfold = parts.is_some() || forks > 1;
        let has_forks_shown = parts.is_none() && looked.asked.with_forks;
        row.is_unfolded = row.can_unfold && (looked.asked.unfolded.contains(&row.key) || has_forks_shown);
        let (is_unfolded, parent) = (row.is_unfolded, row.clone());
        rows.push(row);
        match parts {
            _ if !is_unfolded => {}
            Some((rolled_up, parts)) => push_groups(rows, parts, (rolled_up, depth + 1), looked),
            None => push_forks(rows, &parent, looked.map),
        }
    }
}

/// What a group is the sum of, one level below it; `None` of a relation.
fn parts_of(group: &Group, rolled_up: RolledUp, map: &Map) -> Option<(RolledUp, Vec<Group>)> {
    let mut level = rolled_up;
    while level != RolledUp::Not && group.members.len() > 1 {
        level = level.unfolded();
        let parts = compute_groups(map, &group.members, level);
        if parts.len() > 1 {
            return Some((level, parts));
        }
    }
    None
}

fn row_of(group: Group, depth: usize, looked: &Looked<'_>) -> Row {
    let mut changed = Changed::default();
    group.members.iter().for_each(|place| changed += looked.look.changes[*place]);
    let more = group.parts(looked.map);
    let kind = short_kind(group.kind);
    Row {
        key: RowKey { name: group.name.clone(), depth, fork: None },
        text: display_name(&group),
        kind: if more > 0 { format!("{kind} +{more}") } else { kind.to_owned() },
        residency: group.members.iter().map(|place| looked.look.residencies[*place]).sum(),
        changed,
        can_unfold: false,
        is_unfolded: false,
        group,
    }
}

/// What changed of a fork alone is not kept.
fn push_forks(rows: &mut Vec<Row>, parent: &Row, map: &Map) {
    for fork in parent.group.relations(map).flat_map(|one| &one.forks) {
        rows.push(Row {
            key: RowKey { fork: Some(fork.fork), depth: parent.key.depth + 1, ..parent.key.clone() },
            text: fork.fork.name().to_owned(),
            kind: "fork".to_owned(),
            residency: fork.residency(),
            changed: Changed::default(),
            can_unfold: false,
            is_unfolded: false,
            group: parent.group.clone(),
        });
    }
}

fn sort(rows: &mut [Row], order: Order) {
    let measure = |row: &Row| match order {
        Order::Size => row.residency.blocks,
        Order::Os => row.residency.os,
        Order::Buffers => row.residency.buffers,
        Order::Dirty => row.residency.dirty,
        Order::Changed => row.changed.blocks(),
        Order::Name => 0,
    };
    // Equal ones do not change places from look to look.
    rows.sort_by_cached_key(|row| (Reverse(measure(row)), row.key.name.to_string(), row.key.name.database.clone()));
}
