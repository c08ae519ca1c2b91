use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::database::{Query, Row};
use super::{Error, Result, Store};
use crate::study::MEASURES;
use command::table::{self as rows_of, Cell, ExportColumn, ExportFile, Kind, ParquetRows, RowWriter};
use postgres::keep_text;

/// Rows of one kind: the points of studies, their trials, or every second of the trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportTable {
    Points,
    Trials,
    Seconds,
}

// Columns of the views, with type. Append new ones at the end.
const POINTS: &str = "\
    sweep_id:text number:integer scale:integer clients:integer jobs:integer script:text rate:float \
    latency_limit_ms:float start_asked:text strategy:text disk:text file_system:text server:text \
    database:text side:text variables:text point_settings:text trials:integer tps_median:float \
    tps_min:float tps_max:float worst_second_tps:float query_mode:text memory_bytes:integer places:text \
    seconds:integer transactions:integer total_transactions:integer connect:integer";

const TRIALS: &str = "\
    sweep_id:text question:text number:integer repeat:integer position:integer started_at:text \
    scale:integer clients:integer jobs:integer script:text rate:float latency_limit_ms:float \
    start_asked:text start_verdict:text strategy:text disk:text file_system:text server:text \
    database:text server_version:text side:text variables:text point_settings:text lasted_seconds:float \
    tps:float worst_second_tps:float checkpoint_cycles:integer cycle_tps:float latency_us_p50:integer \
    latency_us_p95:integer latency_us_p99:integer latency_us_p999:integer transactions:integer \
    failed:integer skipped:integer late:integer retried:integer retries:integer device_read_bytes:integer \
    device_writes_per_second:float device_written_bytes:integer failure:text warm_after_seconds:float \
    bound_seconds:float served_until_warm:integer warm_tps:float run_started_at:text hostname:text \
    bound_ratio:float steady_tps:float to_50_seconds:float to_90_seconds:float to_95_seconds:float \
    ended_after_seconds:float issued_bytes:integer strategy_failure:text wanted_bytes:integer \
    resident_after_seconds:float buffers_after_seconds:float cpu_seconds:float device_reads:integer \
    checkpoints_timed:integer checkpoints_requested:integer buffers_checkpoint:integer \
    buffers_clean:integer buffers_backend:integer maxwritten_clean:integer buffers_alloc:integer \
    device_reads_per_second:float device_reads_per_second_max:float device_bytes_per_write:float \
    server_cpu_us_per_transaction:float ended_at:text query_mode:text memory_bytes:integer places:text \
    load_seconds:float whole_seconds:float";

const SECONDS: &str = "\
    sweep_id:text number:integer repeat:integer scale:integer clients:integer script:text \
    latency_limit_ms:float start_asked:text strategy:text file_system:text server:text database:text \
    second:integer wall_ms:integer transactions:integer latency_us_mean:float latency_us_min:integer \
    latency_us_max:integer foreground_read_bytes:integer device_read_bytes:integer device_reads:integer \
    os_resident_bytes:integer generator_cpu_seconds:float busiest_thread_cpu_seconds:float \
    server_cpu_seconds:float server_run_delay_seconds:float processors_busy_seconds:float \
    device_writes:integer device_written_bytes:integer device_queue:float dirty_bytes:integer \
    writeback_bytes:integer pressure_io_some:float latency_us_deviation:float";

/// Columns of each export. For seconds, also one column for each measure that the view `sweep_seconds` lacks.
static COLUMNS: LazyLock<[Vec<ExportColumn>; 3]> = LazyLock::new(|| {
    let mut all = [POINTS, TRIALS, SECONDS].map(|list| ExportColumn::parse_list(list).collect::<Vec<_>>());
    let of_view: Vec<&str> = all[2].iter().map(|column| column.name).collect();
    let names = MEASURES.iter().map(|measure| measure.name).filter(|name| !of_view.contains(name));
    let more: Vec<ExportColumn> = names.map(|name| ExportColumn { name, kind: Kind::Float }).collect();
    all[2].extend(more);
    all
});

const SECONDS_AND_MEASURES: &str =
    "sweep_seconds LEFT JOIN sweep_os_samples AS gauged USING (sweep_id, number, repeat, second)";

