//! Writes the JSON Schemas below docs/schemas/, or compares them.

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");

pub fn schema_of<T: JsonSchema>(name: &str, version: u32, title: &str) -> (String, Value) {
    let generated = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let mut schema = generated.to_value();
    let Value::Object(own) = &mut schema else { panic!("{name} is no object") };
    let mut fields = Map::from_iter([
        ("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema")),
        ("$id".to_owned(), json!(format!("urn:pgthaw:{name}:{version}"))),
    ]);
    fields.append(own);
    fields.insert("title".to_owned(), title.into());
    let mut schema = Value::Object(fields);
    simplify(&mut schema);
    (name.to_owned(), schema)
}

/// Doc comments speak of Rust and are wrapped; a reader of JSON sees `null`, and no lines.
fn simplify(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // Rust's names of number types; the minimum says that a number is not negative.
            if fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|format| format != "date-time" && format != "uint64")
            {
                fields.remove("format");
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text =
                    text.replace("\n\n", "\u{1}").replace('\n', " ").replace('\u{1}', "\n\n").replace("`None`", "null");
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(values) => values.iter_mut().for_each(simplify),
        _ => {}
    }
}

pub fn check_schemas(schemas: &[(String, Value)]) {
    let mut differing = Vec::new();
    for (name, schema) in schemas {
        let path = Path::new(DIRECTORY).join(format!("{name}.json"));
        let expected = format!("{schema:#}\n");
        if std::env::var_os("PGTHAW_WRITE_DOCS").is_some() {
            std::fs::write(&path, expected).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        } else if std::fs::read_to_string(&path).ok() != Some(expected) {
            differing.push(name);
        }
    }
    assert!(differing.is_empty(), "PGTHAW_WRITE_DOCS=1 writes {differing:?}");
}
