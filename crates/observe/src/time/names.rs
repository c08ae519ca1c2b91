//! Names of wait event numbers, which differ between major versions.
//!
//! `scripts/wait-events` writes the known names to `wait_events.tsv`. pgthaw learns others from pg_wait_events or, for
//! extensions, from pg_stat_activity and process memory together.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::source::WaitEvent;
use host::linux::threads::lock;
use postgres::{Session, read_wait_event_names};
use sqlx::postgres::PgConnection;

/// Per line: class, name, and for each of `VERSIONS` the number within the class, or `-`.
const TABLE: &str = include_str!("wait_events.tsv");

const VERSIONS: [u32; 7] = [13, 14, 15, 16, 17, 18, 19];

/// Classes by the number's highest byte (`src/include/utils/wait_event.h`, `wait_classes.h`).
const CLASSES: [(u32, &str); 11] = [
    (0x01, "LWLock"),
    (0x03, "Lock"),
    // Buffer since PostgreSQL 19 was BufferPin until 18.
    (0x04, "Buffer"),
    (0x04, "BufferPin"),
    (0x05, "Activity"),
    (0x06, "Client"),
    (0x07, "Extension"),
    (0x08, "IPC"),
    (0x09, "Timeout"),
    (0x0a, "IO"),
    (0x0b, "InjectionPoint"),
];

const SLEEP: &str = "sleep";

const UNKNOWN: &str = "unknown";

/// Classes whose events, unlike those of Lock and LWLock, are numbered from 0 in the order of pg_wait_events.
const COUNTED: [&str; 6] = ["Buffer", "Activity", "Client", "IPC", "Timeout", "IO"];

/// Clones share their names, of which some are learned.
#[derive(Clone, Debug, Default)]
pub struct WaitNames {
    major: u32,
    names: Arc<Mutex<HashMap<u32, (String, String)>>>,
}

impl WaitNames {
    pub fn of_version(version_num: u32) -> WaitNames {
        let column = VERSIONS.iter().position(|version| *version == version_num / 10_000);
        let parse = |line: &str| {
            let mut fields = line.split('\t');
            let (class, name) = (fields.next()?, fields.next()?);
            let number: u32 = fields.nth(column?)?.parse().ok()?;
            let (byte, class) = CLASSES.into_iter().find(|(_, known)| *known == class)?;
            Some((byte << 24 | number, (class.to_owned(), name.to_owned())))
        };
        let names = TABLE.lines().filter_map(parse).collect();
        WaitNames { major: version_num / 10_000, names: Arc::new(Mutex::new(names)) }
    }

    pub async fn of_server(version_num: u32, connection: &mut PgConnection) -> WaitNames {
        let names = WaitNames::of_version(version_num);
        if lock(&names.names).is_empty() {
            names.count(read_wait_event_names(connection).await.unwrap_or_default());
        }
        names
    }

    fn count(&self, events: Vec<(String, String)>) {
        let mut learned = lock(&self.names);
        let mut next: BTreeMap<u32, u32> = BTreeMap::new();
        for (class, event) in events {
            let counted = CLASSES.iter().find(|(_, known)| *known == class && COUNTED.contains(known));
            let Some((byte, _)) = counted else { continue };
            let next = next.entry(*byte).or_default();
            learned.insert(byte << 24 | *next, (class, event));
            *next += 1;
        }
    }

    pub fn lacks(&self, number: u32) -> bool {
        number != 0 && !lock(&self.names).contains_key(&number)
    }

    /// Learns names of wait event numbers. A number gets the name of a session's event if the session's
    /// process had this number in its memory both before and after the query that returned `sessions`.
    pub fn learn(&self, sessions: &[Session], before: &HashMap<u32, u32>, after: &HashMap<u32, u32>) {
        for session in sessions {
            // An unknown class may have any number.
            if let Some(number) = before.get(&session.pid)
                && after.get(&session.pid) == Some(number)
                && let Some((class, event)) = session.event_type.clone().zip(session.event.clone())
                && CLASSES.iter().find(|(_, known)| *known == class).is_none_or(|(byte, _)| *byte == number >> 24)
                && self.lacks(*number)
            {
                lock(&self.names).insert(*number, (class, event));
            }
        }
    }

