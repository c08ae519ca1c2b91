//! `KEY=VALUE` of a command line sets a key of a study.

use toml::{Table, Value};

use super::point::{FIXED_AXES, LENGTH_AXES};
use super::spec::parse_study_table;

/// The keys of a study file but for those in its tables.
const TOP_KEYS: [&str; 26] = [
    "question",
    "kind",
    "popularity",
    "until",
    "wanted_seconds",
    "wanted",
    "memory",
    "time",
    "repeats",
    "seed",
    "logged_share",
    "max_tries",
    "aa",
    POINTS,
    "variables",
    "settings",
    "disks",
    "file_systems",
    "places",
    "fresh_copy",
    "servers",
    "database",
    "databases",
    "exceeds",
    "generators",
    "job",
];

/// The table whose name may be left out before its keys.
const POINTS: &str = "points";

/// Keys whose values are texts, whatever they look like.
const TEXTS: [&str; 3] = ["question", "disks", "servers"];

/// From this likeness on, of 1 at most, one key is taken for another that was mistyped.
const LIKENESS_MIN: f64 = 0.8;

/// The text of a study with keys set, each as [`set_key`] has it. Without any it is the same text.
pub fn set_keys<'a>(text: &str, assignments: impl IntoIterator<Item = &'a str>) -> Result<String, String> {
    let mut study = parse_study_table(text)?;
    let mut is_set = false;
    for assignment in assignments {
        set_key(&mut study, assignment)?;
        is_set = true;
    }
    Ok(if is_set { study.to_string() } else { text.to_owned() })
}

/// Sets one key: a dotted key, `=`, and a value of TOML or a bare text. An empty value removes the key. Of an axis, `a,b` is a list.
fn set_key(study: &mut Table, assignment: &str) -> Result<(), String> {
    let (key, value) = assignment
        .split_once('=')
        .ok_or_else(|| format!("{assignment:?} sets no key of the study: write KEY=VALUE, such as scale=10"))?;
    let path = read_path(key)?;
    let value = read_value(&path, value);
    let Some((last, tables)) = path.split_last() else { return Ok(()) };
    let mut table = study;
    for name in tables {
        let inner = table.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
        table = inner.as_table_mut().ok_or_else(|| format!("{key}: {name} has a value, and no keys"))?;
    }
    // A trial ends by one of them.
    if tables == [POINTS] && LENGTH_AXES.contains(&last.as_str()) {
        LENGTH_AXES.iter().for_each(|axis| drop(table.remove(*axis)));
    }
    match value {
        Some(value) => table.insert(last.clone(), value),
        None => table.remove(last),
    };
    Ok(())
}

/// The names of a dotted key, with that of its table. What TOML takes for a key is one.
fn read_path(key: &str) -> Result<Vec<String>, String> {
    let mut rest = toml::from_str::<Table>(&format!("{key} = 0")).map_err(|_| format!("{key:?} is no key"))?;
    let mut path: Vec<String> = Vec::new();
    while let Some((name, value)) = std::mem::take(&mut rest).into_iter().next() {
        path.push(name);
        if let Value::Table(inner) = value {
            rest = inner;
        }
    }
    let is_axis = |name: &String| FIXED_AXES.contains(&name.as_str());
    if !TOP_KEYS.contains(&path[0].as_str()) && is_axis(&path[0]) {
        path.insert(0, POINTS.to_owned());
    }
    match path.as_slice() {
        [first, ..] if !TOP_KEYS.contains(&first.as_str()) => Err(describe_unknown(key, first)),
        [first, second, ..] if first == POINTS && !is_axis(second) => Err(describe_unknown(key, second)),
        _ => Ok(path),
    }
}

fn describe_unknown(key: &str, name: &str) -> String {
    let near = TOP_KEYS.into_iter().chain(FIXED_AXES).map(|known| (strsim::jaro_winkler(name, known), known));
    let near = near.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|(likeness, _)| *likeness > LIKENESS_MIN);
    match near {
        Some((_, near)) => format!("a study has no key {key}; is {near} meant?"),
        None => format!(
            "a study has no key {key}; a setting of the server is settings.{key}, a script's variable variables.{key}"
        ),
    }
}

