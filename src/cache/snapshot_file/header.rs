//! The file's metadata: what the snapshot says of itself, as keys and text.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

use parquet::file::metadata::KeyValue;
use serde::de::DeserializeOwned;

use super::{FORMAT_VERSION, checksum};
use crate::cache::{Error, HeatSource, MapSource, SnapshotHeader, TierState};

const FORMAT: &str = "pgthaw.format_version";
const SYSTEM_IDENTIFIER: &str = "pgthaw.system_identifier";
const VERSION_NUM: &str = "pgthaw.postgres_version_num";
const BLOCK_SIZE: &str = "pgthaw.block_size";
const SEGMENT_BLOCKS: &str = "pgthaw.segment_blocks";
const LSN: &str = "pgthaw.lsn";
const TIMELINE: &str = "pgthaw.timeline";
const TAKEN_AT: &str = "pgthaw.taken_at";
const LABEL: &str = "pgthaw.label";
const OS_TIER: &str = "pgthaw.os_tier";
const BUFFERS_TIER: &str = "pgthaw.buffers_tier";
const OS_HEAT: &str = "pgthaw.os_heat";
const REMARKS: &str = "pgthaw.remarks";
const RELATIONS: &str = "pgthaw.relations";
const EMPTY: &str = "pgthaw.empty";
const PARTITIONED: &str = "pgthaw.partitioned";
const OS_BLOCKS: &str = "pgthaw.os_blocks";
const BUFFER_BLOCKS: &str = "pgthaw.buffers_blocks";

const MEASURED: &str = "measured";
const UNKNOWN: &str = "unknown: ";

/// The header as the file's metadata; the checksum's place comes last.
pub fn encode(header: &SnapshotHeader) -> Vec<KeyValue> {
    let source = &header.source;
    let remarks = serde_json::Value::from(header.remarks.clone()).to_string();
    // Texts and numbers alone: they cannot fail.
    let empty = serde_json::to_string(&header.empty).unwrap_or_default();
    let partitioned = serde_json::to_string(&header.partitioned).unwrap_or_default();
    let pairs = [
        (FORMAT, FORMAT_VERSION.to_string()),
        (SYSTEM_IDENTIFIER, source.system_identifier.to_string()),
        (VERSION_NUM, source.version_num.to_string()),
        (BLOCK_SIZE, source.block_size.to_string()),
        (SEGMENT_BLOCKS, source.segment_blocks.to_string()),
        (LSN, source.lsn.clone()),
        (TIMELINE, source.timeline.to_string()),
        (TAKEN_AT, header.taken_at.to_string()),
        (LABEL, header.label.clone().unwrap_or_default()),
        (OS_TIER, encode_tier(&header.os)),
        (BUFFERS_TIER, encode_tier(&header.buffers)),
        (OS_HEAT, header.os_heat.name().to_owned()),
        (REMARKS, remarks),
        (RELATIONS, header.relations.to_string()),
        (EMPTY, empty),
        (PARTITIONED, partitioned),
        (OS_BLOCKS, header.os_blocks.to_string()),
        (BUFFER_BLOCKS, header.buffer_blocks.to_string()),
        (checksum::KEY, checksum::ZEROS.to_string()),
    ];
    pairs.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect()
}

fn encode_tier(state: &TierState) -> String {
    match state {
        TierState::Measured => MEASURED.to_owned(),
        TierState::Unknown { reason } => format!("{UNKNOWN}{reason}"),
    }
}

/// The metadata of a file that claims to be a snapshot.
#[derive(Debug)]
pub struct Metadata<'a> {
    path: &'a Path,
    values: HashMap<&'a str, &'a str>,
}

impl<'a> Metadata<'a> {
    /// The metadata, when its format is one that this pgthaw knows.
    pub fn new(path: &'a Path, pairs: &'a [KeyValue]) -> Result<Metadata<'a>, Error> {
        let values = pairs.iter().map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap_or_default()));
        let metadata = Metadata { path, values: values.collect() };
        let reason = "it is a Parquet file without pgthaw's metadata".to_owned();
        if !metadata.values.contains_key(FORMAT) {
            return Err(Error::NotASnapshot { path: path.to_owned(), reason });
        }
        match metadata.number(FORMAT)? {
            found if found > FORMAT_VERSION => {
                Err(Error::NewerFormat { path: path.to_owned(), found, known: FORMAT_VERSION })
            }
            _ => Ok(metadata),
        }
    }

    /// The checksum as the metadata have it.
    pub fn checksum(&self) -> Result<&'a str, Error> {
        self.text(checksum::KEY)
    }

    /// The header, with every value checked.
    pub fn decode(&self) -> Result<SnapshotHeader, Error> {
        Ok(SnapshotHeader {
            label: Some(self.text(LABEL)?).filter(|label| !label.is_empty()).map(str::to_owned),
            taken_at: self.number(TAKEN_AT)?,
            source: self.decode_source()?,
            os: self.tier(OS_TIER)?,
            buffers: self.tier(BUFFERS_TIER)?,
            os_heat: self.heat()?,
            remarks: serde_json::from_str(self.text(REMARKS)?).map_err(|_| self.wrong(REMARKS))?,
            relations: self.number(RELATIONS)?,
            empty: self.list(EMPTY)?,
            partitioned: self.list(PARTITIONED)?,
            os_blocks: self.number(OS_BLOCKS)?,
            buffer_blocks: self.number(BUFFER_BLOCKS)?,
        })
    }

    fn decode_source(&self) -> Result<MapSource, Error> {
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

    fn text(&self, key: &str) -> Result<&'a str, Error> {
        self.values.get(key).copied().ok_or_else(|| self.wrong(key))
    }

    fn number<T: FromStr>(&self, key: &str) -> Result<T, Error> {
        self.text(key)?.parse().map_err(|_| self.wrong(key))
    }

    fn tier(&self, key: &str) -> Result<TierState, Error> {
        match self.text(key)? {
            MEASURED => Ok(TierState::Measured),
            text => match text.strip_prefix(UNKNOWN) {
                Some(reason) => Ok(TierState::Unknown { reason: reason.to_owned() }),
                None => Err(self.wrong(key)),
            },
        }
    }

    /// Snapshots of pgthaw 0.1.0 had no heat in the page cache and did not say so.
    fn heat(&self) -> Result<HeatSource, Error> {
        let name = self.values.get(OS_HEAT).copied().unwrap_or(HeatSource::None.name());
        HeatSource::from_name(name).ok_or_else(|| self.wrong(OS_HEAT))
    }

    /// The first snapshots knew neither partitioned tables nor empty relations.
    fn list<T: DeserializeOwned>(&self, key: &str) -> Result<Vec<T>, Error> {
        let text = self.values.get(key).copied().unwrap_or("[]");
        serde_json::from_str(text).map_err(|_| self.wrong(key))
    }

    fn wrong(&self, key: &str) -> Error {
        let reason = format!("its metadata {key} is missing or makes no sense");
        Error::Contradiction { path: self.path.to_owned(), reason }
    }
}
