//! Makes relations cold: in shared_buffers where the server can, in the OS page cache without root.
//!
//! The order matters. A checkpoint writes the dirty buffers, so that they do not come back as dirty pages; then buffers
//! go, then files. The files are looked at again at once: the next query to the server brings catalogs back.

mod eviction;
mod os;
mod receipt;

pub use eviction::Eviction;
pub use receipt::{BuffersStay, EvictReceipt, EvictedFork, EvictedTier, Stay, StayReason};

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::Error;
use crate::cache::{RelationMap, TierState};
use crate::linux::page_cache::apply_drop_caches;
use crate::postgres::{PG_BUFFERCACHE, RelationPath, Server, apply_checkpoint, apply_evict_buffers, read_buffers};
use crate::units::Bytes;

impl Eviction<'_> {
    /// Evicts, looks again, and says what stayed.
    ///
    /// # Errors
    /// When a tier that was asked for cannot be seen or reached at all.
    pub async fn run(self) -> Result<EvictReceipt, Error> {
        let mut receipt = EvictReceipt::new(self.is_dry_run);
        if self.is_dry_run {
            receipt.os = self.tiers.os.then(|| EvictedTier::before(self.os_bytes()));
            receipt.buffers = self.tiers.buffers.then(|| EvictedTier::before(self.buffer_bytes()));
            return Ok(receipt);
        }
        if let Some(server) = self.server {
            self.checkpoint(server, &mut receipt).await?;
        }
        if self.tiers.buffers {
            self.evict_buffers(&mut receipt).await?;
        }
        if self.tiers.os {
            let directory = match (&self.map.os, self.directory) {
                (TierState::Measured, Some(directory)) => directory,
                (TierState::Unknown { reason }, _) => return Err(Error::OsTierHidden { reason: reason.clone() }),
                (TierState::Measured, None) => {
                    return Err(Error::OsTierHidden { reason: "its data directory is not known".to_owned() });
                }
            };
            if self.drop_caches {
                apply_drop_caches()?;
            }
            os::evict(&self, directory, &mut receipt);
        }
        receipt.is_interrupted = self.control.is_interrupted();
        Ok(receipt)
    }

    /// Without the right to one, evicting files writes what is in them; what is dirty in shared_buffers alone is
    /// written, and cached again, when the server pleases.
    async fn checkpoint(&self, server: &Server, receipt: &mut EvictReceipt) -> Result<(), Error> {
        let mut connection = server.connect_to(&server.database).await?;
        if let Err(error) = apply_checkpoint(&mut connection).await {
            receipt.remarks.push(format!(
                "{error}: what is dirty in shared_buffers will be cached again when the server writes it"
            ));
        }
        Ok(())
    }

    async fn evict_buffers(&self, receipt: &mut EvictReceipt) -> Result<(), Error> {
        let mut tier = EvictedTier::before(self.buffer_bytes());
        let Some(server) = self.server else {
            receipt.remarks.push("the server does not run: shared_buffers are empty when it starts".to_owned());
            receipt.buffers = Some(EvictedTier { resident_after_bytes: Some(Bytes(0)), ..tier });
            return Ok(());
        };
        let databases: Vec<String> = self
            .map
            .relations
            .iter()
            .map(|one| one.relation.name.database.clone())
            .collect::<HashSet<_>>()
            .into_iter()
            .collect();
        let mut connection = server.connect_with_extension(PG_BUFFERCACHE, &databases).await?;
        let paths: Vec<RelationPath> = self.map.relations.iter().map(|one| one.relation.path.clone()).collect();
        let chosen = (!self.is_whole_cluster).then_some(&paths[..]);
        if apply_evict_buffers(&mut connection, chosen).await?.is_none() {
            receipt.buffers_stay = true;
            receipt.remarks.push(format!(
                "shared_buffers stay as they are: PostgreSQL {} cannot evict buffers (17 and later can); restart the server, or give --tier os to leave them alone",
                server.facts.version
            ));
        }
        let mut after: HashMap<RelationKey, u64> = paths.iter().map(|path| (key(path), 0)).collect();
        read_buffers(&mut connection, |buffer| {
            let found = after.get_mut(&(buffer.tablespace_oid, buffer.database_oid, buffer.relfilenumber));
            found.into_iter().for_each(|blocks| *blocks += 1);
        })
        .await?;
        tier.resident_after_bytes = Some(self.bytes(after.values().sum()));
        receipt.buffers = Some(tier);
        if !receipt.buffers_stay {
            receipt.buffers_stayed = self.name_buffers(&after);
        }
        Ok(())
    }

    /// Whose the buffers are, by the blocks of each relation.
    fn name_buffers(&self, blocks: &HashMap<RelationKey, u64>) -> Vec<BuffersStay> {
        let stay = |one: &RelationMap| {
            let bytes = self.bytes(*blocks.get(&key(&one.relation.path)).filter(|blocks| **blocks > 0)?);
            Some(BuffersStay { name: one.relation.name.clone(), bytes })
        };
        let mut stayed: Vec<BuffersStay> = self.map.relations.iter().filter_map(stay).collect();
        stayed.sort_by_key(|stay| Reverse(stay.bytes));
        stayed
    }
}

/// Tablespace, database, relfilenumber.
type RelationKey = (u32, u32, u32);

fn key(path: &RelationPath) -> RelationKey {
    (path.tablespace_oid(), path.database_oid(), path.relfilenumber())
}
