//! `pgthaw map --rows`: the figures are computed in `crates/model/src/fill.rs`.

pub mod rows_text;

use std::cmp::Reverse;
use std::collections::HashMap;

use anyhow::bail;
use clap::Args;

use super::{ExitStatus, OutputArguments, Target};
use crate::evict::receipt_text::render_names;
use crate::rows::rows_text::render_rows;
use crate::rows::rows_text::{RowsOfTable, RowsTable};
use command::read_device_with;
use host::units::{Bytes, Fork};
use model::{Error, FillTime, RowDensity, parse_hit, parse_reads};
use postgres::{
    Database, RelationKind, RelationName, RowCount, Server, read_fork_blocks, read_relations, read_row_counts,
};
use terminal::Canvas;

/// What the time is computed for.
#[derive(Debug, Args)]
pub struct FillArguments {
    /// Random reads that the device serves in a second, a block each [default: as probed, else 3000]
    #[arg(long, value_name = "READS", value_parser = parse_reads, requires = "rows")]
    riops: Option<f64>,

    /// What a transaction of one row takes when all is cached
    #[arg(long, value_name = "TIME", value_parser = parse_hit, default_value = "0.1ms", requires = "rows")]
    hit: f64,
}

impl FillArguments {
    /// Rows, bytes of a row, rows of a page and of a megabyte; then the time until a device that seeks for each row has brought in
    /// the table: by the estimate of Greg Smith's pgbench slides, and by pgthaw's own model of rows that are asked for at random
    /// through their index. Rows are counted by the last ANALYZE. Needs SQL alone.
    pub async fn print(
        &self,
        target: &Target,
        with_system: bool,
        output: OutputArguments,
    ) -> anyhow::Result<ExitStatus> {
        let Some(server) = &target.server else { bail!(Error::NoRows) };
        let path = target.data_directory.as_ref().map(|directory| &*directory.path);
        let (device, device_remark) = read_device_with(self.riops, None, path)?;
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
        let unknown = (!unknown.is_empty()).then(|| format!("not analysed, or empty: {names}"));
        let rows = RowsTable {
            database: server.database.clone(),
            reads_per_second: device.reads_per_second,
            hit_seconds: self.hit,
            relations,
            remarks: target.remarks.iter().cloned().chain(closed).chain([device_remark]).chain(unknown).collect(),
        };
        match output.json {
            true => terminal::print_json(&rows)?,
            false => terminal::print_line(&render_rows(&rows, Canvas::of_stdout(false).width)),
        }
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

/// The tables of the databases, the names of those whose rows nobody has counted, and which databases let nobody in.
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
            // What one database does to its visitors is no reason to go without the others.
            Err(error) if error.is_about_database() && databases.len() > 1 => {
                closed.push(format!("the tables of database \"{}\" are not here: {error}", database.name));
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
                // As the planner does: what was counted, for the blocks that there are now.
                rows: count.rows * (*now as f64 / count.blocks as f64),
                blocks: *now,
                index_blocks: count.index_oid.and_then(|oid| blocks.get(&oid).copied()),
            }),
            _ => unknown.push(name),
        }
    }
    Ok((tables, unknown))
}
