//! Writes the laboratory's JSON Schemas. Parts that a command combines have their shape here. tests/all/schemas.rs
//! checks real outputs.
#![allow(dead_code)]

use std::borrow::Cow;
use std::path::PathBuf;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::laboratory::judge::Judged;
use crate::laboratory::results::Head;
use crate::report::{PageData, StudyData, TrialData};
use crate::results::{DamagedStudy, ExportTable, StudyLine};
use crate::serve::live::LiveTrial;
use crate::study::SweepPlan;
use crate::verdict::{ByMetric, JudgedForecast, Metric, Noise, SweepComparison, SweepVerdict, TimedPoint};
use command::table::Kind;
use host::schema_fixture::{check_schemas, schema_of};

impl JsonSchema for Metric {
    fn schema_name() -> Cow<'static, str> {
        "Metric".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        json_schema!({ "type": "string", "enum": names, "description": "Value of `--metric` (docs/measures.md)." })
    }
}

impl<T: JsonSchema> JsonSchema for ByMetric<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Figures_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut fields = Map::new();
        for metric in Metric::ALL {
            let (facts, mut field) = (metric.facts(), generator.subschema_for::<Option<T>>());
            field.insert("description".into(), facts.caption.into());
            fields.insert(facts.key.into(), field.to_value());
        }
        let required: Vec<&String> = fields.keys().collect();
        json_schema!({ "type": "object", "required": required, "properties": fields })
    }
}

/// Several studies, of `bench demo`.
#[derive(Serialize, JsonSchema)]
struct Studies<'a> {
    studies: Vec<Head<'a>>,
    /// Whether only the trials that ended are included.
    interrupted: bool,
    /// The written HTML report.
    report: Option<PathBuf>,
}

/// Plans of studies. Nothing was measured.
#[derive(Serialize, JsonSchema)]
struct Plans {
    plan: Option<SweepPlan>,
    /// Plans of the other studies, as of `bench demo`.
    further: Vec<SweepPlan>,
}

/// Stored studies.
#[derive(Serialize, JsonSchema)]
struct StudyList {
    /// The store: a file, or the address of a server.
    results: String,
    /// Newest first.
    studies: Vec<StudyListed>,
    /// Unreadable studies.
    damaged: Vec<DamagedStudy>,
}

#[derive(Serialize, JsonSchema)]
struct StudyListed {
    id: String,
    started_at: Timestamp,
    /// null while trials are missing.
    ended_at: Option<Timestamp>,
    question: String,
    points: u32,
    repeats: u32,
    /// Axes with several values.
    varied: Vec<String>,
    /// Stored trials.
    trials: u64,
    /// Answer to the study's question in a sentence.
    headline: String,
}

/// Where the servers' time went.
#[derive(Serialize, JsonSchema)]
struct StudyTime {
    /// Id of the study.
    sweep: String,
    /// Number of processors of the machine.
    processors: u32,
    points: Vec<TimedPoint>,
}

/// Differences between the two measurements of each point of a study.
#[derive(Serialize, JsonSchema)]
struct StudyNoise {
    /// Id of the study.
    sweep: String,
    /// One for each compared metric.
    noise: Vec<Noise>,
}

/// A dropped study.
#[derive(Serialize, JsonSchema)]
struct StudyDropped {
    /// Id of the study.
    dropped: String,
}

/// Rows of a view (docs/queries.md): of `--rows points`, `trials` or `seconds`.
struct Exported;

