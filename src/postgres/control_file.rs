//! `global/pg_control`: which cluster this is, in which state, and the sizes it was built with.
//!
//! See `src/include/catalog/pg_control.h` of PostgreSQL. The first four fields have stood at the same place since 8.x.
//! What follows moves between versions, but the sizes always come right after `floatFormat`, a constant that is there
//! to be recognised.

/// `FLOATFORMAT_VALUE` of pg_control.h.
const FLOAT_FORMAT: f64 = 1234567.0;

const SYSTEM_IDENTIFIER: usize = 0;
const PG_CONTROL_VERSION: usize = 8;
const STATE: usize = 16;

/// `DBState`: how the cluster was left, or that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    StartingUp,
    ShutDown,
    ShutDownInRecovery,
    ShuttingDown,
    InCrashRecovery,
    InArchiveRecovery,
    InProduction,
}

/// What pgthaw needs of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControlFile {
    pub system_identifier: u64,
    pub state: ClusterState,
    /// `blcksz`: bytes of a block.
    pub block_size: u32,
    /// `relseg_size`: blocks of a segment file.
    pub segment_blocks: u32,
}

impl ControlFile {
    /// Reads the file's contents; the error says in words what is wrong with them.
    pub(super) fn parse(contents: &[u8]) -> Result<ControlFile, String> {
        let number = |at: usize| read_bytes(contents, at).map(u32::from_ne_bytes);
        let version = number(PG_CONTROL_VERSION)?;
        if !(1300..100_000).contains(&version) {
            return Err(format!("format {version} is none that pgthaw knows"));
        }
        let sizes = find_sizes(contents).ok_or("it does not say the block size")?;
        let block_size = number(sizes)?;
        let segment_blocks = number(sizes + 4)?;
        if !(1024..=32_768).contains(&block_size) || !block_size.is_power_of_two() || segment_blocks == 0 {
            return Err(format!("{block_size} is no block size"));
        }
        Ok(ControlFile {
            system_identifier: u64::from_ne_bytes(read_bytes(contents, SYSTEM_IDENTIFIER)?),
            state: cluster_state(number(STATE)?)?,
            block_size,
            segment_blocks,
        })
    }
}

fn cluster_state(number: u32) -> Result<ClusterState, String> {
    use ClusterState::*;
    let states =
        [StartingUp, ShutDown, ShutDownInRecovery, ShuttingDown, InCrashRecovery, InArchiveRecovery, InProduction];
    states.get(number as usize).copied().ok_or(format!("{number} is no state of a cluster"))
}

/// Where the sizes begin: after the constant, which is aligned to 8 bytes.
fn find_sizes(contents: &[u8]) -> Option<usize> {
    let constant = FLOAT_FORMAT.to_ne_bytes();
    contents.chunks_exact(8).position(|bytes| bytes == constant).map(|position| (position + 1) * 8)
}

/// `N` bytes, in the order of the machine that wrote them, which is this one.
fn read_bytes<const N: usize>(contents: &[u8], at: usize) -> Result<[u8; N], String> {
    let bytes = contents.get(at..at + N).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "it is cut short".to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file as a running PostgreSQL 13 to 17 has it.
    pub fn control_file(system_identifier: u64, block_size: u32, segment_blocks: u32) -> Vec<u8> {
        let mut contents = vec![0; 8192];
        contents[0..8].copy_from_slice(&system_identifier.to_ne_bytes());
        contents[8..12].copy_from_slice(&1300_u32.to_ne_bytes());
        contents[16..20].copy_from_slice(&6_u32.to_ne_bytes());
        contents[208..216].copy_from_slice(&FLOAT_FORMAT.to_ne_bytes());
        contents[216..220].copy_from_slice(&block_size.to_ne_bytes());
        contents[220..224].copy_from_slice(&segment_blocks.to_ne_bytes());
        contents
    }

    #[test]
    fn reads_identity_state_and_sizes() {
        let parsed = ControlFile::parse(&control_file(7_300_000_000_000_000_001, 8192, 131_072)).unwrap();
        assert_eq!(parsed.system_identifier, 7_300_000_000_000_000_001);
        assert_eq!(parsed.state, ClusterState::InProduction);
        assert_eq!((parsed.block_size, parsed.segment_blocks), (8192, 131_072));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        let good = control_file(7, 8192, 131_072);
        assert!(ControlFile::parse(&good[..100]).is_err());
        assert!(ControlFile::parse(&[]).is_err());
        assert!(ControlFile::parse(&[0; 8192]).is_err());
        assert!(ControlFile::parse(&control_file(7, 8000, 131_072)).is_err());
        let mut bad_state = good;
        bad_state[16] = 200;
        assert!(ControlFile::parse(&bad_state).is_err());
    }
}