    pub fn name(&self, event: &WaitEvent) -> (String, String) {
        match event {
            WaitEvent::Named(class, event) => (class.clone(), event.clone()),
            WaitEvent::Number(0) => (SLEEP.into(), "no event".into()),
            WaitEvent::Unknown => (SLEEP.into(), "unknown".into()),
            WaitEvent::Further => (SLEEP.into(), "further events".into()),
            WaitEvent::Number(number) => lock(&self.names).get(number).cloned().unwrap_or_else(|| {
                let class = CLASSES.into_iter().find(|(byte, _)| *byte == number >> 24);
                (class.map_or(UNKNOWN, |(_, name)| name).into(), UNKNOWN.into())
            }),
        }
    }

    /// True for a process that never shows an event. In PostgreSQL 13, it has no shared memory entry.
    pub fn has_none_for(&self, kind: &str) -> bool {
        self.major == 13 && matches!(kind, "archiver" | "stats collector" | "logger")
    }
}

/// Since 19, class Buffer includes the LWLocks of buffer contents and the wait for pins.
pub fn class_until_18<'a>(class: &'a str, event: &str) -> &'a str {
    match (class, event) {
        ("Buffer", "BufferCleanup") => "BufferPin",
        ("Buffer", _) => "LWLock",
        _ => class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &WaitNames, number: u32) -> String {
        let (class, event) = names.name(&WaitEvent::Number(number));
        format!("{class}::{event}")
    }

    #[test]
    fn a_pin_and_the_lock_of_a_buffer_have_the_names_of_their_version() {
        let pin = |version_num| named(&WaitNames::of_version(version_num), 0x0400_0000);
        let expected = ["BufferPin::BufferPin", "BufferPin::BufferPin", "Buffer::BufferCleanup"];
        assert_eq!([150_018, 180_006, 190_000].map(pin), expected);
        assert_eq!(named(&WaitNames::of_version(190_000), 0x0400_0001), "Buffer::BufferExclusive");
    }

    #[test]
    fn events_of_a_version_that_is_not_known_have_the_names_of_the_server() {
        let names = WaitNames::of_version(200_000);
        let events =
            [("Activity", "ArchiverMain"), ("LWLock", "ShmemIndex"), ("Timeout", "New"), ("Timeout", "PgSleep")];
        names.count(events.map(|(class, event)| (class.to_owned(), event.to_owned())).to_vec());
        assert_eq!(named(&names, 0x0900_0001), "Timeout::PgSleep");
        assert_eq!(named(&names, 0x0100_0001), "LWLock::unknown", "its numbers have gaps");
        assert_eq!(named(&names, 0x0900_0007), "Timeout::unknown");
        assert_eq!(named(&names, 0x3300_0007), "unknown::unknown");
    }

    #[test]
    fn what_has_the_same_number_before_and_after_the_server_was_asked_is_learned() {
        let names = WaitNames::of_version(190_000);
        let session = |pid, class: &str, event: &str| Session {
            pid,
            event_type: Some(class.into()),
            event: Some(event.into()),
            ..Session::default()
        };
        let sessions = [
            session(1, "Extension", "DblinkGetResult"),
            session(2, "Extension", "Moved"),
            session(3, "Timeout", "OfAnotherClass"),
        ];
        let before = HashMap::from([(1, 0x0700_0003), (2, 0x0700_0004), (3, 0x0700_0005)]);
        let after = HashMap::from([(1, 0x0700_0003), (2, 0x0700_0006), (3, 0x0700_0005)]);
        names.clone().learn(&sessions, &before, &after);
        let all = [0x0700_0003, 0x0700_0004, 0x0700_0005].map(|number| named(&names, number));
        assert_eq!(all, ["Extension::DblinkGetResult", "Extension::unknown", "Extension::unknown"]);
    }
}
