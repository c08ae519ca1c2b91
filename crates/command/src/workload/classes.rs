//! Classes of pages from what was counted of each relation, and from a snapshot's heat.

use roaring::RoaringBitmap;

use cache::warm::{Evidence, compute_heat_levels};
use cache::{ForkMap, Map, RelationMap};
use model::{AccessKind, Bin, Error, PageClass, Popularity};
use postgres::{Activity, RelationActivity, RelationKind};

use super::accesses::{Accesses, Counts, SMALL_BLOCKS};
use super::origin::{Doubts, HeatOrigin};
use super::popularity::PopularityArgument;

/// Relations that are asked for less often than this in a transaction do not count.
const FEWEST_ACCESSES: f64 = 1e-4;

/// The share of an index's blocks that are not leaves: one in some hundred.
const INNER_SHARE: f64 = 1.0 / 256.0;

/// How often what a snapshot did not find is asked for, relative to the coldest that it found.
const ABSENT: f32 = 0.05;

/// Classes that are told of.
const SHOWN_CLASSES: usize = 8;

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
    let evidence = Evidence::of(map);
    let wanted = |(class, one): (usize, &PageClass)| {
        let Popularity::Measured(_) = one.popularity else { return None };
        let relation = activity.relations.iter().find(|relation| class_name(relation) == one.name)?;
        let levels = levels_of(find_fork(map, relation)?.1, evidence);
        let is_index = relation.kind == RelationKind::Index;
        Some(WantedClass { class, blocks: relation.blocks, is_index, levels })
    };
    classes.iter().enumerate().filter_map(wanted).collect()
}

fn class_name(relation: &RelationActivity) -> String {
    format!("{}.{}", relation.schema, relation.name)
}

/// The levels of heat of all that was resident of a fork, in either tier.
pub fn levels_of(fork: &ForkMap, evidence: Evidence) -> Vec<(f32, RoaringBitmap)> {
    compute_heat_levels(fork, evidence, &(&fork.os | &fork.all_buffers()))
}

/// Classes of pages, and what was taken for granted.
#[derive(Debug)]
pub struct Classes {
    pub classes: Vec<PageClass>,
    pub assumptions: Vec<String>,
}

impl Classes {
    /// How the classes are asked for, those with the most blocks first, and what was taken for granted.
    pub fn describe(&self) -> Vec<String> {
        let mut classes: Vec<&PageClass> = self.classes.iter().collect();
        classes.sort_by(|one, other| other.pages.total_cmp(&one.pages));
        let more = classes.len().saturating_sub(SHOWN_CLASSES);
        let shown = classes.iter().take(SHOWN_CLASSES).map(|class| class.access().to_string());
        let more = (more > 0).then(|| format!("and {more} of fewer blocks (--json has them)"));
        shown.chain(more).chain(self.assumptions.iter().cloned()).collect()
    }
}

/// A class for each table, two for each index. Where nothing was counted but what was written, or read once by some other job, all
/// blocks that were asked for are taken for points: it is all that is known.
///
/// # Errors
/// When a table was asked for in no way that is counted.
pub fn make_classes(
    activity: &Activity,
    map: Option<&Map>,
    told: Option<&PopularityArgument>,
) -> Result<Classes, Error> {
    let made = make_classes_by(|counts, table, name| counts.of_table(table, name), activity, map, told)?;
    if !made.classes.is_empty() {
        return Ok(made);
    }
    make_classes_by(|counts, table, name| Ok(counts.as_points(table, name)), activity, map, told)
}

