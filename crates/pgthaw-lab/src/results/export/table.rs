//! Which tables can be exported: a documented view each, its columns with their types.

use std::str::FromStr;
use std::sync::LazyLock;

use super::super::sweep_gauges::{FLOATS, INTEGERS};
use crate::study::MEASURES;
use command::table::ExportColumn;

/// Rows of one kind: the points of studies, their trials, or every second of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportTable {
    Points,
    Trials,
    Seconds,
}

const fn text(name: &'static str) -> ExportColumn {
    ExportColumn::text(name)
}

const fn integer(name: &'static str) -> ExportColumn {
    ExportColumn::integer(name)
}

const fn float(name: &'static str) -> ExportColumn {
    ExportColumn::float(name)
}

const POINTS: &[ExportColumn] = &[
    text("sweep_id"),
    integer("number"),
    integer("scale"),
    integer("clients"),
    integer("jobs"),
    text("script"),
    float("rate"),
    float("latency_limit_ms"),
    text("start_asked"),
    text("strategy"),
    text("disk"),
    text("file_system"),
    text("server"),
    text("database"),
    text("side"),
    text("variables"),
    text("point_settings"),
    integer("trials"),
    float("tps_median"),
    float("tps_min"),
    float("tps_max"),
    float("worst_second_tps"),
    text("query_mode"),
    integer("memory_bytes"),
    text("places"),
    integer("seconds"),
    integer("transactions"),
    integer("total_transactions"),
    integer("connect"),
];

const TRIALS: &[ExportColumn] = &[
    text("sweep_id"),
    text("question"),
    integer("number"),
    integer("repeat"),
    integer("position"),
    text("started_at"),
    integer("scale"),
    integer("clients"),
    integer("jobs"),
    text("script"),
    float("rate"),
    float("latency_limit_ms"),
    text("start_asked"),
    text("start_verdict"),
    text("strategy"),
    text("disk"),
    text("file_system"),
    text("server"),
    text("database"),
    text("server_version"),
    text("side"),
    text("variables"),
    text("point_settings"),
    float("lasted_seconds"),
    float("tps"),
    float("worst_second_tps"),
    integer("checkpoint_cycles"),
    float("cycle_tps"),
    integer("latency_us_p50"),
    integer("latency_us_p95"),
    integer("latency_us_p99"),
    integer("latency_us_p999"),
    integer("transactions"),
    integer("failed"),
    integer("skipped"),
    integer("late"),
    integer("retried"),
    integer("retries"),
    integer("device_read_bytes"),
    float("device_writes_per_second"),
    integer("device_written_bytes"),
    text("failure"),
    float("warm_after_seconds"),
    float("bound_seconds"),
    integer("served_until_warm"),
    float("warm_tps"),
    text("run_started_at"),
    text("hostname"),
    float("bound_ratio"),
    float("steady_tps"),
    float("to_50_seconds"),
    float("to_90_seconds"),
    float("to_95_seconds"),
    float("ended_after_seconds"),
    integer("issued_bytes"),
    text("strategy_failure"),
    integer("wanted_bytes"),
    float("resident_after_seconds"),
    float("buffers_after_seconds"),
    float("cpu_seconds"),
    integer("device_reads"),
    integer("checkpoints_timed"),
    integer("checkpoints_requested"),
    integer("buffers_checkpoint"),
    integer("buffers_clean"),
    integer("buffers_backend"),
    integer("maxwritten_clean"),
    integer("buffers_alloc"),
    float("device_reads_per_second"),
    float("device_reads_per_second_max"),
    float("device_bytes_per_write"),
    float("server_cpu_us_per_transaction"),
    text("ended_at"),
    text("query_mode"),
    integer("memory_bytes"),
    text("places"),
    float("load_seconds"),
    float("whole_seconds"),
];

