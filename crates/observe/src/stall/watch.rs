use std::collections::HashMap;
use std::path::Path;

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use super::stalls::{STEPS_OF_SECOND, Stalls};
use super::step::{DATA_DEVICE, LOG_DEVICE, SeenCall, Step, Stepper};
use crate::gauges::GaugeReading;
use crate::time::{FileName, Reading, Roster, WaitNames, shown_lock};
use host::linux::block_device::{Devices, read_block_device};
use host::linux::clock::read_wall_ms;
use postgres::{LockProcess, read_relation_of_file};

/// Minimum duration of a file call whose relation pgthaw looks up.
const TELLING_CALL_NS: u64 = 200_000_000;

#[derive(Debug)]
pub struct StallWatch {
    names: WaitNames,
    stepper: Stepper,
    pub stalls: Stalls,
    devices: Devices,
    machine: GaugeReading,
    /// Key: database and relfilenode.
    relations: HashMap<(u32, u32), Option<String>>,
}

impl StallWatch {
    pub fn new(names: WaitNames, data_directory: Option<&Path>) -> StallWatch {
        let number = |path: &Path| read_block_device(path).ok().map(|device| device.number);
        let data = data_directory.and_then(number);
        let log =
            data_directory.and_then(|directory| number(&directory.join("pg_wal"))).filter(|log| Some(*log) != data);
        let parts = data.map(|number| (DATA_DEVICE, number)).into_iter();
        let parts = parts.chain(log.map(|number| (LOG_DEVICE, number))).collect();
        let devices = Devices { main: data, parts };
        StallWatch {
            names,
            stepper: Stepper::default(),
            stalls: Stalls::new(STEPS_OF_SECOND),
            machine: GaugeReading::read_machine(&devices),
            devices,
            relations: HashMap::new(),
        }
    }

    /// Adds a reading, with lock waits since the last one. Looks up relations through `connection`. If commands
    /// are not counted, ends an ongoing stall instead.
    ///
    /// Returns the number of transactions that the lookups caused.
    pub async fn add(
        &mut self,
        reading: &Reading,
        roster: &Roster,
        locks: Vec<LockProcess>,
        connection: Option<&mut PgConnection>,
    ) -> u64 {
        if !reading.counts_commands {
            self.stalls.end();
            return 0;
        }
        let Some(mut step) = self.stepper.add(reading, &self.names, |process| roster.who(process)) else { return 0 };
        step.wall_ms = read_wall_ms();
        let machine = GaugeReading::read_machine(&self.devices);
        step.processors = f64::from(machine.processors.count);
        step.machine = machine.since(&self.machine, 1);
        self.machine = machine;
        let asked = match connection {
            Some(connection) => self.ask(&step, connection).await,
            None => 0,
        };
        step.holders = locks.into_iter().filter(|one| one.waiters > 0).map(shown_lock).collect();
        for seen in &mut step.calls {
            seen.relation = seen.call.file.relation.and_then(|file| self.relations.get(&file).cloned().flatten());
        }
        self.stalls.add(step);
        asked
    }

    /// Name of the file's relation, if visible in the connected database.
    pub async fn name_relation(&mut self, file: &FileName, connection: &mut PgConnection) -> Option<String> {
        let key = file.relation?;
        if let Some(known) = self.relations.get(&key) {
            return known.clone();
        }
        // pgthaw may lack privileges, or the database may differ.
        let name = read_relation_of_file(connection, key.0, key.1).await.ok().flatten();
        self.relations.insert(key, name.clone());
        name
    }

    async fn ask(&mut self, step: &Step, connection: &mut PgConnection) -> u64 {
        let (statements, relations) = (connection.cached_statements_size(), self.relations.len());
        let is_long = |seen: &&SeenCall| {
            seen.call.end_ns.unwrap_or(step.end_ns).saturating_sub(seen.call.begin_ns) >= TELLING_CALL_NS
        };
        for seen in step.calls.iter().filter(is_long) {
            self.name_relation(&seen.call.file, connection).await;
        }
        // Preparing a statement is a transaction too.
        let prepared = connection.cached_statements_size().saturating_sub(statements);
        (self.relations.len() - relations + prepared) as u64
    }
}