fn make_classes_by(
    of_table: impl Fn(&Counts, &RelationActivity, &str) -> Result<Accesses, Error>,
    activity: &Activity,
    map: Option<&Map>,
    told: Option<&PopularityArgument>,
) -> Result<Classes, Error> {
    let counts = Counts::new(activity);
    let heat = map.map(|map| (map, Evidence::of(map)));
    let mut made = Classes { classes: Vec::new(), assumptions: Vec::new() };
    let mut doubts = Doubts::default();
    for relation in activity.relations.iter().filter(|relation| relation.blocks > 0) {
        if counts.per(relation.requests) < FEWEST_ACCESSES {
            continue;
        }
        let (popularity, origin) = find_popularity(relation, heat, told);
        let name = class_name(relation);
        let blocks = relation.blocks as f64;
        let is_index = relation.kind == RelationKind::Index && blocks >= 2.0;
        let found = if relation.kind == RelationKind::Index {
            counts.of_index(relation, &name)
        } else {
            of_table(&counts, relation, &name)?
        };
        let inner_blocks = if is_index { (blocks * INNER_SHARE).max(1.0) } else { 0.0 };
        let class = |name: String, pages: f64, accesses: f64, run: f64, popularity| {
            let run_pages = run.min(pages).max(1.0);
            let is_asked = accesses >= FEWEST_ACCESSES;
            is_asked.then_some(PageClass { name, pages, accesses, run_pages, popularity, resident_share: 0.0 })
        };
        let main = class(name.clone(), blocks - inner_blocks, found.blocks, found.run_blocks(), popularity);
        // Whoever reads all of a table asks for all of its blocks.
        let is_chosen_from = |one: &PageClass| one.access().kind != AccessKind::Scan && relation.blocks > SMALL_BLOCKS;
        if let Some(origin) = origin.filter(|_| main.as_ref().is_some_and(is_chosen_from)) {
            doubts.add(&name, relation.blocks, origin);
        }
        made.classes.extend(main);
        let inner = if is_index { found.inner } else { 0.0 };
        made.classes.extend(class(name + ", inner pages", inner_blocks, inner, 1.0, Popularity::Uniform));
        made.assumptions.extend(found.assumptions);
    }
    made.assumptions.extend(doubts.describe());
    Ok(made)
}

/// As told, else by the heat that a snapshot found, with whose that is; else uniform.
fn find_popularity(
    relation: &RelationActivity,
    heat: Option<(&Map, Evidence)>,
    told: Option<&PopularityArgument>,
) -> (Popularity, Option<HeatOrigin>) {
    if let Some(told) = told {
        return (told.over(relation.tuples.map(|tuples| tuples / relation.blocks as f64)), None);
    }
    let found = heat.and_then(|(map, evidence)| Some((map, find_fork(map, relation)?, evidence)));
    let Some((map, (warm, fork), evidence)) = found else { return (Popularity::Uniform, None) };
    let origin = HeatOrigin::of(map, warm, fork);
    (measured(fork, evidence, origin, relation.blocks), Some(origin))
}

fn find_fork<'a>(map: &'a Map, relation: &RelationActivity) -> Option<(&'a RelationMap, &'a ForkMap)> {
    let found = map.relations.iter().find(|one| {
        one.relation.oid == relation.oid
            && one.relation.name.name == relation.name
            && one.relation.name.schema == relation.schema
    })?;
    found.main_fork().map(|fork| (found, fork))
}

