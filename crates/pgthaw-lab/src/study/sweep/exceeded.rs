//! Caches that the databases of a study are meant to exceed: `[exceeds]` of a study file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

/// A cache that a database may be meant to exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exceeded {
    SharedBuffers,
    Memory,
}

impl Exceeded {
    /// The word of the study file.
    pub fn name(self) -> &'static str {
        match self {
            Exceeded::SharedBuffers => "shared_buffers",
            Exceeded::Memory => "memory",
        }
    }
}

/// From which scale on each is exceeded.
pub fn read_exceeds(raw: &BTreeMap<Exceeded, Value>) -> Result<BTreeMap<Exceeded, u32>, String> {
    let scale = |(cache, value): (&Exceeded, &Value)| {
        let scale = value.as_integer().and_then(|scale| u32::try_from(scale).ok()).filter(|scale| *scale > 0);
        let wrong =
            || format!("exceeds.{}: {value} is no scale; write the smallest scale that is to exceed it", cache.name());
        Ok((*cache, scale.ok_or_else(wrong)?))
    };
    raw.iter().map(scale).collect()
}
