//! Classes of pages from what was counted of each relation, and from a snapshot's heat.

use roaring::RoaringBitmap;

use crate::cache::{ForkMap, Map};
use crate::model::{Bin, PageClass, Popularity};
use crate::postgres::{Activity, RelationActivity, RelationKind};
use crate::units::Fork;
use crate::warm::compute_heat_levels;

use super::values::PopularityArgument;

/// Relations that are asked for less often than this in a transaction do not count.
const FEWEST_ACCESSES: f64 = 1e-4;

/// The share of an index's blocks that are not leaves: one in some hundred.
const INNER_SHARE: f64 = 1.0 / 256.0;

/// How often what a snapshot did not find is asked for, relative to the coldest that it found.
const ABSENT: f64 = 0.05;

/// What a restore wants of a relation, by heat, coldest first: the bins of its class from the last but one to the first.
#[derive(Debug)]
pub struct WantedClass {
    /// Place of the class.
    pub class: usize,
    pub blocks: u64,
    pub is_index: bool,
    pub levels: Vec<(f32, RoaringBitmap)>,
}

/// The wanted blocks of the classes whose popularity is a snapshot's.
pub fn wanted_of(classes: &[PageClass], activity: &Activity, map: &Map) -> Vec<WantedClass> {
    let wanted = |(class, one): (usize, &PageClass)| {
        let Popularity::Measured(_) = one.popularity else { return None };
        let relation = activity.relations.iter().find(|relation| class_name(relation) == one.name)?;
        let levels = levels_of(find_fork(map, relation)?, map);
        let is_index = relation.kind == RelationKind::Index;
        Some(WantedClass { class, blocks: relation.blocks, is_index, levels })
    };
    classes.iter().enumerate().filter_map(wanted).collect()
}

fn class_name(relation: &RelationActivity) -> String {
    format!("{}.{}", relation.schema, relation.name)
}

fn levels_of(fork: &ForkMap, map: &Map) -> Vec<(f32, RoaringBitmap)> {
    compute_heat_levels(fork, map.os_heat, &(&fork.os | &fork.all_buffers()))
}

/// A class for each table, two for each index.
pub fn make_classes(activity: &Activity, map: Option<&Map>, told: Option<&PopularityArgument>) -> Vec<PageClass> {
    let transactions = activity.transactions.max(1) as f64;
    let mut classes = Vec::new();
    for relation in activity.relations.iter().filter(|relation| relation.blocks > 0) {
        let accesses = relation.requests as f64 / transactions;
        if accesses < FEWEST_ACCESSES {
            continue;
        }
        let popularity = told
            .map(|told| told.over(relation.tuples.map(|tuples| tuples / relation.blocks as f64)))
            .or_else(|| Some(measured(find_fork(map?, relation)?, map?, relation.blocks)))
            .unwrap_or(Popularity::Uniform);
        let name = class_name(relation);
        let class = |name: String, pages, accesses, popularity| PageClass {
            name,
            pages,
            accesses,
            popularity,
            resident_share: 0.0,
        };
        let blocks = relation.blocks as f64;
        if relation.kind != RelationKind::Index || blocks < 2.0 {
            classes.push(class(name, blocks, accesses, popularity));
            continue;
        }
        // A descent asks for the root, inner pages and one leaf.
        let descents = (relation.scans as f64 / transactions).clamp(accesses.min(FEWEST_ACCESSES), accesses);
        let inner = (blocks * INNER_SHARE).max(1.0);
        classes.push(class(name.clone(), blocks - inner, descents, popularity));
        if accesses > descents {
            classes.push(class(name + ", inner pages", inner, accesses - descents, Popularity::Uniform));
        }
    }
    classes
}

fn find_fork<'a>(map: &'a Map, relation: &RelationActivity) -> Option<&'a ForkMap> {
    let found = map.relations.iter().find(|one| {
        one.relation.oid == relation.oid
            && one.relation.name.name == relation.name
            && one.relation.name.schema == relation.schema
    })?;
    found.forks.iter().find(|fork| fork.fork == Fork::Main)
}

/// The levels of heat of what was resident, and the rest.
fn measured(fork: &ForkMap, map: &Map, blocks: u64) -> Popularity {
    let levels = levels_of(fork, map);
    let coldest = levels.first().map_or(1.0, |(heat, _)| f64::from(*heat));
    let mut bins: Vec<Bin> =
        levels.iter().map(|(heat, blocks)| Bin { pages: blocks.len() as f64, weight: f64::from(*heat) }).collect();
    let resident: u64 = levels.iter().map(|(_, blocks)| blocks.len()).sum();
    let absent = blocks.saturating_sub(resident) as f64;
    bins.push(Bin { pages: absent, weight: coldest * ABSENT });
    Popularity::Measured(bins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(oid: u32, kind: RelationKind, blocks: u64, requests: u64, scans: u64) -> RelationActivity {
        RelationActivity {
            oid,
            schema: "public".into(),
            name: format!("r{oid}"),
            kind,
            blocks,
            requests,
            scans,
            tuples: None,
        }
    }

    #[test]
    fn an_index_has_leaves_and_inner_pages() {
        let relations = vec![
            relation(1, RelationKind::Table, 16_394, 1000, 0),
            relation(2, RelationKind::Index, 2745, 3000, 1000),
            relation(3, RelationKind::Table, 9, 0, 0),
        ];
        let classes = make_classes(&Activity { transactions: 1000, relations, ..Activity::default() }, None, None);
        let found: Vec<(&str, f64)> = classes.iter().map(|class| (class.name.as_str(), class.accesses)).collect();
        assert_eq!(found, [("public.r1", 1.0), ("public.r2", 1.0), ("public.r2, inner pages", 2.0)]);
        assert_eq!(classes[1].pages + classes[2].pages, 2745.0);
    }
}
