//! The report of studies: a self-contained HTML file that makes no network requests.

use serde::Serialize;

use crate::study::{MEASURES, Measure, SweepRun, SweepTrial};
use crate::verdict::{
    Metric, MetricFacts, Noise, PointSummary, ServedSeconds, TimedPoint, Traffic, TrialOutline, TrialSeries,
    WarmerRatio, compute_outline_summary, compute_timed_points, compute_total_seconds, compute_traffic,
    compute_warmer_ratios, render_sweep_headline, warn_of_warmup,
};
use command::document::{self, Error, escape_text};

const FORMAT: u32 = 1;

/// A study, as sent by `serve` or embedded in a report.
#[derive(Clone, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct StudyData {
    /// The question; if a study of warmers has none, its topic.
    pub subject: String,
    /// Answer to the study's question in a sentence.
    pub headline: String,
    /// Total duration of its trials, if known.
    pub total_seconds: Option<f64>,
    pub sweep: SweepRun,
    /// Numbers beyond 2⁵³ as text, because a browser would round them.
    pub exact: ExactNumbers,
    pub points: Vec<PointSummary>,
    pub trials: Vec<TrialOutline>,
    /// Differences between the two identical measurements of each point (`bench --aa`), by metric; otherwise empty.
    pub noise: Vec<Noise>,
    pub measures: &'static [Measure],
    /// Where the servers' time went, by point.
    pub timed: Vec<TimedPoint>,
    pub ratios: Vec<WarmerRatio>,
    /// Effects of warmers on the load, if only the warmer varies.
    pub traffic: Traffic,
    /// Warnings about a study of warmers, independent of its trials' results.
    pub remarks: Vec<String>,
}

/// Numbers that JavaScript cannot represent.
#[derive(Clone, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct ExactNumbers {
    pub seed: String,
    pub system_identifier: String,
}

/// A trial and its curves.
#[derive(Clone, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct TrialData {
    /// The trial without its series.
    pub trial: SweepTrial,
    pub series: TrialSeries,
}

/// A study in a report.
#[derive(Clone, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct StudyInPage {
    pub study: StudyData,
    /// Trials, unless there are more than 1,000.
    pub details: Option<Vec<TrialData>>,
}

/// Data of a report.
#[derive(Clone, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct PageData<'a> {
    /// Version of the format: 1.
    format: u32,
    /// Always `studies`.
    kind: &'static str,
    metrics: Vec<MetricFacts>,
    studies: &'a [StudyInPage],
}

impl TrialData {
    pub fn new(mut trial: SweepTrial, spans_max: u32) -> TrialData {
        let series = TrialSeries::new(&trial, spans_max);
        trial.samples.clear();
        trial.os_samples.clear();
        trial.wait_samples.clear();
        trial.warming.iter_mut().for_each(|warming| warming.foreground_tenths.clear());
        TrialData { trial, series }
    }
}

impl StudyData {
    pub fn new(sweep: SweepRun, trials: Vec<TrialOutline>, noise: Vec<Noise>, served: &ServedSeconds) -> StudyData {
        let points = compute_outline_summary(&sweep, &trials);
        StudyData {
            subject: sweep.subject(),
            headline: render_sweep_headline(&sweep.varied, &points),
            total_seconds: compute_total_seconds(&trials),
            exact: ExactNumbers {
                seed: sweep.seed.to_string(),
                system_identifier: sweep.server.system_identifier.to_string(),
            },
            measures: MEASURES,
            timed: compute_timed_points(&sweep, &points),
            ratios: compute_warmer_ratios(&sweep, &trials),
            traffic: compute_traffic(&sweep, &points, &trials, served),
            remarks: warn_of_warmup(&sweep),
            sweep,
            points,
            trials,
            noise,
        }
    }
}

/// Escapes all names.
pub fn render_report(studies: &[StudyInPage]) -> Result<String, Error> {
    render_page(ALONE, studies.first().map_or("", |one| &one.study.subject), studies)
}

const SCRIPT: &str = include_str!("../../../web/dist/report.js");
const STYLE: &str = include_str!("../../../web/dist/report.css");

/// SHA-256 of the script in Base64; the page's security policy allows only this script.
const SCRIPT_SHA256: &str = include_str!("../../../web/dist/report.js.sha256");

const ALONE: &str = "studies";

pub fn render_page(kind: &'static str, title: &str, studies: &[StudyInPage]) -> Result<String, Error> {
    let metrics = Metric::ALL.iter().map(|metric| metric.facts()).collect();
    let data = PageData { format: FORMAT, kind, metrics, studies };
    // No external content, one script, and inline styles, which the chart library needs.
    let connect = if kind == ALONE { "" } else { "connect-src 'self'; " };
    let policy = format!(
        "{connect}script-src 'sha256-{SCRIPT_SHA256}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    );
    let body = format!(
        r#"<main id="page">
<h1>{}</h1>
<noscript><p>A script in this file draws the curves and the table. The file contains the numbers as JSON.</p></noscript>
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
