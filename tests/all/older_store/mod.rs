//! A results store that an older program kept, before a study measured how its trials got warm, is opened, brought up to date,
//! and tells what it told before.
//!
//! `store.sql` is that store as text, with a tournament, a residency study and a sweep. `shown.json` is what the program that
//! kept it printed, by command, with lists of more than four shortened to their ends.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::results::sqlite;
use crate::servers::Home;

const RUN: &str = "20261123-125447-e074";
const SWEEP: &str = "20261123-125631-d9fc";
const LOADING: &str = "20261123-125601-c6a8";

/// A home with that store.
fn older_store() -> (Home, PathBuf) {
    let home = Home::new();
    let file = home.path().join("state/pgthaw/results.sqlite");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    sqlite(&file, include_str!("store.sql"));
    (home, file)
}

#[test]
fn what_an_older_program_kept_is_shown_and_exported_as_before() {
    let (home, _) = older_store();
    let told: Map<String, Value> = serde_json::from_str(include_str!("shown.json")).unwrap();
    assert!(told.len() >= 9, "{}", told.len());
    for (name, before) in &told {
        let now = match name.as_str() {
            "list" => home.pgthaw(&["results", "list", "--json"]),
            name if name.starts_with("show-") => {
                home.pgthaw(&["results", "show", "--json", &name.replace("show-", "20261123-")])
            }
            name => {
                let (whose, rows) = name.trim_start_matches("export-").split_once('-').unwrap();
                let id = if whose == "run" { RUN } else { SWEEP };
                home.pgthaw(&["results", "export", "--format", "json", "--rows", rows, id])
            }
        };
        let now = now.ok().json();
        let mut differences = Vec::new();
        compare(name, before, &shortened(&now), &mut differences);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

#[test]
fn what_an_older_program_kept_is_drawn() {
    let (home, _) = older_store();
    for id in [RUN, LOADING, SWEEP] {
        let page = home.path().join(format!("{id}.html"));
        home.pgthaw(&["report", id, "-o", page.to_str().unwrap()]).ok();
        assert!(std::fs::read_to_string(page).unwrap().contains(id), "{id}");
    }
}

/// Whatever was told before is told now; fields may be added.
fn compare(place: &str, before: &Value, now: &Value, differences: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (key, before) in before.iter().filter(|(key, _)| *key != "results") {
                compare(&format!("{place}.{key}"), before, now.get(key).unwrap_or(&json!("(nothing)")), differences);
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (number, (before, now)) in before.iter().zip(now).enumerate() {
                compare(&format!("{place}[{number}]"), before, now, differences);
            }
        }
        _ if before == now => {}
        _ => differences.push(format!("{place}: {before} became {now}")),
    }
}

/// As `shown.json` has it.
fn shortened(value: &Value) -> Value {
    match value {
        Value::Array(values) if values.len() > 4 => {
            json!({ "rows": values.len(), "first": shortened(&values[0]), "last": shortened(&values[values.len() - 1]) })
        }
        Value::Array(values) => values.iter().map(shortened).collect(),
        Value::Object(values) => values.iter().map(|(key, value)| (key.clone(), shortened(value))).collect(),
        other => other.clone(),
    }
}
