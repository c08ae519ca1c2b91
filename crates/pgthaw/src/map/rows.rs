//! `pgthaw map --rows`; the figures are computed in `crates/model/src/closed_form.rs`.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use crate::evict::render_names;
use crate::{ExitStatus, OutputArguments, Target};
use command::read_device_with;
use host::units::{Bytes, Fork};
use model::{Error, FillTime, RowDensity, parse_hit, parse_reads};
use postgres::{
    Database, RelationKind, RelationName, RowCount, Server, read_fork_blocks, read_relations, read_row_counts,
};
use terminal::{Canvas, Column, printable, render_columns, render_seconds, render_short, wrap_text};

/// Options of `--rows`, for the time that random reads need to load each table.
#[derive(Debug, Args)]
pub struct FillArguments {
    /// Random reads per second of the device, one block each [default: from `doctor --probe`, else 3000]
    #[arg(long, value_name = "READS", hide_short_help = true, value_parser = parse_reads, requires = "rows")]
    riops: Option<f64>,

    /// Time of a transaction of one row if everything is cached
    #[arg(long, value_name = "TIME", hide_short_help = true, value_parser = parse_hit, default_value = "0.1ms", requires = "rows")]
    hit: f64,
}

impl FillArguments {
    /// Prints each table's time until warm, and its fill time (rows ÷ rows read per second, from Greg Smith's pgbench
    /// slides).
    pub async fn print(&self, target: &Target, with_system: bool, output: OutputArguments) -> Result<ExitStatus> {
        let Some(server) = &target.server else { bail!(Error::NoRows) };
        let path = target.data_directory.as_ref().map(|directory| &*directory.path);
        let (device, device_remark) = read_device_with(self.riops, None, path, target.find_postmaster())?;
        let block_bytes = f64::from(server.facts.block_size);
        let (tables, unknown, closed) = read_databases(server, &target.databases().await?, with_system).await?;
        let fill = |table: CountedTable| {
            let blocks = [Some(table.blocks), table.index_blocks].into_iter().flatten();
            let pages: Vec<f64> = blocks.map(|blocks| blocks as f64).collect();
            let density = RowDensity::new(table.rows, table.blocks as f64 * block_bytes, block_bytes)?;
            let fill = FillTime::new(table.rows, density, &pages, block_bytes, device.reads_per_second, self.hit)?;
            let CountedTable { database, name, rows, blocks, .. } = table;
            let bytes = Bytes(blocks * u64::from(server.facts.block_size));
            Ok(RowsOfTable { database, relation: name.to_string(), rows, bytes, density, fill })
        };
        let mut relations: Vec<_> = tables.into_iter().map(fill).collect::<Result<_, Error>>()?;
        relations.sort_by_key(|one| (Reverse(one.bytes), one.database.clone(), one.relation.clone()));
        let names = render_names(unknown.iter());
        let unknown = (!unknown.is_empty()).then(|| format!("no row count (not analysed, or empty): {names}"));
        let rows = RowsTable {
            database: server.database.clone(),
            reads_per_second: device.reads_per_second,
            hit_seconds: self.hit,
            relations,
            remarks: target.remarks.iter().cloned().chain(closed).chain([device_remark]).chain(unknown).collect(),
        };
        terminal::print_answer(&rows, output.json, || render_rows(&rows, Canvas::of_stdout(false).width))?;
        Ok(ExitStatus::Done)
    }
}

struct CountedTable {
    database: String,
    name: RelationName,
    rows: f64,
    blocks: u64,
    index_blocks: Option<u64>,
}

