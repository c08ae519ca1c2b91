//! What earlier runs measured: the list of runs, and the head of one.

use comfy_table::{ColumnConstraint, ContentArrangement, Table};

use super::tournament::STYLE;

use crate::bench::{Disk, Run};

/// A run in the list, with what its trials say.
#[derive(Debug)]
pub struct RunLine<'a> {
    pub run: &'a Run,
    pub trials: usize,
    pub headline: String,
}

/// The runs, one per row.
pub fn render_runs(lines: &[RunLine<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["run", "when (UTC)", "scale", "disk", "strategies", "trials", "what it showed"]);
    for line in lines {
        let study = &line.run.study;
        let planned = study.strategies.len() * study.repeats as usize;
        table.add_row([
            line.run.id.clone(),
            line.run.started_at.strftime("%Y-%m-%d %H:%M").to_string(),
            study.scale.to_string(),
            study.disk.name.clone(),
            study.strategies.len().to_string(),
            if line.trials == planned { planned.to_string() } else { format!("{} of {planned}", line.trials) },
            line.headline.clone(),
        ]);
    }
    // Only the sentence at the end gives way where the terminal is narrow.
    table.set_constraints([ColumnConstraint::ContentWidth; 6]);
    table.trim_fmt()
}

/// What a run was: machine, server, study, disk, and what it says against itself.
pub fn render_run_head(run: &Run) -> String {
    let (machine, server, study) = (&run.machine, &run.server, &run.study);
    let state = match run.ended_at {
        Some(ended) => format!("{} minutes", (ended.as_second() - run.started_at.as_second() + 30) / 60),
        None => "did not end".to_owned(),
    };
    let mut lines = vec![
        format!("run      {}, {} UTC, {state}", run.id, run.started_at.strftime("%Y-%m-%d %H:%M:%S")),
        format!(
            "machine  {}, {} × {}, {} memory, Linux {}, {} on {}",
            machine.hostname,
            machine.cores,
            machine.cpu_model,
            machine.memory_bytes,
            machine.kernel,
            machine.file_system,
            machine.device.name
        ),
        format!("server   PostgreSQL {}, shared_buffers {}", server.version, server.shared_buffers_bytes),
        format!(
            "study    scale {} ({}), {} with {} clients, {} s × {} repeats, seed {}",
            study.scale, study.database_bytes, study.script, study.clients, study.seconds, study.repeats, study.seed
        ),
        format!("disk     {}", render_disk(&study.disk)),
    ];
    lines.extend(study.skipped_strategies.iter().map(|(name, how)| format!("skipped  {name}: {how}")));
    lines.extend(run.warnings.iter().map(|warning| format!("warning  {warning}")));
    lines.join("\n")
}

/// `gp3: 3000 reads/s, 131 MB/s`, or why that is not in force.
pub fn render_disk(disk: &Disk) -> String {
    let reads = disk.riops.map(|riops| format!("{riops} reads/s"));
    let bandwidth = disk.rbps.map(|rbps| format!("{rbps}/s"));
    let limits: Vec<String> = reads.into_iter().chain(bandwidth).collect();
    let limits = if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") };
    match &disk.not_enforced {
        Some(why) => format!("{} ({limits}) is NOT in force: {why}", disk.name),
        None => format!("{}: {limits}", disk.name),
    }
}
