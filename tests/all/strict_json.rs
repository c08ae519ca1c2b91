//! JSON as its strictest readers take it: no object has a key twice. serde_json keeps the last one, and says nothing.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Any value, looked at and forgotten.
pub struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

macro_rules! accept {
    ($($name:ident: $kind:ty),*) => {
        $(fn $name<E: Error>(self, _: $kind) -> Result<Strict, E> { Ok(Strict) })*
    };
}

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without a key that comes twice")
    }

    accept!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E: Error>(self) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Strict, A::Error> {
        while values.next_element::<Strict>()?.is_some() {}
        Ok(Strict)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Strict, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !keys.insert(key.clone()) {
                entries.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom(format!("the key \"{key}\" comes twice")));
            }
            entries.next_value::<Strict>()?;
        }
        Ok(Strict)
    }
}

#[test]
fn a_key_that_comes_twice_is_found() {
    let read = |text| serde_json::from_str::<Strict>(text).map(drop);
    read(r#"{"a": [1, -2, 0.5, "x", null, true], "b": {"a": 1}}"#).unwrap();
    let error = read(r#"[{"a": {"b": 1, "b": [2]}}]"#).unwrap_err().to_string();
    assert!(error.contains("\"b\" comes twice"), "{error}");
}