/// `None` of an empty one.
fn read_value(path: &[String], text: &str) -> Option<Value> {
    if text.is_empty() {
        return None;
    }
    let typed = |text: &str| {
        let mut table = toml::from_str::<Table>(&format!("value = {text}")).ok().filter(|table| table.len() == 1)?;
        table.remove("value")
    };
    let bare = |text: &str| Value::String(text.to_owned());
    let value = typed(text);
    Some(match path[0].as_str() {
        key if TEXTS.contains(&key) => value.filter(Value::is_str).unwrap_or_else(|| bare(text)),
        POINTS if value.is_none() && text.contains(',') => {
            Value::Array(text.split(',').map(str::trim).map(|one| typed(one).unwrap_or_else(|| bare(one))).collect())
        }
        _ => value.unwrap_or_else(|| bare(text)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::built_in::BUILT_IN_STUDIES;
    use crate::study::sweep::spec::tests::sweep;

    fn set(text: &str, assignments: &[&str]) -> String {
        set_keys(text, assignments.iter().copied()).unwrap()
    }

    #[test]
    fn every_key_can_be_set_and_studies_know_no_other() {
        let unknown = sweep("no_such_key = 1").unwrap_err();
        for key in TOP_KEYS {
            assert!(unknown.contains(&format!("`{key}`")), "{key}: {unknown}");
        }
        assert_eq!(unknown.matches("`, `").count() + 1, TOP_KEYS.len(), "{unknown}");
    }

    #[test]
    fn values_are_those_of_toml_or_bare() {
        let text = "[points]\nseconds = 5\n";
        assert_eq!(set(text, &[]), text);
        let keys = [
            "clients=1,8",
            "script=select-only,tpcb-like",
            "transactions=7",
            "settings.work_mem=64MB",
            "settings.auto_explain.log_analyze=true",
            "disks.ram=9",
            "disk=ram",
            "server=15",
            "question=What, and why?",
            "repeats=3",
            "repeats=2",
            "points.scale=[1, 2]",
        ];
        let study = sweep(&set(text, &keys)).unwrap();
        assert_eq!((study.points(), study.repeats, study.question.as_str()), (8, 2, "What, and why?"));
        let point = study.point(7);
        assert_eq!((point.scale, point.clients, point.script.as_str()), (2, 8, "tpcb-like"));
        assert_eq!((point.transactions, point.seconds, point.server.as_str()), (Some(7), None, "15"));
        assert_eq!(
            (point.value("auto_explain.log_analyze").as_deref(), study.disk(&point).riops),
            (Some("on"), Some(9))
        );
        assert_eq!(set("question = \"x\"\nseed = 7\n", &["question="]), "seed = 7\n");
    }

    #[test]
    fn a_mistyped_key_is_told_with_the_nearest() {
        for (assignment, told) in [
            ("clinets=2", "is clients meant?"),
            ("points.scales=2", "no key points.scales; is scale meant?"),
            ("repeat=2", "is repeats meant?"),
            ("work_mem=64MB", "settings.work_mem"),
            ("scale", "KEY=VALUE"),
            ("a b=1", "is no key"),
            ("seed.x=1", "seed has a value"),
        ] {
            let refused = set_keys("seed = 1\n", [assignment]).unwrap_err();
            assert!(refused.contains(told), "{refused}");
        }
        assert!(set_keys("repeat = 1\n", ["seed=1"]).unwrap_err().contains("line 1"));
    }

    #[test]
    fn every_built_in_study_is_one() {
        for text in BUILT_IN_STUDIES.iter().flat_map(|(_, texts)| *texts) {
            let study = sweep(&set(text, if text.contains("scale = \"auto\"") { &["scale=10"] } else { &[] })).unwrap();
            let shared_buffers = study.point(0).value("shared_buffers");
            assert_eq!(
                shared_buffers.as_deref(),
                Some(if study.point(0).scale == 10 { "39062kB" } else { "195312kB" })
            );
        }
    }
}
