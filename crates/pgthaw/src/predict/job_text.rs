use std::path::PathBuf;

use serde::Serialize;

use cache::trace::PriceSource;
use host::units::{Bytes, counted};
use terminal::{Canvas, Column, pasted_path, printable, render_columns, render_seconds, without_advice};

/// Forecast of a job by its film (docs/films.md).
#[derive(Debug, Serialize, crate::JsonSchema)]
pub struct JobPrediction {
    /// File of the film.
    pub film: PathBuf,
    /// The recorded command; empty for sessions.
    pub job: String,
    pub assumptions: Vec<String>,
    pub recorded: JobAsRecorded,
    /// Estimated number of block requests.
    pub requests: u64,
    /// Estimated number of distinct blocks requested.
    pub first_requests: u64,
    /// Exponent of the sampling: the film has all requests for one in 2^`sampling` blocks.
    pub sampling: u32,
    /// Smallest page cache in which at most 1 % of the repeated requests miss; 0 if any size suffices.
    pub sufficient_bytes: Bytes,
    pub costs: JobCosts,
    pub cases: Vec<JobCase>,
}

#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema)]
pub struct JobCosts {
    /// Time of the job without misses.
    pub own_seconds: f64,
    /// Additional time for each missed block.
    pub miss_seconds: f64,
    /// Device reads per missed block.
    pub miss_reads: f64,
    /// Bytes read from the device per missed block.
    pub miss_bytes: f64,
    /// Blocks that the job missed during the recording.
    pub missed_blocks: f64,
    /// How the costs of a missed block were determined.
    pub source: PriceSource,
}

#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema)]
pub struct JobAsRecorded {
    pub seconds: f64,
    /// Bytes that were not in the page cache when the job first requested them.
    pub fetched_bytes: Bytes,
    /// Device reads by all processes; `None` if not counted.
    pub device_reads: Option<u64>,
    /// Bytes read from the device, by all processes. `None` if not counted.
    pub device_bytes: Option<Bytes>,
}

/// The job at one memory size, with no block cached at first.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct JobCase {
    /// `now: SIZE` for the machine's memory, `memory=SIZE` as given, or `enough` if no size is known.
    pub name: String,
    /// Memory for all cached data.
    pub memory_bytes: Bytes,
    /// Memory for the page cache.
    pub page_cache_bytes: Bytes,
    pub missed_requests: u64,
    /// Share of requests that miss, 0 to 1.
    pub miss_ratio: f64,
    pub device_reads: u64,
    pub device_bytes: Bytes,
    pub seconds: f64,
}

pub fn render_job_prediction(prediction: &JobPrediction, canvas: Canvas) -> String {
    let JobPrediction { recorded, cases, .. } = prediction;
    let job = match &*prediction.job {
        "" => "server activity".to_owned(),
        job => without_advice(&printable(job)),
    };
    let reads = recorded.device_reads.map_or(String::new(), |reads| {
        let delivered = recorded.device_bytes.map_or(String::new(), |bytes| format!(" ({bytes})"));
        format!(", in {} by all processes{delivered}", counted(reads, "device read"))
    });
    let mut lines = vec![
        format!("film of {job}"),
        format!("  {}", pasted_path(&prediction.film)),
        format!("recorded: {}, {} fetched{reads}", render_seconds(recorded.seconds), recorded.fetched_bytes),
        match prediction.sufficient_bytes {
            Bytes(0) => "almost no block was requested again, so more page cache would not help".to_owned(),
            sufficient => format!("with {sufficient} of page cache, almost no block is fetched twice"),
        },
    ];
    if !cases.is_empty() {
        let cells = |text: &dyn Fn(&JobCase) -> String| cases.iter().map(text).collect::<Vec<_>>();
        let columns = vec![
            Column::text("memory", 12, cells(&|case| printable(&case.name).into_owned())),
            Column::number("page cache", 2, cells(&|case| case.page_cache_bytes.to_string())),
            Column::number("missed", 0, cells(&|case| format!("{:.1} %", case.miss_ratio * 100.0))),
            Column::number("missed requests", 3, cells(&|case| case.missed_requests.to_string())),
            Column::number("reads", 1, cells(&|case| case.device_reads.to_string())),
            Column::number("job", 0, cells(&|case| render_seconds(case.seconds))),
        ];
        lines.push(String::new());
        lines.extend(render_columns(columns, canvas.width, canvas.mark()));
        lines.push(String::new());
    }
    lines.push("assumed:".to_owned());
    lines.extend(prediction.assumptions.iter().map(|assumption| format!("  {}", printable(assumption))));
    lines.join("\n")
}
