//! The report of studies: one HTML file that holds its script, its style and its data, and asks the network for nothing.

use serde::Serialize;

use crate::study::{MEASURES, Measure, SweepRun, SweepTrial};
use crate::verdict::{
    Metric, MetricFacts, Noise, PointSummary, ServedSeconds, TimedPoint, Traffic, TrialOutline, TrialSeries,
    WarmerRatio, compute_outline_summary, compute_timed_points, compute_total_seconds, compute_traffic,
    compute_warmer_ratios, render_sweep_headline, warn_of_warmup,
};
use command::document::{self, Error, escape_text};

/// Version of the data in the page (docs/formats.md).
const FORMAT: u32 = 1;

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
    /// Where the time of the servers went, of each point of which somebody looked.
    pub timed: Vec<TimedPoint>,
    /// Of warmers within the rounds.
    pub ratios: Vec<WarmerRatio>,
    /// What the traffic got beside each of them, where they are all that varies.
    pub traffic: Traffic,
    /// What speaks against a study of ways to warm, by what was found before its trials.
    pub remarks: Vec<String>,
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
    pub fn new(sweep: SweepRun, trials: Vec<TrialOutline>, noise: Vec<Noise>, served: &ServedSeconds) -> StudyData {
        let points = compute_outline_summary(&sweep, &trials);
        let exact = ExactNumbers {
            seed: sweep.seed.to_string(),
            system_identifier: sweep.server.system_identifier.to_string(),
        };
        let (subject, headline) = (sweep.subject(), render_sweep_headline(&sweep.varied, &points));
        let ratios = compute_warmer_ratios(&sweep, &trials);
        let timed = compute_timed_points(&sweep, &points);
        StudyData {
            traffic: compute_traffic(&sweep, &points, &trials, served),
            remarks: warn_of_warmup(&sweep),
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
            ratios,
        }
    }
}

/// The report of one or more studies of any kind as one HTML document. Whatever names they hold, they stay text.
pub fn render_report(studies: &[StudyInPage]) -> Result<String, Error> {
    render_page(ALONE, studies.first().map_or("", |one| &one.study.subject), studies)
}

/// The page of `serve`, which asks for what it shows.
pub fn render_served_page() -> Result<String, Error> {
    render_page("served", "studies", &[])
}

/// The page of an address that nothing has: it leads to what there is.
pub fn render_missing_page() -> Result<String, Error> {
    render_page("missing", "nothing is here", &[])
}

const SCRIPT: &str = include_str!("../../../web/dist/report.js");
const STYLE: &str = include_str!("../../../web/dist/report.css");

/// SHA-256 of `SCRIPT` in base64: the one script that the page's security policy lets run.
const SCRIPT_SHA256: &str = include_str!("../../../web/dist/report.js.sha256");

/// The kind of a page that holds its data, and asks nobody for anything. The others ask the server that they came from.
const ALONE: &str = "studies";

/// The front end with its data. The title stays text whatever it is.
fn render_page(kind: &'static str, title: &str, studies: &[StudyInPage]) -> Result<String, Error> {
    let metrics = Metric::ALL.iter().map(|metric| metric.facts()).collect();
    let data = PageData { format: FORMAT, kind, metrics, studies };
    // Nothing from anywhere, the one script, and styles within the page, which the chart library sets on its elements.
    let connect = if kind == ALONE { "" } else { "connect-src 'self'; " };
    let policy = format!(
        "{connect}script-src 'sha256-{SCRIPT_SHA256}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    );
    let body = format!(
        r#"<main id="page">
<h1>{}</h1>
<noscript><p>The curves and the table are drawn by a script in this file. The numbers are in its source, as JSON.</p></noscript>
</main>"#,
        escape_text(title)
    );
    let script = format!("<script>{SCRIPT}</script>\n");
    Ok(document::render_page(title, &policy, STYLE, &body, &serde_json::to_string(&data)?, &script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_end_can_stand_inside_the_page() {
        assert!(!SCRIPT.to_lowercase().contains("</script"));
        assert!(!SCRIPT.contains("<!--"));
        assert!(!STYLE.to_lowercase().contains("</style"));
    }
}