/// The levels of heat of what was resident, and the rest. What a load left says nothing of popularity, but a restore goes by it all the
/// same: then all bins have one weight.
fn measured(fork: &ForkMap, evidence: Evidence, origin: HeatOrigin, blocks: u64) -> Popularity {
    let levels = levels_of(fork, evidence);
    let weight = |heat: f32| if matches!(origin, HeatOrigin::Load { .. }) { 1.0 } else { f64::from(heat) };
    let coldest = levels.first().map_or(1.0, |(heat, _)| *heat);
    // Of one weight too the hottest come first.
    let hottest_first = levels.iter().rev();
    let mut bins: Vec<Bin> =
        hottest_first.map(|(heat, blocks)| Bin { pages: blocks.len() as f64, weight: weight(*heat) }).collect();
    let resident: u64 = levels.iter().map(|(_, blocks)| blocks.len()).sum();
    let absent = blocks.saturating_sub(resident) as f64;
    bins.push(Bin { pages: absent, weight: weight(coldest * ABSENT) });
    Popularity::Measured(bins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::fixtures::{self, map_of};
    use cache::{Lookups, TierState};
    use host::units::Fork;
    use postgres::RowCounts;

    const TRANSACTIONS: u64 = 1000;

    /// A table of 61 rows a block, 16,394 blocks, and its index of 366 entries a leaf.
    fn relation(oid: u32, kind: RelationKind, requests: u64, scans: u64, rows: RowCounts) -> RelationActivity {
        let (blocks, tuples, table) = match kind {
            RelationKind::Index => (2745, 366.0 * 2745.0, Some(1)),
            _ => (16_394, 61.0 * 16_394.0, None),
        };
        let access_method = if table.is_some() { "btree" } else { "heap" }.to_owned();
        let (schema, name, tuples) = ("public".into(), format!("r{oid}"), Some(tuples));
        RelationActivity { oid, schema, name, kind, blocks, requests, scans, rows, table, access_method, tuples }
    }

    fn make(relations: Vec<RelationActivity>) -> Result<Classes, Error> {
        make_classes(&Activity { transactions: TRANSACTIONS, relations, ..Activity::default() }, None, None)
    }

    /// A thousand transactions, each with a scan of the index that reads `entries`, of which `fetched` lead to rows in `blocks` of the table.
    fn look_up(entries: u64, fetched: u64, blocks: u64) -> Classes {
        let rows = RowCounts { read: entries * TRANSACTIONS, fetched: fetched * TRANSACTIONS, ..RowCounts::default() };
        let leaves = 1 + entries / 366;
        make(vec![
            relation(1, RelationKind::Table, blocks * TRANSACTIONS, 0, RowCounts::default()),
            relation(2, RelationKind::Index, (2 + leaves) * TRANSACTIONS, TRANSACTIONS, rows),
        ])
        .unwrap()
    }

    fn described(classes: &Classes) -> Vec<String> {
        classes.classes.iter().map(|class| class.access().to_string()).collect()
    }

    #[test]
    fn an_index_has_leaves_and_inner_pages() {
        let classes = look_up(1, 1, 1);
        let found: Vec<(&str, f64)> =
            classes.classes.iter().map(|class| (class.name.as_str(), class.accesses)).collect();
        assert_eq!(found, [("public.r1", 1.0), ("public.r2", 1.0), ("public.r2, inner pages", 2.0)]);
        assert_eq!(classes.classes[1].pages + classes.classes[2].pages, 2745.0);
        assert!(classes.assumptions.is_empty(), "{:?}", classes.assumptions);
    }

    #[test]
    fn rows_in_as_few_blocks_as_they_fill_are_a_range() {
        let classes = look_up(600, 600, 11);
        assert_eq!(described(&classes)[0], "public.r1: 16394 blocks, ranges of 11.0 neighbours, 1.00 a transaction");
        assert_eq!(described(&classes)[1], "public.r2: 2734 blocks, ranges of 2.6 neighbours, 1.00 a transaction");
        assert!(classes.assumptions[0].contains("read forwards"), "{:?}", classes.assumptions);
    }

    #[test]
    fn rows_in_a_block_each_lie_anywhere() {
        let classes = look_up(600, 600, 590);
        assert_eq!(described(&classes)[0], "public.r1: 16394 blocks, 590.00 of them in a transaction");
        assert!(classes.assumptions[0].contains("side by side they would be in 11"), "{:?}", classes.assumptions);
    }

    /// Its table is asked for the visibility map alone.
    #[test]
    fn an_index_that_answers_alone_needs_no_blocks_of_its_table() {
        let classes = look_up(600, 0, 1);
        assert_eq!(classes.classes[0].name, "public.r2");
    }

    #[test]
    fn a_table_read_from_end_to_end_is_a_scan_unless_that_is_rare() {
        let scanned = |scans: u64| {
            let rows = RowCounts { read: scans * 61 * 16_394, ..RowCounts::default() };
            make(vec![relation(1, RelationKind::Table, scans * 16_394, scans, rows)]).unwrap()
        };
        let often = described(&scanned(TRANSACTIONS));
        assert_eq!(often, ["public.r1: 16394 blocks, read from end to end, 1.00 times a transaction"]);
        let rarely = scanned(1);
        assert!(rarely.classes.is_empty() && rarely.assumptions[0].contains("once in 1000 transactions"), "{rarely:?}");
    }

    /// Filled once, and read by nobody since.
    #[test]
    fn a_table_that_was_only_written_is_taken_for_points() {
        let rows = RowCounts { inserted: 1000 * TRANSACTIONS, ..RowCounts::default() };
        let classes = make(vec![relation(1, RelationKind::Table, 20 * TRANSACTIONS, 0, rows)]).unwrap();
        assert_eq!(described(&classes), ["public.r1: 16394 blocks, 20.00 of them in a transaction"]);
        assert!(classes.assumptions[0].contains("nobody was seen to look a row up"), "{:?}", classes.assumptions);
    }

    /// pgbench's own: a row is updated, then read again.
    #[test]
    fn a_row_that_is_changed_is_the_one_that_was_read() {
        let rows = RowCounts { changed: TRANSACTIONS, ..RowCounts::default() };
        let looked = RowCounts { read: 2 * TRANSACTIONS, fetched: 2 * TRANSACTIONS, ..RowCounts::default() };
        let classes = make(vec![
            relation(1, RelationKind::Table, 5 * TRANSACTIONS, 0, rows),
            relation(2, RelationKind::Index, 9 * TRANSACTIONS, 2 * TRANSACTIONS, looked),
        ])
        .unwrap();
        assert_eq!(described(&classes)[0], "public.r1: 16394 blocks, 1.00 of them in a transaction");
        assert_eq!(described(&classes)[1], "public.r2: 2734 blocks, 1.00 of them in a transaction");
        assert!(classes.assumptions[0].contains("those that it has read"), "{:?}", classes.assumptions);
    }

    /// A table of which the last 1394 blocks have buffers, as its heat and what is said of it.
    fn make_of_heat(lookups: Lookups) -> (Vec<Bin>, Vec<WantedClass>, String) {
        let mut fork = ForkMap::empty(Fork::Main, 16_394);
        fork.os.insert_range(0..16_394);
        fork.buffers[1].insert_range(15_000..16_394);
        let mut map = map_of(vec![fixtures::relation(1, fork)]);
        map.buffers = TierState::Measured;
        map.lookups = lookups;
        let rows = RowCounts { read: TRANSACTIONS, fetched: TRANSACTIONS, ..RowCounts::default() };
        let table = relation(1, RelationKind::Table, TRANSACTIONS, 0, RowCounts::default());
        let relations = vec![
            RelationActivity { name: "relation_1".into(), ..table },
            relation(2, RelationKind::Index, 3 * TRANSACTIONS, TRANSACTIONS, rows),
        ];
        let activity = Activity { transactions: TRANSACTIONS, relations, ..Activity::default() };
        let made = make_classes(&activity, Some(&map), None).unwrap();
        let bins = made.classes[0].popularity.bins(16_394.0);
        (bins, wanted_of(&made.classes, &activity, &map), made.assumptions.join("; "))
    }

    #[test]
    fn the_heat_of_a_load_says_nothing_of_popularity_and_a_restore_goes_by_it_all_the_same() {
        for lookups in [0, 4 * 1394 - 1] {
            let (bins, wanted, told) = make_of_heat(Lookups::of_database("app", [(1, lookups)]));
            assert!(bins.iter().all(|bin| bin.weight == bins[0].weight), "{bins:?}");
            let levels = wanted[0].levels.iter().rev().map(|(_, blocks)| blocks.len() as f64);
            assert!(bins.len() > 1 && bins.iter().map(|bin| bin.pages).eq(levels), "{bins:?}");
            let expected =
                format!("relation_1 equally popular: their heat in the snapshot may be a load's ({lookups} ");
            assert!(told.contains(&expected) && told.contains("1394 were cached"), "{told}");
        }
        let (bins, _, told) = make_of_heat(Lookups::of_database("app", [(1, 4 * 1394)]));
        assert!(bins[0].weight > 10.0 * bins[bins.len() - 1].weight && told.is_empty(), "{bins:?} {told}");
        let (of_unknown, _, told) = make_of_heat(Lookups::default());
        assert!(of_unknown == bins && told.contains("nobody counted"), "{of_unknown:?} {told}");
    }

    #[test]
    fn what_no_scan_explains_is_refused() {
        let by_ctid = relation(1, RelationKind::Table, 5 * TRANSACTIONS, 0, RowCounts::default());
        let refused = make(vec![by_ctid.clone()]).unwrap_err();
        assert_eq!(refused, Error::UnknownAccess { relation: "public.r1".into(), blocks: 5.0 });
        // Of a table that is written nobody knows what was asked for to write it.
        let rows = RowCounts { inserted: TRANSACTIONS, ..RowCounts::default() };
        assert!(make(vec![RelationActivity { rows, ..by_ctid }]).is_ok());
    }
}
