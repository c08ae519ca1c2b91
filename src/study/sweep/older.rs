//! A run that an older version kept in tables of its own, as the study that it was.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::point::{Axes, AxisLength};
use super::record::SweepRun;
use super::spec::{Sweep, render_digest};
use super::warmup::WarmupFacts;
use crate::postgres::ServerFacts;
use crate::study::finding::Finding;
use crate::study::measurement_verdict::{MeasurementVerdict, texts_of};
use crate::study::record::{Disk, Machine};

/// What it had in common with every study.
#[derive(Clone, Debug)]
pub struct OlderRun {
    pub id: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub pgthaw_version: String,
    pub machine: Machine,
    pub server: ServerFacts,
    pub warnings: Vec<String>,
    /// Warmers that could not run, each with how to get it.
    pub left_out: Vec<(String, String)>,
}

impl OlderRun {
    /// The study that asked for `asked`.
    pub fn study(self, asked: &Sweep, warmup: Option<WarmupFacts>) -> SweepRun {
        let left_out = self.left_out.into_iter();
        let verdicts: Vec<MeasurementVerdict> =
            left_out.map(|(strategy, how)| Finding::StrategyLeftOut { strategy, how }.into()).collect();
        SweepRun {
            started_at: self.started_at,
            ended_at: self.ended_at,
            pgthaw_version: self.pgthaw_version,
            pgbench_version: "unknown".to_owned(),
            machine: self.machine,
            server: self.server,
            configuration: Vec::new(),
            question: asked.question.clone(),
            // Of this run alone: nobody goes on with it, nor takes another for it.
            digest: render_digest(self.id.as_bytes()),
            study: serde_json::to_value(asked).unwrap_or_else(|_| unreachable!("maps of text become JSON")),
            varied: asked.axes.varied(),
            points: asked.points(),
            repeats: asked.repeats,
            seed: asked.seed.unwrap_or_default(),
            generator: Vec::new(),
            databases: Vec::new(),
            warnings: self.warnings.into_iter().chain(texts_of(&verdicts)).collect(),
            verdicts,
            warmup,
            source: None,
            id: self.id,
        }
    }
}

impl Sweep {
    /// Gives it the one point, but for its warmers, that a run of an older version had.
    pub fn set_older_point(&mut self, scale: u32, clients: u32, jobs: u32, seconds: u32, disk: &Disk) {
        self.disks = BTreeMap::from([(disk.name.clone(), disk.clone())]);
        let axes = &mut self.axes;
        (axes.scale, axes.clients, axes.jobs) = (vec![scale], vec![clients], vec![jobs]);
        axes.length = AxisLength::Seconds(vec![seconds]);
        axes.disk = vec![disk.name.clone()];
    }

    /// The number of the point with this warmer, which is among those that were set.
    pub fn number_of(&self, strategy: &str) -> u32 {
        self.axes.strategy.iter().position(|known| known == strategy).unwrap_or_default() as u32
    }
}

impl Axes {
    /// These warmers, each once; the one that is there stays where none is named.
    pub fn set_strategies(&mut self, names: impl IntoIterator<Item = String>) {
        let mut strategies: Vec<String> = Vec::new();
        for name in names {
            if !strategies.contains(&name) {
                strategies.push(name);
            }
        }
        if !strategies.is_empty() {
            self.strategy = strategies;
        }
    }
}
