//! What such a file says of itself, as keys and text.

use std::collections::HashMap;
use std::str::FromStr;

use parquet::file::metadata::KeyValue;
use serde::de::DeserializeOwned;

use super::super::MapSource;
use super::{Flaw, checksum};

const SYSTEM_IDENTIFIER: &str = "pgthaw.system_identifier";
const VERSION_NUM: &str = "pgthaw.postgres_version_num";
const BLOCK_SIZE: &str = "pgthaw.block_size";
const SEGMENT_BLOCKS: &str = "pgthaw.segment_blocks";
const LSN: &str = "pgthaw.lsn";
const TIMELINE: &str = "pgthaw.timeline";

/// Keys and texts as the file's metadata. The checksum's place comes last.
pub fn encode_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Vec<KeyValue> {
    let seal = (checksum::KEY, checksum::ZEROS.to_string());
    pairs.into_iter().chain([seal]).map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect()
}

/// Which cluster the file is of, as metadata.
pub fn encode_source(source: &MapSource) -> [(&'static str, String); 6] {
    [
        (SYSTEM_IDENTIFIER, source.system_identifier.to_string()),
        (VERSION_NUM, source.version_num.to_string()),
        (BLOCK_SIZE, source.block_size.to_string()),
        (SEGMENT_BLOCKS, source.segment_blocks.to_string()),
        (LSN, source.lsn.clone()),
        (TIMELINE, source.timeline.to_string()),
    ]
}

/// The metadata of a file that claims to be one of pgthaw's.
#[derive(Debug)]
pub struct Metadata<'a> {
    values: HashMap<&'a str, &'a str>,
}

impl<'a> Metadata<'a> {
    /// The metadata, when the `format` that they name is one that this pgthaw knows.
    pub fn new(pairs: &'a [KeyValue], format: &str, known: u32) -> Result<Metadata<'a>, Flaw> {
        let values = pairs.iter().map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap_or_default()));
        let metadata = Metadata { values: values.collect() };
        if !metadata.values.contains_key(format) {
            return Err(Flaw::NotOne("it is a Parquet file without pgthaw's metadata".to_owned()));
        }
        match metadata.number(format)? {
            found if found > known => Err(Flaw::NewerFormat { found, known }),
            _ => Ok(metadata),
        }
    }

    /// Which cluster the file is of, with every value checked.
    pub fn decode_source(&self) -> Result<MapSource, Flaw> {
        let source = MapSource {
            system_identifier: self.number(SYSTEM_IDENTIFIER)?,
            version_num: self.number(VERSION_NUM)?,
            block_size: self.number(BLOCK_SIZE)?,
            segment_blocks: self.number(SEGMENT_BLOCKS)?,
            data_directory: None,
            lsn: self.text(LSN)?.to_owned(),
            timeline: self.number(TIMELINE)?,
        };
        // PostgreSQL's configure allows 1 to 32 kB.
        if !source.block_size.is_power_of_two() || !(1024..=32_768).contains(&source.block_size) {
            return Err(self.wrong(BLOCK_SIZE));
        }
        if source.segment_blocks == 0 {
            return Err(self.wrong(SEGMENT_BLOCKS));
        }
        Ok(source)
    }

    /// The text of a key, if it is there.
    pub fn find(&self, key: &str) -> Option<&'a str> {
        self.values.get(key).copied()
    }

    /// The text of a key that has to be there.
    pub fn text(&self, key: &str) -> Result<&'a str, Flaw> {
        self.find(key).ok_or_else(|| self.wrong(key))
    }

    /// A number, a time or the like that has to be there.
    pub fn number<T: FromStr>(&self, key: &str) -> Result<T, Flaw> {
        self.text(key)?.parse().map_err(|_| self.wrong(key))
    }

    /// A value as JSON; an empty one of a key that is not there.
    pub fn json<T: DeserializeOwned + Default>(&self, key: &str) -> Result<T, Flaw> {
        self.find(key).map_or_else(|| Ok(T::default()), |text| serde_json::from_str(text).map_err(|_| self.wrong(key)))
    }

    /// The flaw of a key whose value is missing or none.
    pub fn wrong(&self, key: &str) -> Flaw {
        Flaw::Contradiction(format!("its metadata {key} is missing or makes no sense"))
    }
}