impl JsonSchema for Exported {
    fn schema_name() -> Cow<'static, str> {
        "Exported".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let row = |(table, title): (ExportTable, &str)| {
            let column = |kind| match kind {
                Kind::Text => json!({ "type": ["string", "null"] }),
                Kind::Integer => json!({ "type": ["integer", "null"] }),
                Kind::Float => json!({ "type": ["number", "null"] }),
            };
            let fields: Map<String, Value> =
                table.columns().iter().map(|one| (one.name.to_owned(), column(one.kind))).collect();
            let required: Vec<&String> = fields.keys().collect();
            json!({ "title": title, "type": "object", "required": required, "properties": fields })
        };
        let tables = [
            (ExportTable::Points, "a row of --rows points"),
            (ExportTable::Trials, "a row of --rows trials"),
            (ExportTable::Seconds, "a row of --rows seconds"),
        ];
        let rows: Vec<Value> = tables.into_iter().map(row).collect();
        let description =
            "Rows of a view (docs/queries.md), all of one kind. The measures of a second are in docs/measures.md.";
        json_schema!({ "description": description, "type": "array", "items": { "anyOf": rows } })
    }
}

/// A written report.
#[derive(Serialize, JsonSchema)]
struct Report {
    /// Id of the first study; null if there is none.
    run: Option<String>,
    /// Ids of all studies.
    runs: Vec<String>,
    trials: u64,
    /// The HTML file.
    report: PathBuf,
}

/// The address of the server that `pgthaw serve` started.
#[derive(Serialize, JsonSchema)]
struct Served {
    address: String,
    /// The results store.
    results: String,
    /// Whether each request needs the token.
    needs_token: bool,
}

/// A failed request.
#[derive(Serialize, JsonSchema)]
struct Refused {
    error: RefusedError,
}

#[derive(Serialize, JsonSchema)]
struct RefusedError {
    message: String,
}

/// Judged curves: one for each file, set of thread logs, or stored trial.
#[derive(Serialize, JsonSchema)]
struct Curves {
    /// The arguments.
    source: String,
    curves: Vec<Judged>,
}

/// Forecasts beside the trials that they forecast.
#[derive(Serialize, JsonSchema)]
struct JudgedForecasts {
    verdict: SweepVerdict,
    points: Vec<JudgedForecast>,
}

#[test]
fn the_schemas_are_those_of_the_types() {
    check_schemas(&[
        schema_of::<Head<'_>>("study", 1, "pgthaw bench --json, pgthaw results show --json and import --json"),
        schema_of::<Studies<'_>>("bench-demo", 1, "pgthaw bench --json of several studies, such as demo"),
        schema_of::<Plans>("bench-plan", 1, "pgthaw bench --dry-run --json"),
        schema_of::<JudgedForecast>("bench-forecast", 1, "pgthaw bench forecast --json"),
        schema_of::<StudyList>("results", 1, "pgthaw results --json"),
        schema_of::<StudyTime>("results-time", 1, "pgthaw results show --time --json"),
        schema_of::<SweepComparison>("results-compare", 1, "pgthaw results compare --json, /api/compare"),
        schema_of::<StudyNoise>("results-noise", 1, "pgthaw results compare --json of equal sides"),
        schema_of::<StudyDropped>("results-drop", 1, "pgthaw results drop --json"),
        schema_of::<Exported>("results-export", 1, "pgthaw results export --json, and its JSON files"),
        schema_of::<Report>("report", 1, "pgthaw report --json"),
        schema_of::<PageData<'_>>("report-page", 1, "The element pgthaw-data of a report"),
        schema_of::<Served>("serve", 1, "pgthaw serve --json"),
        schema_of::<Vec<StudyLine>>("serve-studies", 1, "/api/studies"),
        schema_of::<StudyData>("serve-study", 1, "/api/studies/ID"),
        schema_of::<TrialData>("serve-trial", 1, "/api/studies/ID/trials/NUMBER/REPEAT"),
        schema_of::<Vec<LiveTrial>>("serve-live", 1, "/api/live"),
        schema_of::<Refused>("serve-error", 1, "A failed request below /api/"),
        schema_of::<Curves>("judge", 1, "pgthaw judge --json"),
        schema_of::<JudgedForecasts>("judge-forecast", 1, "pgthaw judge FORECAST… --json"),
    ]);
}
