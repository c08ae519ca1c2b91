//! What was gauged in the seconds of trials: values that the table began with have a column each, and every other stands in a
//! document under the name of its measure, so that a new measure needs no column.

use serde_json::{Map, Value};

use super::columns::Columns;
use super::database::{Row, Values, unreadable};
use crate::study::MEASURES;
use observe::OsSample;

pub(super) const FLOATS: [&str; 18] = [
    "generator_cpu_seconds",
    "generator_run_delay_seconds",
    "busiest_thread_cpu_seconds",
    "server_cpu_seconds",
    "server_run_delay_seconds",
    "pgthaw_cpu_seconds",
    "processors_busy_seconds",
    "processors_iowait_seconds",
    "processors_steal_seconds",
    "device_read_await_us",
    "device_write_await_us",
    "device_queue",
    "device_busy_ratio",
    "pressure_cpu_some",
    "pressure_io_some",
    "pressure_io_full",
    "pressure_memory_some",
    "pressure_memory_full",
];

pub(super) const INTEGERS: [&str; 8] = [
    "device_reads",
    "device_read_bytes",
    "device_writes",
    "device_written_bytes",
    "available_bytes",
    "cached_bytes",
    "dirty_bytes",
    "writeback_bytes",
];

const DOCUMENTS: [&str; 2] = ["generator_threads", "server"];

/// Objects of a sample whose values stand beside the others, with the object's name before their own.
const GROUPS: [&str; 4] = ["device", "pressure", "time", "waited"];

impl Columns for OsSample {
    fn put(&self, values: Values) -> Values {
        let mut flat = flatten(self);
        let mut take = |name: &str| flat.remove(name).unwrap_or_default();
        take("second");
        let mut values = values.bind("second", &self.second);
        for name in FLOATS {
            values = values.bind(name, &take(name).as_f64());
        }
        for name in INTEGERS {
            values = values.bind(name, &take(name).as_u64());
        }
        for name in DOCUMENTS {
            values = values.bind_json(name, Some(&take(name)));
        }
        let parts = take("parts");
        values.bind_json("parts", Some(&parts).filter(|parts| parts.is_object())).bind_json("measures", Some(&flat))
    }

    fn read(row: &Row) -> Result<OsSample, sqlx::Error> {
        let mut flat: Map<String, Value> = row.json("measures")?;
        flat.insert("second".to_owned(), row.get::<u32>("second")?.into());
        for name in FLOATS {
            flat.insert(name.to_owned(), row.get::<Option<f64>>(name)?.into());
        }
        for name in INTEGERS {
            flat.insert(name.to_owned(), row.get::<Option<u64>>(name)?.into());
        }
        for name in DOCUMENTS {
            flat.insert(name.to_owned(), row.json(name)?);
        }
        if let Some(parts) = row.json::<Option<Value>>("parts")? {
            flat.insert("parts".to_owned(), parts);
        }
        serde_json::from_value(nest(flat)).map_err(|error| unreadable("measures", error))
    }
}

/// Every value that there is by the name of its measure, and the lists.
fn flatten(sample: &OsSample) -> Map<String, Value> {
    let mut flat = Map::new();
    let Ok(Value::Object(nested)) = serde_json::to_value(sample) else { unreachable!("a sample becomes an object") };
    for (name, value) in nested {
        match value {
            Value::Object(group) if GROUPS.contains(&name.as_str()) => {
                flat.extend(group.into_iter().map(|(part, value)| (format!("{name}_{part}"), value)));
            }
            value => drop(flat.insert(name, value)),
        }
    }
    for measure in MEASURES {
        flat.entry(measure.name).or_insert_with(|| (measure.of)(sample).into());
    }
    flat.retain(|_, value| !value.is_null());
    flat
}

/// A sample again; a group without its first value was not there.
fn nest(flat: Map<String, Value>) -> Value {
    let mut nested = Map::new();
    for (name, value) in flat {
        match split(&name) {
            Some((group, part)) => nested.entry(group).or_insert_with(|| Map::new().into())[part] = value,
            None => drop(nested.insert(name, value)),
        }
    }
    if nested["device"]["reads"].is_null() {
        nested.insert("device".to_owned(), Value::Null);
    }
    Value::Object(nested)
}

/// The group that a value is of, and its name there.
fn split(name: &str) -> Option<(&'static str, &str)> {
    GROUPS.into_iter().find_map(|group| Some((group, name.strip_prefix(group)?.strip_prefix('_')?)))
}
