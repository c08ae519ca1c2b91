use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::map::map_text::{MapView, render_map};
use crate::{OutputArguments, Target};
use cache::{
    BarCell, ForkMap, Group, Lookups, Map, MapInputs, RelationMap, Residency, RolledUp, Selection, Snapshot,
    SnapshotStore, TierState, compute_bar, compute_groups, read_heat, read_map,
};
use host::files::FileType;
use terminal::{Canvas, Progress};

/// Options that select relations and set the form of the map.
#[derive(Clone, Debug, Default, Args)]
pub struct ViewArguments {
    #[command(flatten)]
    selection: SelectionArguments,

    /// Show the N largest relations (default 20, in JSON all); 0: all
    ///
    /// 0 also shows each system catalog.
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// Print a row per table, partition, relation or fork
    ///
    /// `table` includes indexes, TOAST and all partitions. `partition` includes its indexes and TOAST. `relation` and `fork` include
    /// nothing else. Default: table, or relation with --json.
    #[arg(long, value_name = "WHAT", hide_possible_values = true, value_parser = ["table", "partition", "relation", "fork"])]
    by: Option<String>,

    /// Draw with ASCII characters only (default if the locale is not UTF-8)
    #[arg(long, hide_short_help = true)]
    pub ascii: bool,
}

/// Options that select relations.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArguments {
    /// Only this relation or pattern, as in psql's \d
    ///
    /// Includes a table's indexes and TOAST, and a partitioned table's partitions. May be repeated. Examples: orders, public.orders,
    /// shop.public.orders, '"Odd Name"', 'sal*.*', 'orders_202?'
    #[arg(short, long = "relation", value_name = "NAME")]
    relations: Vec<String>,

    /// Only this schema, or schemas that match this pattern: sales, 'sal*'
    #[arg(short = 'n', long, value_name = "NAME", hide_short_help = true)]
    schema: Option<String>,
}

impl SelectionArguments {
    pub fn selection(&self) -> Selection {
        Selection { relations: self.relations.clone(), schema: self.schema.clone() }
    }
}

impl ViewArguments {
    /// Prints all lines, whatever the terminal's height.
    pub fn print(&self, map: &Map, output: OutputArguments) -> anyhow::Result<()> {
        if output.json {
            let (places, rolled_up) = (map.select(&self.selection.selection())?, self.rolled_up("relation"));
            return Ok(terminal::print_json(&render_map_json(map, &places, rolled_up, self.top.unwrap_or(0)))?);
        }
        let canvas = Canvas { height: None, ..Canvas::of_stdout(self.ascii) };
        terminal::print_line(&self.render(map, None, canvas)?);
        Ok(())
    }

    pub fn render(&self, map: &Map, before: Option<&Map>, canvas: Canvas) -> anyhow::Result<String> {
        let places = map.select(&self.selection.selection())?;
        let view = MapView {
            before,
            top: self.top.unwrap_or(20),
            rolled_up: self.rolled_up("table"),
            with_forks: self.by.as_deref() == Some("fork"),
            // Named relations are shown even if they are catalogs.
            with_system: self.shows_all() || self.selection.selection() != Selection::default(),
        };
        Ok(render_map(map, &places, view, canvas))
    }

    fn rolled_up(&self, usually: &str) -> RolledUp {
        match self.by.as_deref().unwrap_or(usually) {
            "table" => RolledUp::ToTable,
            "partition" => RolledUp::ToPartition,
            _ => RolledUp::Not,
        }
    }

    pub fn shows_all(&self) -> bool {
        self.top == Some(0)
    }
}

// Field names are stable: docs/formats.md.

const BAR_CELLS: usize = 40;

pub fn render_map_json(map: &Map, places: &[usize], rolled_up: RolledUp, top: usize) -> Value {
    let mut groups = compute_groups(map, places, rolled_up);
    groups.sort_by_cached_key(|group| std::cmp::Reverse(group.residency(map).blocks));
    let totals: Residency = groups.iter().map(|group| group.residency(map)).sum();
    let shown = if top == 0 { groups.len() } else { top };
    let render = |group: &Group| match (rolled_up, group.members.as_slice()) {
        (RolledUp::Not, [place]) => render_relation(&map.relations[*place], map),
        _ => render_group(group, map),
    };
    json!({
        "taken_at": map.taken_at,
        "source": map.source,
        "os": map.os,
        "buffers": map.buffers,
        "totals": render_residency(&totals, map),
        "by": rolled_up.name(),
        "relation_count": groups.len(),
        "relations": groups.iter().take(shown).map(render).collect::<Vec<Value>>(),
        "remarks": map.remarks,
    })
}

