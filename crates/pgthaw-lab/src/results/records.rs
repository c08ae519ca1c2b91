use std::error::Error;
use std::str::FromStr;

use jiff::Timestamp;
use serde_json::Map;

use super::database::{Row, Value, Values, unreadable};
use crate::study::{LatencyHistogram, MEASURES, Record, Sample, ScriptLatency, SweepRun, SweepTrial};
use crate::verdict::TrialOutline;
use host::units::Bytes;
use observe::{OsSample, WaitSample};

pub(super) trait Column: Sized {
    fn bound(value: Option<&Self>) -> Value;

    fn read(row: &Row, column: &str) -> Result<Option<Self>, sqlx::Error>;
}

pub(super) trait Columns: Sized {
    fn put(&self, values: Values) -> Values;
    fn read(row: &Row) -> Result<Self, sqlx::Error>;
}

/// Declares the columns of a record by its fields. Fields with special columns follow a keyword:
/// - `optional`: may be NULL;
/// - `json`: a JSON document; `optional_json`: a JSON document or NULL;
/// - `text`: a number as text, because SQL has no type for it;
/// - `apart`: no column: the value is stored elsewhere or computed, and read as its default.
///
/// A record with an unlisted field does not compile.
macro_rules! columns {
    ($record:ident {
        $($field:ident),*
        $(; optional $($optional:ident),*)?
        $(; json $($json:ident),*)?
        $(; optional_json $($optional_json:ident),*)?
        $(; text $($text:ident),*)?
        $(; apart $($apart:ident),*)?
    }) => {
        impl Columns for $record {
            fn put(&self, values: Values) -> Values {
                let values = values $(.bind(stringify!($field), &self.$field))*;
                $(let values = values $(.bind(stringify!($optional), Column::bound(self.$optional.as_ref())))*;)?
                $(let values = values $(.bind_json(stringify!($json), Some(&self.$json)))*;)?
                $(let values = values $(.bind_json(stringify!($optional_json), self.$optional_json.as_ref()))*;)?
                $(let values = values $(.bind(stringify!($text), &self.$text.to_string()))*;)?
                values
            }

            fn read(row: &Row) -> Result<$record, sqlx::Error> {
                Ok($record {
                    $($field: row.get(stringify!($field))?,)*
                    $($($optional: Column::read(row, stringify!($optional))?,)*)?
                    $($($json: row.json(stringify!($json))?,)*)?
                    $($($optional_json: row.json(stringify!($optional_json))?,)*)?
                    $($($text: row.parsed(stringify!($text))?,)*)?
                    $($($apart: Default::default(),)*)?
                })
            }
        }
    };
}

impl Row {
    pub fn get<T: Column>(&self, column: &str) -> Result<T, sqlx::Error> {
        T::read(self, column)?.ok_or_else(|| unreadable(column, std::io::Error::other("there is none")))
    }

    pub fn parsed<T>(&self, column: &str) -> Result<T, sqlx::Error>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        self.get::<String>(column)?.parse().map_err(|error| unreadable(column, error))
    }

    pub fn record<T: Columns + Record>(&self) -> Result<T, sqlx::Error> {
        let mut record = T::read(self)?;
        record.hide_secrets();
        Ok(record)
    }
}

impl<T: Column> From<&T> for Value {
    fn from(value: &T) -> Value {
        T::bound(Some(value))
    }
}

impl Column for String {
    fn bound(text: Option<&String>) -> Value {
        Value::Text(text.cloned())
    }

    fn read(row: &Row, column: &str) -> Result<Option<String>, sqlx::Error> {
        row.try_get(column)
    }
}

/// Reads NaN and infinities as `None`: nothing can be computed from them.
impl Column for f64 {
    fn bound(number: Option<&f64>) -> Value {
        Value::Float(number.copied())
    }

    fn read(row: &Row, column: &str) -> Result<Option<f64>, sqlx::Error> {
        Ok(row.try_get::<Option<f64>>(column)?.filter(|number| number.is_finite()))
    }
}

/// SQL has no unsigned integers. No count comes near 2⁶³.
macro_rules! integer_columns {
    ($($integer:ty),*) => {$(
        impl Column for $integer {
            fn bound(number: Option<&$integer>) -> Value {
                Value::Integer(number.map(|number| i64::try_from(*number).unwrap_or(i64::MAX)))
            }

            fn read(row: &Row, column: &str) -> Result<Option<$integer>, sqlx::Error> {
                row.integer(column)?.map(|number| number.try_into().map_err(|error| unreadable(column, error))).transpose()
            }
        }
    )*};
}

integer_columns!(i64, u64, u32);

impl Column for Bytes {
    fn bound(amount: Option<&Bytes>) -> Value {
        u64::bound(amount.map(|amount| &amount.0))
    }

    fn read(row: &Row, column: &str) -> Result<Option<Bytes>, sqlx::Error> {
        Ok(u64::read(row, column)?.map(Bytes))
    }
}

