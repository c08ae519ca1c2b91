//! What the page gets of every study, and the page with it.

use serde::Serialize;

use super::page::{PageKind, render_page};
use super::tournament::Tournament;
use crate::command::document::Error;
use crate::study::{MEASURES, Measure, SweepRun, SweepTrial};
use crate::verdict::{
    Metric, MetricFacts, Noise, PointSummary, TimedPoint, TrialOutline, TrialSeries, WarmerRatio,
    compute_outline_summary, compute_timed_points, compute_total_seconds, compute_warmer_ratios, render_sweep_headline,
};

/// Version of the data in the page (docs/formats.md).
const FORMAT: u32 = 2;

/// A study as it is looked at: `serve` sends this, and the page of a report holds it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StudyData {
    /// What it asks, or what it is about.
    pub subject: String,
    /// The answer in one sentence.
    pub headline: String,
    /// That its trials took together; `None` where no end of one is known.
    pub total_seconds: Option<f64>,
    pub sweep: SweepRun,
    /// Numbers beyond 2⁵³ as text: a browser would round them.
    pub exact: ExactNumbers,
    pub points: Vec<PointSummary>,
    pub trials: Vec<TrialOutline>,
    /// What equal sides differ by, figure by figure; nothing when no point was measured twice.
    pub noise: Vec<Noise>,
    /// What the curves of its trials stand for.
    pub measures: &'static [Measure],
    /// Of a study of ways to warm how they compare; `None` of others.
    pub tournament: Option<Tournament>,
    /// Where the time of the servers went, of each point of which somebody looked.
    pub timed: Vec<TimedPoint>,
    /// Of warmers within the rounds; none of a study of ways to warm.
    pub ratios: Vec<WarmerRatio>,
}

/// Numbers that JavaScript does not keep.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ExactNumbers {
    pub seed: String,
    pub system_identifier: String,
}

/// A trial as it is looked at: what it left behind, and its curves.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TrialData {
    pub trial: SweepTrial,
    pub series: TrialSeries,
}

/// A study for a page that nobody serves: all of its trials with it, unless they are too many.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StudyInPage {
    pub study: StudyData,
    pub details: Option<Vec<TrialData>>,
}

impl StudyInPage {
    pub fn new(mut study: StudyData, details: Option<Vec<TrialData>>) -> StudyInPage {
        if let Some(tournament) = study.tournament.as_mut().filter(|_| details.is_some()) {
            tournament.leave_to_details();
        }
        StudyInPage { study, details }
    }
}

/// What a page holds when it is opened.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PageData<'a> {
    format: u32,
    kind: &'static str,
    /// What the figures are that points and trials have.
    metrics: Vec<MetricFacts>,
    studies: &'a [StudyInPage],
}

impl PageData<'_> {
    fn new<'a>(kind: &'static str, studies: &'a [StudyInPage]) -> PageData<'a> {
        PageData { format: FORMAT, kind, metrics: Metric::ALL.iter().map(|metric| metric.facts()).collect(), studies }
    }
}

impl TrialData {
    /// The trial without its seconds, which the curves stand for in at most so many spans.
    pub fn new(mut trial: SweepTrial, spans_max: u32) -> TrialData {
        let series = TrialSeries::new(&trial, spans_max);
        trial.samples.clear();
        trial.os_samples.clear();
        trial.wait_samples.clear();
        if let Some(warming) = &mut trial.warming {
            warming.foreground_tenths.clear();
        }
        TrialData { trial, series }
    }
}

impl StudyData {
    pub fn new(sweep: SweepRun, trials: Vec<TrialOutline>, noise: Vec<Noise>) -> StudyData {
        let points = compute_outline_summary(&sweep, &trials);
        let exact = ExactNumbers {
            seed: sweep.seed.to_string(),
            system_identifier: sweep.server.system_identifier.to_string(),
        };
        let (subject, headline) = (sweep.subject(), render_sweep_headline(&sweep.varied, &points));
        let ratios = compute_warmer_ratios(&sweep, &trials);
        let timed = compute_timed_points(&sweep, &points);
        StudyData {
            timed,
            subject,
            headline,
            total_seconds: compute_total_seconds(&trials),
            sweep,
            exact,
            points,
            trials,
            noise,
            measures: MEASURES,
            tournament: None,
            ratios,
        }
    }

    /// Holds the ways to warm against each other; `trials` have all of their seconds, which are drawn in at most so many spans.
    pub fn with_tournament(mut self, trials: Vec<SweepTrial>, spans_max: u32) -> StudyData {
        let tournament = Tournament::new(&self.sweep, trials, spans_max);
        self.headline.clone_from(&tournament.headline);
        self.tournament = Some(tournament);
        self
    }
}

/// The report of one or more studies of any kind as one HTML document. Whatever names they hold, they stay text.
pub fn render_report(studies: &[StudyInPage]) -> Result<String, Error> {
    let subject = studies.first().map_or("", |one| &one.study.subject);
    let json = serde_json::to_string(&PageData::new("studies", studies))?;
    Ok(render_page(PageKind::Alone, subject, &json))
}

/// The page of `serve`, which asks for what it shows.
pub fn render_served_page() -> Result<String, Error> {
    let json = serde_json::to_string(&PageData::new("served", &[]))?;
    Ok(render_page(PageKind::Served, "studies", &json))
}

/// The page of an address that nothing has: it leads to what there is.
pub fn render_missing_page() -> Result<String, Error> {
    let json = serde_json::to_string(&PageData::new("missing", &[]))?;
    Ok(render_page(PageKind::Served, "nothing is here", &json))
}
