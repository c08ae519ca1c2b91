//! Where the parts of a server lie: all on one device, or some of them on devices of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::axis::check_used;
use super::point::{NATIVE, TOGETHER};

/// A part of a server that may lie on a device of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The write-ahead log.
    Wal,
    /// The status of transactions: pg_xact, pg_clog before PostgreSQL 10.
    Slru,
    /// Tables and materialised views of the database, with their TOAST tables.
    Tables,
    /// All of its indexes.
    Indexes,
}

impl Part {
    const ALL: [Part; 4] = [Part::Wal, Part::Slru, Part::Tables, Part::Indexes];

    /// The word of the study file.
    pub fn name(self) -> &'static str {
        match self {
            Part::Wal => "wal",
            Part::Slru => "slru",
            Part::Tables => "tables",
            Part::Indexes => "indexes",
        }
    }

    /// What lies on the second device of its file system, where there is one.
    pub fn log_name(self) -> &'static str {
        match self {
            Part::Wal => "wal-log",
            Part::Slru => "slru-log",
            Part::Tables => "tables-log",
            Part::Indexes => "indexes-log",
        }
    }

    /// The directory of the data directory that it is; `None` of what lies in a tablespace.
    pub fn directory(self) -> Option<&'static str> {
        match self {
            Part::Wal => Some("pg_wal"),
            Part::Slru => Some("pg_xact"),
            Part::Tables | Part::Indexes => None,
        }
    }

    /// The tablespace that it lies in; `None` of a directory.
    pub fn tablespace(self) -> Option<&'static str> {
        match self {
            Part::Tables => Some("pgthaw_tables"),
            Part::Indexes => Some("pgthaw_indexes"),
            Part::Wal | Part::Slru => None,
        }
    }
}

/// The parts that lie on devices of their own, each with the name of its disk. The rest lies on the point's own disk.
pub type Places = BTreeMap<Part, String>;

/// The places that the axis names, but for [`TOGETHER`]. `file_systems` are those of the axis.
pub fn read_places(
    own: &BTreeMap<String, Table>,
    asked: &[String],
    file_systems: &[String],
) -> Result<BTreeMap<String, Places>, String> {
    if own.contains_key(TOGETHER) {
        return Err("places.together: it is the one that has all on one device; give this one another name".into());
    }
    let known = own.iter().map(|(name, table)| Ok((name.clone(), read_place(name, table)?)));
    let known: BTreeMap<String, Places> = known.collect::<Result<_, String>>()?;
    check_used(("places", "places"), own.keys(), asked)?;
    let choose = |name: &String| {
        let wrong = || format!("points.places: there is no {name:?}: together and those of [places] are known");
        Ok((name.clone(), known.get(name).cloned().ok_or_else(wrong)?))
    };
    let asked = asked.iter().filter(|name| *name != TOGETHER);
    let places: BTreeMap<String, Places> = asked.map(choose).collect::<Result<_, String>>()?;
    let is_apart = places.values().any(|parts| !parts.is_empty());
    if is_apart && file_systems.iter().any(|name| name == NATIVE) {
        return Err(
            "points.places: parts lie on loop devices, and what is left has to lie on one too, for else two kinds of \
                    devices are compared; write file_system = \"ext4\" (or xfs, btrfs, one of [file_systems])"
                .into(),
        );
    }
    Ok(places)
}

fn read_place(name: &str, table: &Table) -> Result<Places, String> {
    if table.is_empty() {
        return Err(format!(
            "places.{name}: it has no part; write one such as wal = \"gp3\", or name {TOGETHER} instead"
        ));
    }
    let read = |(key, value): (&String, &Value)| {
        let part = Part::ALL.into_iter().find(|part| part.name() == key);
        let known = Part::ALL.map(Part::name).join(", ");
        let part = part.ok_or_else(|| format!("places.{name}.{key}: there is no such part; {known} are known"))?;
        let disk = value.as_str().map(str::to_owned);
        let wrong = || format!("places.{name}.{key}: {value} is no disk; write the name of one, such as \"gp3\"");
        Ok((part, disk.ok_or_else(wrong)?))
    };
    table.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sweep::spec::tests::{assert_refused, sweep};

    #[test]
    fn places_are_an_axis_and_each_part_has_a_disk() {
        let study = sweep(
            "[points]\nplaces = [\"together\", \"apart\"]\nfile_system = \"ext4\"\n[disks]\nlog = \",,,400\"\n\
             [places.apart]\nwal = \"log\"\nslru = \"gp3\"\n",
        )
        .unwrap();
        assert_eq!((study.points(), study.axes.varied()), (2, vec!["places".to_owned()]));
        assert_eq!(study.point(1).value("places").as_deref(), Some("apart"));
        let parts = |number| study.parts(&study.point(number)).into_iter().collect::<Vec<_>>();
        assert!(parts(0).is_empty());
        assert_eq!(parts(1), [(Part::Wal, "log".to_owned()), (Part::Slru, "gp3".to_owned())]);
        // Also a disk that no point has.
        assert_eq!(study.disks.keys().collect::<Vec<_>>(), ["gp3", "log", "native"]);
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        let with = |text: &str| format!("[points]\nplaces = \"x\"\nfile_system = \"ext4\"\n{text}");
        assert_refused(&with(""), &["points.places", "\"x\"", "[places]"]);
        assert_refused(&with("[places.x]\nlog = \"gp3\"\n"), &["places.x.log", "wal, slru, tables, indexes"]);
        assert_refused(&with("[places.x]\nwal = 7\n"), &["places.x.wal", "gp3"]);
        assert_refused(&with("[places.x]\nwal = \"fast\"\n"), &["places", "fast", "gp3", "[disks]"]);
        assert_refused(&with("[places.together]\n[places.x]\n"), &["places.together", "another name"]);
        assert_refused(&with("[places.x]\n"), &["places.x", "no part", "wal = "]);
        assert_refused(
            &with("[places.x]\nwal = \"gp3\"\n[places.y]\nwal = \"hdd\"\n"),
            &["places.y", "no point uses it", "points.places"],
        );
        let native = "[points]\nplaces = \"x\"\nfile_system = [\"native\", \"xfs\"]\n[places.x]\nwal = \"gp3\"\n";
        assert_refused(native, &["points.places", "file_system = \"ext4\""]);
    }
}