/// Returns tables with row counts, names of tables without a row count, and remarks on inaccessible databases.
async fn read_databases(
    server: &Server,
    databases: &[Database],
    has_system: bool,
) -> Result<(Vec<CountedTable>, Vec<RelationName>, Vec<String>), postgres::Error> {
    let (mut tables, mut unknown, mut closed) = (Vec::new(), Vec::new(), Vec::new());
    for database in databases.iter().filter(|database| database.allows_connections) {
        match read_tables(server, database, has_system).await {
            Ok((counted, uncounted)) => {
                tables.extend(counted);
                unknown.extend(uncounted);
            }
            Err(error) if error.is_about_database() && databases.len() > 1 => {
                closed.push(format!("cannot read the tables of database \"{}\": {error}", database.name));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((tables, unknown, closed))
}

async fn read_tables(
    server: &Server,
    database: &Database,
    has_system: bool,
) -> Result<(Vec<CountedTable>, Vec<RelationName>), postgres::Error> {
    let mut connection = server.connect_to(&database.name).await?;
    let relations = read_relations(&mut connection, database, false).await?;
    let counts = read_row_counts(&mut connection).await?;
    let oids: Vec<u32> = relations.iter().map(|relation| relation.oid).collect();
    let forks = read_fork_blocks(&mut connection, &oids).await?;
    let main = forks.iter().filter(|fork| fork.fork == Fork::Main);
    let blocks: HashMap<u32, u64> = main.map(|fork| (fork.relation_oid, fork.blocks)).collect();
    let counts: HashMap<u32, RowCount> = counts.into_iter().map(|count| (count.relation_oid, count)).collect();
    let (mut tables, mut unknown) = (Vec::new(), Vec::new());
    for relation in relations {
        let is_table = matches!(relation.kind, RelationKind::Table | RelationKind::MaterializedView);
        if !is_table || (relation.is_system && !has_system) {
            continue;
        }
        let name = relation.name;
        match (counts.get(&relation.oid).filter(|count| count.rows > 0.0), blocks.get(&relation.oid)) {
            (Some(count), Some(now)) => tables.push(CountedTable {
                database: database.name.clone(),
                name,
                // Scales the counted rows to the current number of blocks, as the planner does.
                rows: count.rows * (*now as f64 / count.blocks as f64),
                blocks: *now,
                index_blocks: count.index_oid.and_then(|oid| blocks.get(&oid).copied()),
            }),
            _ => unknown.push(name),
        }
    }
    Ok((tables, unknown))
}

/// Row density of each table, and its load time with random reads.
#[derive(Debug, Serialize, crate::JsonSchema)]
pub struct RowsTable {
    /// Database of the connection.
    pub database: String,
    /// Random reads per second of the device.
    pub reads_per_second: f64,
    /// Duration of a one-row transaction if everything is cached.
    pub hit_seconds: f64,
    /// Largest first.
    pub relations: Vec<RowsOfTable>,
    pub remarks: Vec<String>,
}

/// A table without its indexes and TOAST.
#[derive(Debug, Serialize, crate::JsonSchema)]
pub struct RowsOfTable {
    pub database: String,
    pub relation: String,
    /// Row count of the last ANALYZE, scaled to the table's current size.
    pub rows: f64,
    pub bytes: Bytes,
    #[serde(flatten)]
    pub density: RowDensity,
    #[serde(flatten)]
    pub fill: FillTime,
}

pub fn render_rows(rows: &RowsTable, width: Option<usize>) -> String {
    let cells = |cell: &dyn Fn(&RowsOfTable) -> String| rows.relations.iter().map(cell).collect::<Vec<String>>();
    let databases: BTreeSet<&str> = rows.relations.iter().map(|row| row.database.as_str()).collect();
    let mut columns = vec![
        Column::text("table", 16, cells(&|row| printable(&row.relation).into_owned())),
        Column::number("rows", 0, cells(&|row| render_short(row.rows))),
        Column::number("size", 0, cells(&|row| row.bytes.to_string())),
        Column::number("bytes/row", 2, cells(&|row| format!("{:.0}", row.density.bytes_per_row))),
        Column::number("rows/page", 3, cells(&|row| format!("{:.1}", row.density.rows_per_page))),
        Column::number("rows/MB", 0, cells(&|row| format!("{:.0}", row.density.rows_per_mb))),
        Column::number("rows/s", 1, cells(&|row| render_short(row.fill.rows_per_second))),
        Column::number("fill", 0, cells(&|row| render_seconds(row.fill.fill_seconds))),
        Column::number("warm", 0, cells(&|row| render_seconds(row.fill.warm_after_seconds))),
    ];
    if databases.len() > 1 {
        columns.insert(0, Column::text("database", 8, cells(&|row| printable(&row.database).into_owned())));
    }
    let mut lines = match rows.relations.is_empty() {
        true => vec!["no table has row statistics: run ANALYZE".to_owned()],
        false => render_columns(columns, width, "…"),
    };
    let legend = "fill: rows ÷ rows/s, the time to load all rows by random reads of one page each; warm: forecast time until a client that fetches random rows through the index reads fewer than 1 % of the rows from the device";
    lines.push(String::new());
    lines.extend([legend.to_owned()].iter().chain(&rows.remarks).map(|text| wrap_text(&printable(text), width)));
    lines.join("\n")
}

#[cfg(test)]
mod table_tests {
    use super::*;

    #[test]
    fn rows_a_second_are_there_at_80_columns_beside_databases() {
        let row = |database: &str| RowsOfTable {
            database: database.into(),
            relation: "public.pgbench_accounts".into(),
            rows: 1e8,
            bytes: Bytes(13 << 30),
            density: RowDensity { bytes_per_row: 134.0, rows_per_page: 61.1, rows_per_mb: 7825.0 },
            fill: FillTime { rows_per_second: 183_000.0, fill_seconds: 546.0, warm_after_seconds: 1234.0 },
        };
        let (reads_per_second, hit_seconds, remarks) = (3000.0, 1e-4, Vec::new());
        let relations = vec![row("shop"), row("archive")];
        let table = RowsTable { database: "shop".into(), reads_per_second, hit_seconds, relations, remarks };
        let shown = render_rows(&table, Some(80));
        let titles = shown.lines().next().unwrap();
        assert!(titles.contains("rows/s ") && titles.contains("database"), "{shown}");
    }
}