/// Columns of the view `sweep_seconds`.
const SECONDS: &[ExportColumn] = &[
    text("sweep_id"),
    integer("number"),
    integer("repeat"),
    integer("scale"),
    integer("clients"),
    text("script"),
    float("latency_limit_ms"),
    text("start_asked"),
    text("strategy"),
    text("file_system"),
    text("server"),
    text("database"),
    integer("second"),
    integer("wall_ms"),
    integer("transactions"),
    float("latency_us_mean"),
    integer("latency_us_min"),
    integer("latency_us_max"),
    integer("foreground_read_bytes"),
    integer("device_read_bytes"),
    integer("device_reads"),
    integer("os_resident_bytes"),
    float("generator_cpu_seconds"),
    float("busiest_thread_cpu_seconds"),
    float("server_cpu_seconds"),
    float("server_run_delay_seconds"),
    float("processors_busy_seconds"),
    integer("device_writes"),
    integer("device_written_bytes"),
    float("device_queue"),
    integer("dirty_bytes"),
    integer("writeback_bytes"),
    float("pressure_io_some"),
    float("latency_us_deviation"),
];

/// The view's, and every measure that it does not have.
static SECONDS_WITH_MEASURES: LazyLock<Vec<ExportColumn>> = LazyLock::new(|| {
    let is_known = |name: &str| SECONDS.iter().any(|column| column.name == name);
    let more = MEASURES
        .iter()
        .filter(|measure| !is_known(measure.name))
        .map(|measure| if INTEGERS.contains(&measure.name) { integer(measure.name) } else { float(measure.name) });
    SECONDS.iter().copied().chain(more).collect()
});

/// Beside the view stands the table with the measures.
const SECONDS_AND_MEASURES: &str = "
sweep_seconds LEFT JOIN sweep_os_samples AS gauged ON gauged.sweep_id = sweep_seconds.sweep_id
    AND gauged.number = sweep_seconds.number AND gauged.repeat = sweep_seconds.repeat
    AND gauged.second = sweep_seconds.second";

impl ExportTable {
    pub const ALL: [(ExportTable, &str); 3] =
        [(ExportTable::Points, "points"), (ExportTable::Trials, "trials"), (ExportTable::Seconds, "seconds")];

    /// The columns, in their order.
    pub fn columns(self) -> &'static [ExportColumn] {
        match self {
            ExportTable::Points => POINTS,
            ExportTable::Trials => TRIALS,
            ExportTable::Seconds => &SECONDS_WITH_MEASURES,
        }
    }

    /// The rows of one study.
    pub(super) fn query(self) -> String {
        let (view, from, order) = match self {
            ExportTable::Points => ("sweep_points", "sweep_points", "number"),
            ExportTable::Trials => ("sweep_summary", "sweep_summary", "position"),
            ExportTable::Seconds => ("sweep_seconds", SECONDS_AND_MEASURES, "number, repeat, second"),
        };
        let columns: Vec<String> = self.columns().iter().map(|column| self.expression(view, column.name)).collect();
        let order: Vec<String> = order.split(", ").map(|name| format!("{view}.{name}")).collect();
        format!("SELECT {} FROM {from} WHERE {view}.sweep_id = $1 ORDER BY {}", columns.join(", "), order.join(", "))
    }

    fn expression(self, view: &str, name: &str) -> String {
        if self != ExportTable::Seconds || SECONDS.iter().any(|column| column.name == name) {
            format!("{view}.{name}")
        } else if FLOATS.contains(&name) || INTEGERS.contains(&name) {
            format!("gauged.{name}")
        } else {
            format!("CAST(gauged.measures ->> '{name}' AS DOUBLE PRECISION) AS {name}")
        }
    }
}

impl FromStr for ExportTable {
    type Err = String;

    fn from_str(text: &str) -> Result<ExportTable, String> {
        let found = ExportTable::ALL.into_iter().find(|(_, name)| *name == text);
        found.map(|(table, _)| table).ok_or_else(|| "it is one of points, trials, seconds".to_owned())
    }
}
