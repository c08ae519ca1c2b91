//! What of what is wanted is in shared_buffers now.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::want::{BufferKey, Want};
use crate::postgres::{Error, PG_BUFFERCACHE, Server, read_buffers};

/// A picture of shared_buffers, as far as it matters.
#[derive(Debug)]
pub struct Current {
    /// Buffers that hold something.
    pub used: u64,
    /// Blocks of each want, by its number.
    resident: Vec<RoaringBitmap>,
}

impl Current {
    /// Looks at all buffers, through the first database that has pg_buffercache.
    pub async fn read(server: &Server, databases: &[String], wants: &[Want]) -> Result<Current, Error> {
        let mut connection = server.connect_with_extension(PG_BUFFERCACHE, databases).await?;
        let numbers: HashMap<BufferKey, usize> = wants.iter().enumerate().map(|(at, want)| (want.key, at)).collect();
        let mut current = Current { used: 0, resident: vec![RoaringBitmap::new(); wants.len()] };
        read_buffers(&mut connection, |buffer| {
            current.used += 1;
            let key = (buffer.tablespace_oid, buffer.database_oid, buffer.relfilenumber, buffer.fork);
            if let Some(at) = numbers.get(&key) {
                current.resident[*at].insert(buffer.block);
            }
        })
        .await?;
        Ok(current)
    }

    /// The blocks of a want that are there.
    pub fn resident(&self, want: usize) -> &RoaringBitmap {
        &self.resident[want]
    }

    /// How many of the blocks that are asked for are there.
    pub fn count(&self, at: usize, want: &Want) -> u64 {
        want.levels.iter().map(|(_, blocks)| blocks.intersection_len(&self.resident[at])).sum()
    }
}
