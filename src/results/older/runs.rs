//! A run of `bench warmup` as older versions kept it, read from the tables that it was kept in.

use std::collections::HashMap;

use super::super::columns::{Columns, columns};
use super::super::database::{Query, Row, Transaction, Values};
use crate::study::{Record as _, Run, Sample, StrategyOutcome, SweepRun, SweepTrial, Trial};
use crate::verdict::make_study_of_run;

columns!(Run {
    id, started_at, ended_at, pgthaw_version, steady_tps
    ; json machine, server, settings, study, warnings
    ; apart databases
});

columns!(Trial {
    run_id, strategy, repeat, position, started_at, warm_after_seconds, to_50_seconds, to_90_seconds, to_95_seconds,
    served_until_warm, served, device_read_bytes, no_verdict
    ; json residency, warnings, foreground_tenths
    ; optional_json judgement
    ; flat start_state, outcome
    ; apart samples
});

columns!(StrategyOutcome { command, ended_after_seconds, issued_bytes, failure, output });

pub(super) async fn read_run(
    transaction: &mut Transaction,
    run: &Row,
) -> Result<(SweepRun, Vec<SweepTrial>), sqlx::Error> {
    let run: Run = Columns::read(run)?;
    let query = "SELECT *, CAST(NULL AS DOUBLE PRECISION) AS latency_us_deviation FROM samples WHERE run_id = $1 ORDER BY strategy, repeat, second";
    let mut samples: HashMap<(String, u32), Vec<Sample>> = HashMap::new();
    for row in Query::new(query).bind(&run.id).fetch_within(transaction).await? {
        samples.entry((row.get("strategy")?, row.get("repeat")?)).or_default().push(Columns::read(&row)?);
    }
    let query = "SELECT * FROM trials WHERE run_id = $1 ORDER BY position, strategy, repeat";
    let rows = Query::new(query).bind(&run.id).fetch_within(transaction).await?;
    let trial = |row: &Row| {
        let mut trial: Trial = Columns::read(row)?;
        trial.outcome.hide_secrets();
        trial.samples = samples.remove(&(trial.strategy.clone(), trial.repeat)).unwrap_or_default();
        Ok(trial)
    };
    let trials: Result<_, sqlx::Error> = rows.iter().map(trial).collect();
    Ok(make_study_of_run(&run, trials?))
}
