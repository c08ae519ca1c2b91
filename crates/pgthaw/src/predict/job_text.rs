//! How long a job takes with other memory, for people and programs.

use std::path::PathBuf;

use serde::Serialize;

use cache::trace::PriceSource;
use host::units::{Bytes, counted};
use terminal::{Canvas, Column, pasted_path, printable, render_columns, render_seconds, without_advice};

/// What `predict --film --json` prints.
#[derive(Debug, Serialize)]
pub struct JobPrediction {
    /// The film's file, and the job's command; empty where there was none.
    pub film: PathBuf,
    pub job: String,
    pub assumptions: Vec<String>,
    pub recorded: JobAsRecorded,
    /// What the job asked the page cache for: requests of blocks, and those of them that are a block's first.
    pub requests: u64,
    pub first_requests: u64,
    /// Of one block in 2 to this power requests are known.
    pub sampling: u32,
    /// The least page cache with which no more than 1 % of the requests are missed that were there once; 0 where any will do.
    pub sufficient_bytes: Bytes,
    pub costs: JobCosts,
    pub cases: Vec<JobCase>,
}

/// What a job's time and its reads are made of.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct JobCosts {
    /// In which it does not wait for the device.
    pub own_seconds: f64,
    /// Of the device for a missed block, in the mean, with its reads and their bytes.
    pub miss_seconds: f64,
    pub miss_reads: f64,
    pub miss_bytes: f64,
    /// Blocks that the recorded run missed.
    pub missed_blocks: f64,
    pub source: PriceSource,
}

/// The job as its film has it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct JobAsRecorded {
    pub seconds: f64,
    /// What was fetched when it was asked for first.
    pub fetched_bytes: Bytes,
    /// Whoever issued the reads; `None` where nobody counted.
    pub device_reads: Option<u64>,
    pub device_bytes: Option<Bytes>,
}

/// The job with so much memory, none of its blocks being cached when it begins.
#[derive(Clone, Debug, Serialize)]
pub struct JobCase {
    pub name: String,
    /// For what is cached, shared_buffers included, and what of it is page cache.
    pub memory_bytes: Bytes,
    pub page_cache_bytes: Bytes,
    pub missed_requests: u64,
    /// Of all requests, 0 to 1.
    pub miss_ratio: f64,
    pub device_reads: u64,
    pub device_bytes: Bytes,
    pub seconds: f64,
}

/// How the job went, how much memory it needs, a row for each case and the assumptions.
pub fn render_job_prediction(prediction: &JobPrediction, canvas: Canvas) -> String {
    let JobPrediction { recorded, cases, .. } = prediction;
    let job = match &*prediction.job {
        "" => "whatever ran".to_owned(),
        job => without_advice(&printable(job)),
    };
    let reads = recorded.device_reads.map_or(String::new(), |reads| {
        let delivered = recorded.device_bytes.map_or(String::new(), |bytes| format!(" ({bytes})"));
        format!(", in {} of the device by anybody{delivered}", counted(reads, "read"))
    });
    let mut lines = vec![
        format!("film of {job}"),
        format!("  {}", pasted_path(&prediction.film)),
        format!("recorded: {}, {} fetched{reads}", render_seconds(recorded.seconds), recorded.fetched_bytes),
        match prediction.sufficient_bytes {
            Bytes(0) => "hardly a block was asked for again: more memory than its own spares nothing".to_owned(),
            sufficient => format!("{sufficient} of page cache suffice: then hardly a block is fetched twice"),
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