fn render_relation(one: &RelationMap, map: &Map) -> Value {
    let forks: Vec<Value> = one.forks.iter().map(|fork| render_fork(fork, map)).collect();
    merge([json!(one.relation), json!({ "forks": forks }), render_residency(&one.residency(), map)])
}

fn render_group(group: &Group, map: &Map) -> Value {
    let of_group = json!({
        "kind": if group.partitions.is_some() { "partitioned_table" } else { group.kind.name() },
        "is_system": group.is_system,
        "partitions": group.partitions,
        "members": group.relations(map).map(|one| one.relation.name.to_string()).collect::<Vec<String>>(),
    });
    merge([json!(group.name), of_group, render_residency(&group.residency(map), map)])
}

fn render_fork(fork: &ForkMap, map: &Map) -> Value {
    let bar = compute_bar(&[fork], BAR_CELLS);
    let ratios = |tier: fn(&BarCell) -> f64| -> Vec<f64> {
        bar.iter().map(|cell| (tier(cell) * 1000.0).round() / 1000.0).collect()
    };
    let (os, buffers) = (ratios(|cell| cell.os), ratios(|cell| cell.buffers));
    let of_fork = json!({ "fork": fork.fork.name(), "os_bar": os, "buffers_bar": buffers });
    merge([of_fork, render_residency(&fork.residency(), map)])
}

/// The figures of a cache that was not measured are null; 0 would be wrong.
fn render_residency(residency: &Residency, map: &Map) -> Value {
    let os = (map.os == TierState::Measured).then_some(residency.os);
    let of_buffers = |value: u64| (map.buffers == TierState::Measured).then_some(value);
    json!({
        "blocks": residency.blocks,
        "bytes": residency.blocks * u64::from(map.source.block_size),
        "os_blocks": os,
        "buffers_blocks": of_buffers(residency.buffers),
        "dirty_blocks": of_buffers(residency.dirty),
        "both_blocks": os.and(of_buffers(residency.both)),
        "usage_counts": of_buffers(0).map(|_| residency.usage_counts),
    })
}

pub fn merge<const N: usize>(objects: [Value; N]) -> Value {
    let fields = |object| if let Value::Object(fields) = object { fields } else { serde_json::Map::new() };
    objects.into_iter().flat_map(fields).collect()
}

/// Keeps relations whose positions are in `places` (sorted) and for which `is_meant` is true.
pub fn keep_places(map: &mut Map, places: &[usize], is_meant: impl Fn(&RelationMap) -> bool) {
    let mut at = 0..;
    map.relations.retain(|one| at.next().is_some_and(|at| places.binary_search(&at).is_ok()) && is_meant(one));
}

/// Reads the map. Without a server, relation names come from the newest snapshot.
pub async fn read_current_map(target: &Target, snapshots: &SnapshotStore, shows_progress: bool) -> anyhow::Result<Map> {
    let names = match (&target.server, target.system_identifier()) {
        (None, Some(cluster)) => read_newest(snapshots, cluster),
        _ => None,
    };
    let databases = target.databases().await?;
    let progress = Progress::steps_when_slow("inspecting", shows_progress);
    let page_cache = target.page_cache();
    let inputs = MapInputs {
        names: names.as_ref(),
        progress: &|done, total| progress.reach(done as u64, total as u64),
        ..target.map_inputs(&page_cache, &databases)
    };
    let map = read_map(inputs).await;
    progress.finish();
    let mut map = map?;
    if let (TierState::Unknown { reason }, Some(why)) = (&mut map.os, &target.directory_refusal) {
        *reason = why.detail.clone().unwrap_or_default();
    }
    map.remarks.splice(0..0, target.remarks.iter().cloned());
    Ok(map)
}

pub async fn add_heat(map: &mut Map, target: &Target, snapshots: &SnapshotStore) -> anyhow::Result<()> {
    let earlier = snapshots.read_generations(map.source.system_identifier).unwrap_or_default();
    let earlier: Vec<PathBuf> =
        earlier.into_iter().filter(|one| one.kind == FileType::RegularFile).map(|one| one.path).collect();
    let databases = target.databases().await?;
    read_heat(map, target.map_inputs(&target.page_cache(), &databases), &earlier).await;
    if let Some(server) = &target.server {
        map.lookups = Lookups::read(server, &databases).await;
    }
    Ok(())
}

/// Newest snapshot with relation names. Skips damaged files, because the names are optional.
fn read_newest(store: &SnapshotStore, cluster: u64) -> Option<Snapshot> {
    let generations = store.read_generations(cluster).ok()?;
    let readable = generations.iter().filter_map(|generation| generation.read().ok());
    readable.into_iter().find(|snapshot| snapshot.map.relations.iter().any(|one| one.relation.oid != 0))
}
