//! Wait events by their numbers.
//!
//! A number means another event in each major version. `wait_events.tsv` has them of all versions, as `scripts/wait-events` had the
//! servers' own function tell them. A number that is not there is printed as a number: minor versions and extensions may add some.

use std::collections::HashMap;

use super::source::WaitEvent;

/// A line for each event: class, name, and its number within the class in each of [`VERSIONS`]; `-` where it is not there.
const TABLE: &str = include_str!("wait_events.tsv");

/// Major versions, in the order of the table's columns.
const VERSIONS: [u32; 6] = [13, 14, 15, 16, 17, 18];

/// The classes (`src/include/utils/wait_event.h`, `wait_classes.h`), by the number's highest byte.
const CLASSES: [(u8, &str); 10] = [
    (0x01, "LWLock"),
    (0x03, "Lock"),
    (0x04, "BufferPin"),
    (0x05, "Activity"),
    (0x06, "Client"),
    (0x07, "Extension"),
    (0x08, "IPC"),
    (0x09, "Timeout"),
    (0x0a, "IO"),
    (0x0b, "InjectionPoint"),
];

/// Of a process that sleeps without an event.
const SLEEP: &str = "sleep";

/// The names of one major version.
#[derive(Clone, Debug, Default)]
pub struct WaitNames {
    major: u32,
    names: HashMap<u32, (&'static str, &'static str)>,
}

impl WaitNames {
    /// Of the server of this `server_version_num`. Of a version that the table does not have every event is a number.
    pub fn of_version(version_num: u32) -> WaitNames {
        let column = VERSIONS.iter().position(|version| *version == version_num / 10_000);
        let parse = |line: &'static str| {
            let mut fields = line.split('\t');
            let (class, name) = (fields.next()?, fields.next()?);
            let number: u32 = fields.nth(column?)?.parse().ok()?;
            let (byte, class) = CLASSES.into_iter().find(|(_, known)| *known == class)?;
            Some((u32::from(byte) << 24 | number, (class, name)))
        };
        WaitNames { major: version_num / 10_000, names: TABLE.lines().filter_map(parse).collect() }
    }

    /// Class and event, the second and third part of a statistic's name.
    pub fn name(&self, event: &WaitEvent) -> (String, String) {
        match event {
            WaitEvent::Named(class, event) => (class.clone(), event.clone()),
            WaitEvent::Number(0) => (SLEEP.into(), "no event".into()),
            WaitEvent::Unknown => (SLEEP.into(), "unknown".into()),
            WaitEvent::Further => (SLEEP.into(), "further events".into()),
            WaitEvent::Number(number) => match self.names.get(number) {
                Some((class, event)) => ((*class).into(), (*event).into()),
                None => {
                    let class = CLASSES.into_iter().find(|(byte, _)| u32::from(*byte) == number >> 24);
                    let class = class.map_or_else(|| format!("0x{:02x}", number >> 24), |(_, name)| name.into());
                    (class, (number & 0x00ff_ffff).to_string())
                }
            },
        }
    }

    /// Does a background process of this kind tell no event whatever it waits for? In version 13 that is who has no entry in shared memory.
    pub fn has_none_for(&self, kind: &str) -> bool {
        self.major == 13 && matches!(kind, "archiver" | "stats collector" | "logger")
    }

    /// Are there names for this version?
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
