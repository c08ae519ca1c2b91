//! docs/schemas/: whatever a test has pgthaw print with `--json` is what its schema says, and nothing more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use parquet::basic::Type as PhysicalType;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::{Value, json};

use super::servers::{self, Output};

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).into()
}

/// A schema as it is published, by the name of its file.
pub fn read_schema(name: &str) -> Value {
    let path = root().join("docs/schemas").join(name).with_extension("json");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Panics unless the document has every field of the schema, and no other.
#[track_caller]
pub fn check_document(name: &str, document: &Value) {
    let mut schema = read_schema(name);
    close(&mut schema);
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .take(5)
        .map(|error| format!("{}: {error:.300}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "this is not as docs/schemas/{name}.json says:\n{}", errors.join("\n"));
}

/// Programs may add fields, so published schemas allow more. Here each object is closed: wherever a value stands, not in the parts
/// that describe it together.
fn close(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    let describes = ["$ref", "anyOf", "oneOf", "allOf", "properties"].iter().any(|key| fields.contains_key(*key));
    walk(schema);
    if describes {
        schema["unevaluatedProperties"] = false.into();
    }
}

fn walk(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for (key, part) in fields {
        match (key.as_str(), part) {
            ("properties" | "patternProperties", Value::Object(values)) => values.values_mut().for_each(close),
            ("items" | "additionalProperties", value) => close(value),
            ("prefixItems", Value::Array(values)) => values.iter_mut().for_each(close),
            ("anyOf" | "oneOf" | "allOf", Value::Array(parts)) => parts.iter_mut().for_each(walk),
            ("$defs", Value::Object(definitions)) => definitions.values_mut().for_each(walk),
            _ => {}
        }
    }
}

/// Checks what a program printed.
#[track_caller]
pub fn check_output(command: &Command, output: &Output) {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let own = words.split(|word| word == "--").next().unwrap_or_default();
    if (program != "pgthaw" && program != "pgthaw-lab") || !own.iter().any(|word| word == "--json") {
        return;
    }
    let last = output.stderr.lines().last().unwrap_or_default();
    if let Some(failure) = parse(last).filter(|failure| failure.get("kind").is_some()) {
        check_document("error", &failure);
    }
    let Some(command) = own.iter().position(|word| COMMANDS.contains(&word.as_str())) else { return };
    let (command, rest) = (own[command].as_str(), &own[command + 1..]);
    match command {
        "run" => parse(last).filter(Value::is_object).filter(|receipt| receipt.get("kind").is_none()).iter().for_each(
            |receipt| check_document(if has(rest, "--record-only") { "film-record" } else { "run" }, receipt),
        ),
        "top" => output.stdout.lines().filter_map(parse).for_each(|step| check_document("top", &step)),
        _ => {
            if let Some(document) = parse(&output.stdout) {
                check_document(schema_of(command, rest, &document), &document);
            }
        }
    }
}

const COMMANDS: [&str; 15] = [
    "doctor", "map", "snapshot", "restore", "hydrate", "evict", "film", "run", "predict", "waits", "top", "bench",
    "results", "report", "judge",
];

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn has(words: &[String], option: &str) -> bool {
    words.iter().any(|word| word == option || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
}

fn schema_of(command: &str, rest: &[String], document: &Value) -> &'static str {
    let action = |known: &[&str]| rest.iter().find(|word| known.contains(&word.as_str())).map(String::as_str);
    let has = |option| has(rest, option);
    match command {
        "doctor" if has("--probe") => "doctor-probe",
        "doctor" => "doctor",
        "map" if has("--rows") => "map-rows",
        "map" => "map",
        "snapshot" => match action(&["take", "list", "show", "drop", "diff"]) {
            Some("take") => "snapshot-take",
            Some("show") => "map",
            Some("drop") => "snapshot-drop",
            Some("diff") => "snapshot-diff",
            _ if has("--verify") => "snapshot-list-verify",
            _ => "snapshot-list",
        },
        "restore" => "restore",
        "hydrate" => "hydrate",
        "evict" => "evict",
        "film" => match action(&["record", "show", "drop"]) {
            Some("record") => "film-record",
            Some("drop") => "film-drop",
            _ if document.get("films").is_some() => "film-list",
            _ => "film-show",
        },
        "predict" if has("--film") => "predict-film",
        "predict" => "predict",
        "waits" => "waits",
        "bench" if has("--dry-run") => "bench-plan",
        "bench" if action(&["forecast"]).is_some() => "bench-forecast",
        "bench" if document.get("studies").is_some() => "bench-demo",
        "bench" => "study",
        "results" => match action(&["show", "import", "compare", "drop", "export"]) {
            Some("show") if has("--time") => "results-time",
            Some("show" | "import") => "study",
            Some("compare") if document.get("noise").is_some() => "results-noise",
            Some("compare") => "results-compare",
            Some("drop") => "results-drop",
            Some("export") => "results-export",
            _ => "results",
        },
        "report" => "report",
        "judge" if document.get("points").is_some() => "judge-forecast",
        "judge" => "judge",
        _ => panic!("{command} has no schema"),
    }
}

#[test]
fn the_page_of_formats_has_every_schema_and_each_is_one() {
    let files = fs::read_dir(root().join("docs/schemas")).unwrap().map(|entry| entry.unwrap().path());
    let names: BTreeSet<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let page = fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let linked: BTreeSet<String> =
        page.split("](schemas/").skip(1).map(|rest| rest.split(".json)").next().unwrap().to_owned()).collect();
    assert_eq!(names, linked);
    for name in &names {
        let schema = read_schema(name);
        jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(schema["$id"].as_str().unwrap().starts_with(&format!("urn:pgthaw:{name}:")), "{name}");
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
    }
}

/// A field whose name says neither unit nor meaning has a sentence.
#[test]
fn most_fields_are_described() {
    let mut count = BTreeMap::from([(true, 0), (false, 0)]);
    let files = fs::read_dir(root().join("docs/schemas")).unwrap().map(|entry| entry.unwrap().path());
    for path in files {
        let schema = read_schema(path.file_stem().unwrap().to_str().unwrap());
        fields(&schema, &mut |field| *count.get_mut(&field.get("description").is_some()).unwrap() += 1);
    }
    assert!(count[&true] > count[&false], "{count:?}");
}

fn fields(schema: &Value, see: &mut impl FnMut(&Value)) {
    match schema {
        Value::Object(parts) => {
            if let Some(Value::Object(properties)) = parts.get("properties") {
                properties.values().for_each(&mut *see);
            }
            parts.values().for_each(|part| fields(part, see));
        }
        Value::Array(parts) => parts.iter().for_each(|part| fields(part, see)),
        _ => {}
    }
}

#[test]
fn a_field_too_many_and_one_too_few_are_noticed() {
    let whole = json!({ "error": "no server", "kind": "failed", "hint": null });
    check_document("error", &whole);
    let refuses = |document: Value| std::panic::catch_unwind(|| check_document("error", &document)).is_err();
    assert!(refuses(json!({ "error": "no server", "kind": "failed", "hint": null, "more": 1 })));
    assert!(refuses(json!({ "error": "no server", "kind": "failed" })));
    assert!(refuses(json!({ "error": "no server", "kind": "odd", "hint": null })));
}

/// Columns and metadata of a Parquet file.
fn read_parquet(path: &Path) -> (BTreeMap<String, &'static str>, serde_json::Map<String, Value>) {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    let kind = |physical| match physical {
        PhysicalType::BOOLEAN => "boolean",
        PhysicalType::INT32 | PhysicalType::INT64 => "integer",
        _ => "string",
    };
    let columns = metadata.schema_descr().columns().iter();
    let columns = columns.map(|column| (column.name().to_owned(), kind(column.physical_type()))).collect();
    let pairs = metadata.key_value_metadata().unwrap().iter();
    let texts = pairs.map(|pair| (pair.key.clone(), Value::from(pair.value.clone().unwrap())));
    (columns, texts.collect())
}

/// The types of the columns, by the schema of a row. Words of an enumeration are text, and a bitmap too.
fn check_columns(name: &str, columns: &BTreeMap<String, &'static str>) {
    let schema = read_schema(name);
    let kind = |field: &Value| {
        let text = field.to_string();
        ["boolean", "integer"].into_iter().find(|kind| text.contains(&format!("\"{kind}\""))).unwrap_or("string")
    };
    let fields = schema["properties"].as_object().unwrap().iter();
    let told: BTreeMap<String, &str> = fields
        .map(|(name, field)| (name.clone(), if field["type"] == "array" { "string" } else { kind(field) }))
        .collect();
    let columns: BTreeMap<String, &str> = columns
        .iter()
        .filter(|(name, _)| !name.starts_with("bucket_"))
        .map(|(name, kind)| (name.clone(), *kind))
        .collect();
    assert_eq!(told, columns, "{name}");
}

/// Files are read as they are written, not only as pgthaw prints them.
#[test]
fn stored_documents_are_as_their_schemas_say() {
    let server = servers::start_any(&[]);
    server.psql("CREATE EXTENSION pg_buffercache; CREATE TABLE t AS SELECT generate_series(1, 10000) AS i");
    let file = |name: &str| server.home().join(name);
    let [snapshot, record, waits] = ["a.parquet", "record", "waits.parquet"].map(file);

    server.pgthaw(&["snapshot", "take", "-o", snapshot.to_str().unwrap()]).ok();
    let (columns, mut metadata) = read_parquet(&snapshot);
    check_columns("snapshot-row", &columns);
    for key in ["remarks", "empty", "partitioned", "databases", "lookups"] {
        let text = &mut metadata[&format!("pgthaw.{key}")];
        *text = serde_json::from_str(text.as_str().unwrap()).unwrap();
    }
    check_document("snapshot-metadata", &metadata.into());

    server.pgthaw(&["run", "--record-only", "--", "true"]);
    let films = files_below(&file("state/pgthaw/films"));
    for film in &films {
        let (columns, metadata) = read_parquet(film);
        check_columns("film-row", &columns);
        check_document("film-metadata", &serde_json::from_str(metadata["pgthaw.film"].as_str().unwrap()).unwrap());
    }

    let words = ["waits", "--seconds", "1", "--source", "sql", "--parquet", waits.to_str().unwrap()];
    server.pgthaw(&words).ok();
    check_columns("waits-row", &read_parquet(&waits).0);

    let words = ["top", "--seconds", "1", "--source", "sql", "--record", record.to_str().unwrap()];
    server.pgthaw(&words).ok();
    let lines = std::io::read_to_string(GzDecoder::new(fs::File::open(&record).unwrap())).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    check_document("top-record", &lines[0]);
    assert!(lines.len() > 1);
    lines[1..].iter().for_each(|step| check_document("top", step));

    let hydrated = server.pgthaw(&["hydrate", "--json"]).ok().json();
    assert_eq!(hydrated["left_bytes"], 0);
    let progress = files_below(&file("state/pgthaw/hydrated"));
    assert_eq!(progress.len(), 1);
    check_document("hydrated", &serde_json::from_slice(&fs::read(&progress[0]).unwrap()).unwrap());
    assert_eq!(films.len(), 1, "no film was kept");
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