impl ExportTable {
    pub fn columns(self) -> &'static [ExportColumn] {
        &COLUMNS[self as usize]
    }

    fn query(self) -> String {
        let (view, from, order) = match self {
            ExportTable::Points => ("sweep_points", "sweep_points", "number"),
            ExportTable::Trials => ("sweep_summary", "sweep_summary", "position"),
            ExportTable::Seconds => ("sweep_seconds", SECONDS_AND_MEASURES, "number, repeat, second"),
        };
        let is_of_view =
            |name: &str| self != ExportTable::Seconds || ExportColumn::parse_list(SECONDS).any(|one| one.name == name);
        let expression = |ExportColumn { name, .. }: &ExportColumn| match is_of_view(name) {
            true => format!("{view}.{name}"),
            false => format!("CAST(gauged.measures ->> '{name}' AS DOUBLE PRECISION) AS {name}"),
        };
        let columns: Vec<String> = self.columns().iter().map(expression).collect();
        let order: Vec<String> = order.split(", ").map(|name| format!("{view}.{name}")).collect();
        format!("SELECT {} FROM {from} WHERE {view}.sweep_id = $1 ORDER BY {}", columns.join(", "), order.join(", "))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum ExportFormat {
    Csv,
    Json,
    Parquet,
}

impl Store {
    pub async fn export<W: Write + Send + 'static>(
        &self,
        table: ExportTable,
        ids: &[String],
        format: ExportFormat,
        output: W,
    ) -> Result<u64> {
        let failed = |source: std::io::Error| rows_of::Error::Export(source);
        let mut writer: Box<dyn RowWriter> = match format {
            ExportFormat::Csv => {
                let mut lines = csv::Writer::from_writer(output);
                let titles = lines.write_record(table.columns().iter().map(|column| column.name));
                titles.map_err(|error| failed(error.into()))?;
                Box::new(CsvRows(lines))
            }
            ExportFormat::Json => Box::new(JsonRows { table, output, has_any: false }),
            ExportFormat::Parquet => {
                Box::new(ParquetRows::new("results", table.columns(), &[], output).map_err(failed)?)
            }
        };
        let mut exported = 0;
        for id in ids {
            let query = Query::new(table.query()).bind(id);
            let rows = self.read(query, |row| cells_of(table, row)).await?;
            exported += rows.len() as u64;
            writer.write(rows).map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
        Ok(exported)
    }

    /// Writes a file completely or not at all, but devices and pipes directly.
    pub async fn export_to_file(
        &self,
        table: ExportTable,
        ids: &[String],
        format: ExportFormat,
        path: &Path,
    ) -> Result<u64> {
        let file = ExportFile::open(path, "--output FILE")?;
        let rows = self.export(table, ids, format, file.output()?).await;
        let rows = rows.map_err(|error| match error {
            Error::Table(error) => Error::Table(file.told(error)),
            other => other,
        })?;
        file.place()?;
        Ok(rows)
    }
}

fn cells_of(table: ExportTable, row: &Row) -> Result<Vec<Cell>, sqlx::Error> {
    let cell = |column: &ExportColumn| {
        Ok(match column.kind {
            Kind::Text => Cell::Text(row.text(column.name)?.map(keep_text)),
            Kind::Integer => Cell::Integer(row.integer(column.name)?),
            Kind::Float => Cell::Float(row.try_get(column.name)?),
        })
    };
    table.columns().iter().map(cell).collect()
}

/// NULL is an empty field.
struct CsvRows<W: Write>(csv::Writer<W>);

impl<W: Write> RowWriter for CsvRows<W> {
    fn write(&mut self, rows: Vec<Vec<Cell>>) -> std::io::Result<()> {
        rows.into_iter().try_for_each(|row| Ok(self.0.write_record(row.into_iter().map(render))?))
    }

    fn finish(mut self: Box<Self>) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn render(cell: Cell) -> String {
    match cell {
        Cell::Text(text) => text.unwrap_or_default(),
        Cell::Integer(number) => number.map(|number| number.to_string()).unwrap_or_default(),
        Cell::Float(number) => number.map(|number| number.to_string()).unwrap_or_default(),
    }
}

struct JsonRows<W: Write> {
    table: ExportTable,
    output: W,
    has_any: bool,
}

impl<W: Write> RowWriter for JsonRows<W> {
    fn write(&mut self, rows: Vec<Vec<Cell>>) -> std::io::Result<()> {
        for row in rows {
            let columns = self.table.columns().iter().map(|column| column.name.to_owned());
            let object: Map<String, Value> = columns.zip(row.into_iter().map(value_of)).collect();
            self.output.write_all(if self.has_any { b",\n" } else { b"[\n" })?;
            serde_json::to_writer(&mut self.output, &object)?;
            self.has_any = true;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> std::io::Result<()> {
        self.output.write_all(if self.has_any { b"\n]\n" } else { b"[]\n" })?;
        self.output.flush()
    }
}

fn value_of(cell: Cell) -> Value {
    match cell {
        Cell::Text(text) => text.into(),
        Cell::Integer(number) => number.into(),
        Cell::Float(number) => number.into(),
    }
}
