//! The file's metadata: what the snapshot says of itself, as keys and text.

use parquet::file::metadata::KeyValue;

use super::FORMAT_VERSION;
use crate::sealed_file::{Flaw, Metadata, Sealed, encode_pairs, encode_source};
use crate::{HeatSource, SnapshotHeader, TierState};

const FORMAT: &str = "pgthaw.format_version";
const TAKEN_AT: &str = "pgthaw.taken_at";
const LABEL: &str = "pgthaw.label";
const OS_TIER: &str = "pgthaw.os_tier";
const BUFFERS_TIER: &str = "pgthaw.buffers_tier";
const OS_HEAT: &str = "pgthaw.os_heat";
const REMARKS: &str = "pgthaw.remarks";
const RELATIONS: &str = "pgthaw.relations";
const EMPTY: &str = "pgthaw.empty";
const PARTITIONED: &str = "pgthaw.partitioned";
const LOOKUPS: &str = "pgthaw.lookups";
const OS_BLOCKS: &str = "pgthaw.os_blocks";
const BUFFER_BLOCKS: &str = "pgthaw.buffers_blocks";
const DATABASES: &str = "pgthaw.databases";

const MEASURED: &str = "measured";
const UNKNOWN: &str = "unknown: ";

/// The header as the file's metadata.
pub fn encode(header: &SnapshotHeader) -> Vec<KeyValue> {
    let remarks = serde_json::Value::from(header.remarks.clone()).to_string();
    // Texts and numbers alone: they cannot fail.
    let empty = serde_json::to_string(&header.empty).unwrap_or_default();
    let partitioned = serde_json::to_string(&header.partitioned).unwrap_or_default();
    let lookups = serde_json::to_string(&header.lookups).unwrap_or_default();
    let databases = serde_json::to_string(&header.databases).unwrap_or_default();
    let own = [
        (TAKEN_AT, header.taken_at.to_string()),
        (LABEL, header.label.clone().unwrap_or_default()),
        (OS_TIER, encode_tier(&header.os)),
        (BUFFERS_TIER, encode_tier(&header.buffers)),
        (OS_HEAT, header.os_heat.name().to_owned()),
        (REMARKS, remarks),
        (RELATIONS, header.relations.to_string()),
        (EMPTY, empty),
        (PARTITIONED, partitioned),
        (LOOKUPS, lookups),
        (OS_BLOCKS, header.os_blocks.to_string()),
        (BUFFER_BLOCKS, header.buffer_blocks.to_string()),
        (DATABASES, databases),
    ];
    let format = (FORMAT, FORMAT_VERSION.to_string());
    encode_pairs([format].into_iter().chain(encode_source(&header.source)).chain(own))
}

fn encode_tier(state: &TierState) -> String {
    match state {
        TierState::Measured => MEASURED.to_owned(),
        TierState::Unknown { reason } => format!("{UNKNOWN}{reason}"),
    }
}

/// The header of a file that claims to be a snapshot, with every value checked.
pub fn decode(sealed: &Sealed) -> Result<SnapshotHeader, Flaw> {
    let metadata = Metadata::new(sealed.key_values(), FORMAT, FORMAT_VERSION)?;
    Ok(SnapshotHeader {
        label: Some(metadata.text(LABEL)?).filter(|label| !label.is_empty()).map(str::to_owned),
        taken_at: metadata.number(TAKEN_AT)?,
        source: metadata.decode_source()?,
        os: decode_tier(&metadata, OS_TIER)?,
        buffers: decode_tier(&metadata, BUFFERS_TIER)?,
        os_heat: HeatSource::from_name(metadata.text(OS_HEAT)?).ok_or_else(|| metadata.wrong(OS_HEAT))?,
        remarks: metadata.json(REMARKS)?,
        relations: metadata.number(RELATIONS)?,
        empty: metadata.json(EMPTY)?,
        partitioned: metadata.json(PARTITIONED)?,
        lookups: metadata.json(LOOKUPS)?,
        os_blocks: metadata.number(OS_BLOCKS)?,
        buffer_blocks: metadata.number(BUFFER_BLOCKS)?,
        databases: metadata.json(DATABASES)?,
    })
}

/// The header of a file that was compared with its checksum, which has to be the one that it names.
pub fn decode_verified(sealed: &Sealed) -> Result<SnapshotHeader, Flaw> {
    sealed.check_digest(&Metadata::new(sealed.key_values(), FORMAT, FORMAT_VERSION)?)?;
    decode(sealed)
}

fn decode_tier(metadata: &Metadata<'_>, key: &str) -> Result<TierState, Flaw> {
    match metadata.text(key)? {
        MEASURED => Ok(TierState::Measured),
        text => match text.strip_prefix(UNKNOWN) {
            Some(reason) => Ok(TierState::Unknown { reason: reason.to_owned() }),
            None => Err(metadata.wrong(key)),
        },
    }
}