/// Stored with nine decimals, so that the text sorts by time.
impl Column for Timestamp {
    fn bound(time: Option<&Timestamp>) -> Value {
        Value::Text(time.map(|time| format!("{time:.9}")))
    }

    fn read(row: &Row, column: &str) -> Result<Option<Timestamp>, sqlx::Error> {
        String::read(row, column)?.map(|_| row.parsed(column)).transpose()
    }
}

impl Column for LatencyHistogram {
    fn bound(latency: Option<&LatencyHistogram>) -> Value {
        Value::Bytes(latency.map(|latency| latency.encoded.clone()))
    }

    fn read(row: &Row, column: &str) -> Result<Option<LatencyHistogram>, sqlx::Error> {
        let encoded: Option<Vec<u8>> = row.try_get(column)?;
        let decode = |encoded: Vec<u8>| LatencyHistogram::decode(&encoded).map_err(|error| unreadable(column, error));
        encoded.map(decode).transpose()
    }
}

columns!(Sample {
    second, monotonic_ms, wall_ms, transactions, foreground_read_bytes, device_read_bytes, device_reads, os_resident_bytes
    ; optional latency_us_mean, latency_us_min, latency_us_max, latency_us_deviation
});

columns!(SweepRun {
    id, started_at, pgthaw_version, pgbench_version, question, digest, points, repeats
    ; optional ended_at, source
    ; json machine, server, study, varied, configuration, generator, databases, verdicts, warnings
    ; optional_json warmup
    ; text seed
});

columns!(SweepTrial {
    sweep_id, number, repeat, position, started_at, command, lasted_seconds, transactions, failed, skipped, tps,
    device_read_bytes, retried, retries, late, checkpoint_cycles
    ; optional failure, server_version, worst_second_tps, latency, cycle_tps, ended_at
    ; json point, statistics, buffers_before, buffers_after, checkpoints, settings, waits, verdicts, warnings, devices
    ; optional_json start_state, generators, file_system, strategy_outcome, warming, checkpoint_begun, fresh_copy, time
    ; apart samples, os_samples, wait_samples, scripts
});

/// A queued study or a queued trial, which the results server lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsent {
    pub id: String,
    /// Point number and repeat; 0 for a study.
    pub number: u32,
    pub repeat: u32,
    pub changes: i64,
}

columns!(Unsent { id, number, repeat, changes });

columns!(ScriptLatency { script, answered, failed, skipped, response; optional service });

columns!(WaitSample { second; json seen });

// `steady_tps` is not stored, because it depends on other trials.
columns!(TrialOutline {
    number, repeat, position, started_at
    ; optional ended_at, start_verdict, failure
    ; json point, background, figures, verdicts, warnings
    ; optional_json warming, time
    ; apart judgement, no_verdict, steady_tps
});

/// Groups of measures. Stored names of their measures begin with the group, such as `pressure_cpu_some`.
const GROUPS: [&str; 4] = ["device", "pressure", "time", "waited"];

type Document = Map<String, serde_json::Value>;

/// Stores all measures in one JSON column, so that a new measure needs no new column. Lists and objects are in the
/// column `lists`, because SQL queries them differently.
impl Columns for OsSample {
    fn put(&self, values: Values) -> Values {
        let mut flat = flatten(self);
        flat.remove("second");
        let is_list = |value: &serde_json::Value| value.is_object() || value.is_array();
        let (lists, measures): (Document, Document) = flat.into_iter().partition(|(_, value)| is_list(value));
        let values = values.bind("second", &self.second);
        values.bind_json("measures", Some(&measures)).bind_json("lists", Some(&lists))
    }

    fn read(row: &Row) -> Result<OsSample, sqlx::Error> {
        let mut flat: Document = row.json("measures")?;
        flat.extend(row.json::<Document>("lists")?);
        flat.insert("second".to_owned(), row.get::<u32>("second")?.into());
        serde_json::from_value(nest(flat)).map_err(|error| unreadable("measures", error))
    }
}

fn flatten(sample: &OsSample) -> Document {
    let mut flat = Map::new();
    let Ok(serde_json::Value::Object(nested)) = serde_json::to_value(sample) else {
        unreachable!("a sample becomes an object")
    };
    for (name, value) in nested {
        match value {
            serde_json::Value::Object(group) if GROUPS.contains(&name.as_str()) => {
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

/// Nests measures in their groups again. Adds the mandatory group `pressure` even without values.
fn nest(flat: Document) -> serde_json::Value {
    let mut nested = Map::from_iter([("pressure".to_owned(), Map::new().into())]);
    for (name, value) in flat {
        let in_group = |group: &'static str| Some((group, name.strip_prefix(group)?.strip_prefix('_')?));
        match GROUPS.into_iter().find_map(in_group) {
            Some((group, part)) => nested.entry(group).or_insert_with(|| Map::new().into())[part] = value,
            None => drop(nested.insert(name, value)),
        }
    }
    serde_json::Value::Object(nested)
}
