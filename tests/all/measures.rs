//! What is declared of a measure, or of a metric, is what the store, exports, the page and the documentation have.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use pgthaw_lab::report::StudyData;
use pgthaw_lab::results::Store;
use pgthaw_lab::study::{MEASURES, Measure};
use pgthaw_lab::verdict::{Metric, ServedSeconds, TrialSeries};
use serde_json::{Value, json};

use super::results::{sqlite, wait};
use super::schemas::read_schema;
use super::servers::Home;
use super::synthetic_sweep::{self, Shape};

const SHAPE: Shape<'_> =
    Shape { scales: &[1], clients: &[8], buffers: &["1GB"], strategies: &[], repeats: 1, seconds: 4 };

/// What stands before and behind the lists in docs/measures.md: of metrics, of measures, then of verdicts.
const BEFORE: &str = "<!-- Written by PGTHAW_WRITE_DOCS=1 cargo nextest run measures::the_documentation -->\n";
const BEHIND: &str = "<!-- So far. -->\n";

fn unit(measure: &Measure) -> String {
    serde_json::to_value(measure.unit).unwrap().as_str().unwrap().replace('_', " ")
}

#[test]
fn the_documentation_has_every_metric_every_measure_and_every_verdict() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/measures.md");
    let document = fs::read_to_string(&path).unwrap();
    let parts: Vec<&str> = document.split(BEFORE).collect();
    assert_eq!(parts.len(), 4);
    let lists = [list_metrics(), list_measures(), list_verdicts()];
    let told = |(list, part): (&String, &&str)| [BEFORE, list, BEHIND, part.split_once(BEHIND).unwrap().1].concat();
    let expected = parts[0].to_owned() + &lists.iter().zip(&parts[1..]).map(told).collect::<String>();
    if std::env::var_os("PGTHAW_WRITE_DOCS").is_some() {
        fs::write(&path, expected).unwrap();
    } else {
        assert!(document == expected, "PGTHAW_WRITE_DOCS=1 writes it");
    }
}

/// A name, a second one if it does not follow from the first, and the meaning. The page says once that devices' figures are by all processes.
fn item(name: &str, second: Option<&str>, follows: &str, meaning: &str) -> String {
    let second = second.filter(|second| *second != follows).map(|second| format!(", `{second}`")).unwrap_or_default();
    format!("- `{name}`{second}: {}\n", meaning.replace(", by all processes", ""))
}

/// By the schema, which has the doc comments.
fn list_verdicts() -> String {
    let schema = read_schema("study");
    let row = |verdict: &Value| {
        let kind = verdict["properties"]["kind"]["const"].as_str().unwrap();
        item(kind, None, "", verdict["description"].as_str().unwrap())
    };
    let rows: String = schema["$defs"]["MeasurementVerdict"]["oneOf"].as_array().unwrap().iter().map(row).collect();
    format!("\n{rows}\n")
}

fn list_metrics() -> String {
    let row = |metric: Metric| {
        let facts = metric.facts();
        let better = if facts.is_low_better { "" } else { " (more is better)" };
        item(facts.key, Some(facts.name), &facts.key.replace('_', "-"), &format!("{}{better}", facts.caption))
    };
    let rows: String = Metric::ALL.iter().copied().map(row).collect();
    format!("\n{rows}\n")
}

fn list_measures() -> String {
    let mut lists: Vec<(String, String)> = Vec::new();
    for one in MEASURES {
        let unit = unit(one);
        let column = one.name.strip_suffix("_seconds").unwrap_or(one.name);
        let row = item(one.name, one.column, column, one.doc);
        match lists.iter_mut().find(|(of, _)| *of == unit) {
            Some((_, rows)) => *rows += &row,
            None => lists.push((unit, row)),
        }
    }
    lists.iter().map(|(unit, rows)| format!("\n**{unit}**\n\n{rows}")).collect::<String>() + "\n"
}

#[test]
fn names_are_unique_and_a_panel_has_one_unit() {
    let names: BTreeSet<&str> = MEASURES.iter().map(|one| one.name).collect();
    let columns: BTreeSet<&str> = MEASURES.iter().filter_map(|one| one.column).collect();
    assert_eq!(names.len(), MEASURES.len());
    assert_eq!(columns.len(), MEASURES.iter().filter(|one| one.column.is_some()).count());
    let panels: BTreeSet<(&str, String)> =
        MEASURES.iter().filter_map(|one| Some((one.curve?.panel.id, unit(one)))).collect();
    let ids: BTreeSet<&str> = panels.iter().map(|(id, _)| *id).collect();
    assert_eq!(panels.len(), ids.len(), "{panels:?}");
    // What is drawn has a column to draw.
    assert!(MEASURES.iter().all(|one| one.curve.is_none() || one.column.is_some()));
}

#[test]
fn every_measure_is_in_sql_in_exports_and_on_the_page() {
    let home = Home::new();
    let file = home.path().join("state/pgthaw/results.sqlite");
    let (run, trials) = synthetic_sweep::make(&SHAPE);
    wait(async {
        let store = Store::open(&file).await.unwrap();
        store.save_whole_sweep(&run, &trials).await.unwrap();
        store.close().await;
    });
    let sample = &trials[0].os_samples[1];
    let exported = home.pgthaw(&["results", "export", "--rows", "seconds", "--json"]).ok().json();
    let parquet = home.path().join("seconds.parquet");
    home.pgthaw(&["results", "export", "--rows", "seconds", "-o", parquet.to_str().unwrap()]).ok();
    let reader = SerializedFileReader::new(fs::File::open(&parquet).unwrap()).unwrap();
    let row = reader.get_row_iter(None).unwrap().nth(1).unwrap().unwrap();
    let columns: Vec<&str> = row.get_column_iter().map(|(name, _)| name.as_str()).collect();
    let series = serde_json::to_value(TrialSeries::new(&trials[0], 1500)).unwrap();
    for measure in MEASURES {
        let value = (measure.of)(sample);
        assert!(value.is_some(), "the synthetic sweep has no {}", measure.name);
        assert_eq!(exported[1][measure.name].as_f64(), value, "{}", measure.name);
        let place = columns.iter().position(|name| *name == measure.name).unwrap();
        let kept = row.get_double(place).or_else(|_| row.get_long(place).map(|count| count as f64));
        assert_eq!(kept.ok(), value, "{}", measure.name);
        let query = format!("SELECT value FROM sweep_measures WHERE second = 2 AND measure = '{}'", measure.name);
        assert!((sqlite(&file, &query).parse::<f64>().unwrap() - value.unwrap()).abs() < 1e-9, "{query}");
        if let Some(column) = measure.column {
            assert_eq!(series["machine"][column].as_array().map(Vec::len), Some(4), "{column}");
        }
    }
    let study = serde_json::to_value(StudyData::new(run, Vec::new(), Vec::new(), &ServedSeconds::new())).unwrap();
    let server = study["measures"].as_array().unwrap().iter().find(|one| one["name"] == "server_cpu_seconds").unwrap();
    assert_eq!((&server["unit"], &server["curve"]["label"]), (&json!("processors"), &json!("for the server")));
    assert_eq!(server["curve"]["panel"]["is_stack"], Value::Bool(true));
}
