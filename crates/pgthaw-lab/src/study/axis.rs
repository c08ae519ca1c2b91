use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use strum::VariantNames;
use toml::{Table, Value};

use super::built_in::find_built_in_script;
use super::point::{Axes, NO_LIMIT};
use host::units::Bytes;
use pgbench::BUILTIN_SCRIPTS;
use postgres::Script;

const SECONDS_MAX: u32 = 7 * 24 * 3600;
const TRANSACTIONS_MAX: u32 = 1_000_000_000;

const WEIGHT_MAX: u32 = 1_000_000;

/// Transactions per second: from one in 17 minutes to more than pgbench can run.
pub const RATES: RangeInclusive<f64> = 0.001..=10_000_000.0;

/// From pgbench's resolution (1 µs) to the longest trial (a week).
pub const LATENCY_LIMITS_MS: RangeInclusive<f64> = 0.001..=604_800_000.0;

/// pgthaw needs these settings to parse the log and to read counters and pg_stat_activity.
const WATCHED_SETTINGS: &str = "lc_messages log_autovacuum_min_duration log_checkpoints log_error_verbosity log_min_messages \
     track_activities track_counts";

/// pgthaw sets these itself, to reach the server and its log.
const OWN_SETTINGS: &str = "allow_alter_system cluster_name config_file data_directory external_pid_file hba_file ident_file \
     listen_addresses log_destination log_line_prefix logging_collector port \
     superuser_reserved_connections unix_socket_directories unix_socket_group unix_socket_permissions";

pub type Mix = Vec<(Script, u32)>;

#[derive(Clone, Debug)]
pub struct Axis<'a> {
    pub key: String,
    pub value: Option<&'a Value>,
}

impl Axis<'_> {
    /// Parses one value, or a list without duplicates.
    fn read<T: PartialEq>(
        &self,
        default: T,
        allowed: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, String> {
        let Some(value) = self.value else { return Ok(vec![default]) };
        let (key, given) = (&self.key, value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
        if given.is_empty() {
            return Err(format!("{key}: the list is empty; write {allowed}, or leave the key out"));
        }
        let mut values = Vec::new();
        for one in given {
            let value =
                read(one).ok_or_else(|| format!("{key}: {one} is not allowed; write {allowed}, or a list of them"))?;
            if values.contains(&value) {
                return Err(format!("{key}: {one} occurs twice; write repeats = N to measure each point again"));
            }
            values.push(value);
        }
        Ok(values)
    }

    pub fn whole_numbers(&self, default: u32, most: u32) -> Result<Vec<u32>, String> {
        self.read(default, &format!("a whole number from 1 to {most}"), |value| whole_number(value, most))
    }

    pub fn whole_number(&self, most: u32) -> Result<Option<u32>, String> {
        let Some(value) = self.value else { return Ok(None) };
        let wrong = || format!("{}: {value} is not allowed; write a whole number from 1 to {most}", self.key);
        whole_number(value, most).map(Some).ok_or_else(wrong)
    }

    /// `word`, such as "unlimited", stands for `None`, the default.
    pub fn numbers_or(&self, word: &str, bounds: &RangeInclusive<f64>, unit: &str) -> Result<Vec<Option<f64>>, String> {
        let allowed = format!("{unit} from {} to {}, or \"{word}\"", bounds.start(), bounds.end());
        let number = |number: f64| bounds.contains(&number).then_some(Some(number));
        self.read(None, &allowed, |value| match value {
            Value::String(text) => (text == word).then_some(None),
            Value::Integer(whole) => number(*whole as f64),
            Value::Float(any) => number(*any),
            _ => None,
        })
    }

    pub fn words<T: VariantNames + FromStr + PartialEq>(&self, default: T) -> Result<Vec<T>, String> {
        self.read(default, &format!("one of {}", T::VARIANTS.join(", ")), |value| value.as_str()?.parse().ok())
    }

    pub fn memories(&self) -> Result<Vec<Option<Bytes>>, String> {
        let memories = self.read(None, "a size such as \"1GiB\", or \"none\"", |value| match value.as_str()? {
            NO_LIMIT => Some(None),
            size => size.parse().ok().map(Some),
        })?;
        memories.into_iter().map(|memory| memory.map(|memory| check_least(&self.key, memory)).transpose()).collect()
    }

    pub fn names(&self, default: &str) -> Result<Vec<String>, String> {
        self.read(default.to_owned(), "a name", |value| {
            // A major version may be written as a number.
            let number = value.as_integer().map(|number| number.to_string());
            value.as_str().filter(|name| !name.is_empty()).map(str::to_owned).or(number)
        })
    }

    pub fn scripts(&self, directory: &Path) -> Result<Vec<(String, Mix)>, String> {
        let allowed = format!(
            "one of {}, a file's name, or a table of them with weights such as {{ select-only = 9, \"insert.sql\" = 1 }}",
            BUILTIN_SCRIPTS.join(", ")
        );
        let named = self.read(mix_of("select-only"), &allowed, read_mix)?;
        let find = |mix: Vec<(String, u32)>| {
            let scripts = mix.iter().map(|(name, weight)| Ok((find_script(&self.key, directory, name)?, *weight)));
            Ok((render_mix(&mix), scripts.collect::<Result<Vec<_>, String>>()?))
        };
        named.into_iter().map(find).collect()
    }
}

/// Rejects a definition that has a built-in's name or that no point uses (perhaps misspelt).
pub fn check_used<'a>(
    (section, axis): (&str, &str),
    mut own: impl Iterator<Item = &'a String>,
    asked: &[String],
    (usual, what): (&str, &str),
) -> Result<(), String> {
    match own.find(|name| *name == usual || !asked.contains(name)) {
        Some(name) if name == usual => Err(format!("{section}.{name}: this name means {what}; choose another name")),
        Some(name) => Err(format!("{section}.{name}: no point uses it; name it in points.{axis}, or remove it")),
        None => Ok(()),
    }
}

pub fn choose_named<'a, T: Clone>(
    axis: &str,
    asked: impl IntoIterator<Item = &'a String>,
    own: &BTreeMap<String, T>,
    plain: impl Fn(&str) -> Option<T>,
    known: &str,
) -> Result<BTreeMap<String, T>, String> {
    let choose = |name: &String| {
        let found = own.get(name).cloned().or_else(|| plain(name));
        Ok((name.clone(), found.ok_or_else(|| format!("{axis}: {name:?} is unknown; known are {known}"))?))
    };
    asked.into_iter().map(choose).collect()
}

pub fn read_lengths(axes: &mut Axes, lengths: [Axis<'_>; 3]) -> Result<(), String> {
    let given: Vec<&str> = lengths.iter().filter(|axis| axis.value.is_some()).map(|axis| axis.key.as_str()).collect();
    if given.len() > 1 {
        let given = given.join(" and ");
        return Err(format!("{given} exclude each other, because only one of them can end a trial; keep one"));
    }
    let [seconds, each, total] = lengths;
    let none = vec![None];
    (axes.seconds, axes.transactions, axes.total_transactions) = (none.clone(), none.clone(), none);
    let some = |numbers: Vec<u32>| numbers.into_iter().map(Some).collect();
    if each.value.is_some() {
        axes.transactions = some(each.whole_numbers(1, TRANSACTIONS_MAX)?);
    } else if total.value.is_some() {
        let totals = total.whole_numbers(1, TRANSACTIONS_MAX)?;
        let clients = &axes.clients;
        let mut pairs = totals.iter().flat_map(|total| clients.iter().map(move |clients| (*total, *clients)));
        if let Some((total, clients)) = pairs.find(|(total, clients)| total % clients != 0) {
            let nearest = total.div_ceil(clients).saturating_mul(clients);
            return Err(format!(
                "points.total_transactions: {clients} clients cannot share {total} transactions equally; write {nearest} or another multiple of {clients}, or another number of clients"
            ));
        }
        axes.total_transactions = some(totals);
    } else {
        axes.seconds = some(seconds.whole_numbers(10, SECONDS_MAX)?);
    }
    Ok(())
}

pub fn whole_number(value: &Value, most: u32) -> Option<u32> {
    let number = u32::try_from(value.as_integer()?).ok()?;
    (1..=most).contains(&number).then_some(number)
}

fn mix_of(name: &str) -> Vec<(String, u32)> {
    vec![(name.to_owned(), 1)]
}

fn read_mix(value: &Value) -> Option<Vec<(String, u32)>> {
    match value {
        Value::String(name) => Some(mix_of(name)),
        Value::Table(table) if !table.is_empty() => {
            let weighted = table.iter().map(|(name, weight)| Some((name.clone(), whole_number(weight, WEIGHT_MAX)?)));
            let mix: Vec<(String, u32)> = weighted.collect::<Option<_>>()?;
            Some(if let [(name, _)] = mix.as_slice() { mix_of(name) } else { mix })
        }
        _ => None,
    }
}

pub fn render_mix(mix: &[(String, u32)]) -> String {
    match mix {
        [(name, _)] => name.clone(),
        _ => mix.iter().map(|(name, weight)| format!("{name}@{weight}")).collect::<Vec<_>>().join(" + "),
    }
}

/// PostgreSQL 15 served two clients in 40 MB. In 32 MB it was killed during a trial; in less it did not start.
const MEMORY_MIN: Bytes = Bytes(40 << 20);

pub fn check_least(key: &str, memory: Bytes) -> Result<Bytes, String> {
    match memory < MEMORY_MIN {
        true => Err(format!("{key}: {memory} is too little for the processes of a server; write {MEMORY_MIN} or more")),
        false => Ok(memory),
    }
}

fn find_script(key: &str, directory: &Path, name: &str) -> Result<Script, String> {
    match BUILTIN_SCRIPTS.into_iter().find(|builtin| *builtin == name) {
        Some(builtin) => Ok(Script::Builtin(builtin)),
        None if find_built_in_script(Path::new(name)).is_some() && !directory.join(name).exists() => {
            Ok(Script::File(name.into()))
        }
        None => find_file(key, directory, Path::new(name)).map(Script::File),
    }
}

/// Returns an absolute path: pgbench runs in another directory.
pub fn find_file(key: &str, directory: &Path, name: &Path) -> Result<PathBuf, String> {
    let path = directory.join(name);
    let found = path.canonicalize().map_err(|error| {
        format!(
            "{key}: {}: {error}; built-in scripts are {}, and any other script is a file beside the study file",
            path.display(),
            BUILTIN_SCRIPTS.join(", ")
        )
    })?;
    if found.is_file() { Ok(found) } else { Err(format!("{key}: {} is not a file", path.display())) }
}

pub fn read_variables(table: &Table) -> Result<Vec<(String, Vec<String>)>, String> {
    let read = |(name, value): (&String, &Value)| {
        let key = format!("variables.{name}");
        // Names that psql and pgbench allow (valid_variable_name in pgbench.c), but only ASCII.
        if name.is_empty() || !name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_') {
            return Err(format!("{key}: {name:?} is not a variable name; write only letters, digits and _"));
        }
        Ok((name.clone(), read_texts(&key, value)?))
    };
    table.iter().map(read).collect()
}

/// TOML parses a setting's name with a dot as nested tables.
pub fn read_settings(table: &Table) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut settings = Vec::new();
    collect_settings("", table, &mut settings)?;
    Ok(settings)
}

fn collect_settings(prefix: &str, table: &Table, settings: &mut Vec<(String, Vec<String>)>) -> Result<(), String> {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if let Value::Table(inner) = value {
            collect_settings(&name, inner, settings)?;
            continue;
        }
        let is_part = |one: char| one.is_ascii_lowercase() || one == '_';
        let is_name =
            |part: &str| part.starts_with(is_part) && part.chars().all(|one| is_part(one) || one.is_ascii_digit());
        if !name.split('.').all(is_name) {
            return Err(format!(
                "settings: {name:?} is not the name of a setting; write it in lower case as in SHOW ALL"
            ));
        }
        if OWN_SETTINGS.split(' ').any(|own| own == name) {
            return Err(format!(
                "settings.{name}: pgthaw sets this itself, to reach the server and to read its log; remove it"
            ));
        }
        if WATCHED_SETTINGS.split(' ').any(|watched| watched == name) {
            return Err(format!("settings.{name}: pgthaw needs the usual logs and counters; remove this setting"));
        }
        if settings.iter().any(|(known, _)| *known == name) {
            return Err(format!("settings.{name}: it occurs twice, as a quoted name and as a table; remove one"));
        }
        settings.push((name.clone(), read_texts(&format!("settings.{name}"), value)?));
    }
    Ok(())
}

fn read_texts(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let values = Axis { key: key.to_owned(), value: Some(value) }.read(
        String::new(),
        "a string, a number, true or false",
        |value| {
            Some(match value {
                Value::String(text) => text.clone(),
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                Value::Boolean(true) => "on".to_owned(),
                Value::Boolean(false) => "off".to_owned(),
                _ => return None,
            })
        },
    )?;
    match values.iter().find(|text| text.chars().any(char::is_control)) {
        Some(text) => Err(format!("{key}: {text:?} has a control character; a value is one line")),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use crate::study::spec::tests::{assert_refused, sweep};
    use host::units::Bytes;
    use postgres::Length;

    #[test]
    fn a_rate_and_a_limit_have_bounds() {
        for rate in ["1e-300", "0.0001", "1e9", "inf", "nan", "-inf", "0"] {
            assert_refused(&format!("[points]\nrate = {rate}\n"), &["points.rate", "from 0.001 to 10000000, or"]);
        }
        for limit in ["0", "0.0001", "1e12", "nan"] {
            let text = format!("[points]\nlatency_limit_ms = {limit}\n");
            assert_refused(&text, &["points.latency_limit_ms", "milliseconds from 0.001 to 604800000, or \"none\""]);
        }
        let study = sweep("[points]\nrate = [0.001, 10_000_000]\nlatency_limit_ms = [0.001, \"none\"]\n").unwrap();
        assert_eq!((study.point(0).rate, study.point(0).latency_limit_ms), (Some(0.001), Some(0.001)));
        assert_eq!((study.point(3).rate, study.point(3).latency_limit_ms), (Some(1e7), None));
    }

    #[test]
    fn memory_is_an_axis_or_one_size_for_all() {
        let study = sweep("[points]\nmemory = [\"1GiB\", \"8GB\", \"none\"]\n").unwrap();
        let memory = |number| study.point(number).memory;
        assert_eq!([0, 1, 2].map(memory), [Some(Bytes(1 << 30)), Some(Bytes(8 << 30)), None]);
        assert_eq!(study.point(1).value("memory").as_deref(), Some("8GB"));
        assert_eq!(sweep("memory = \"1GiB\"\n").unwrap().point(0).memory, Some(Bytes(1 << 30)));
        assert_refused("memory = \"1GiB\"\n[points]\nmemory = \"2GiB\"\n", &["points.memory", "remove"]);
        assert_refused("[points]\nmemory = \"much\"\n", &["points.memory", "1GiB"]);
    }

    #[test]
    fn clients_share_a_total_of_transactions() {
        let study = sweep("[points]\nclients = [8, 32]\ntotal_transactions = 200000\n").unwrap();
        let lengths = [0, 1].map(|number| study.load(&study.point(number)).length);
        assert_eq!(lengths, [25_000, 6250].map(Length::Transactions));
        assert_eq!(study.point(1).value("total_transactions").as_deref(), Some("200000"));
        assert_eq!((study.point(1).value("transactions"), study.axes.varied()), (None, vec!["clients".to_owned()]));
        assert_refused(
            "[points]\nclients = [8, 30]\ntotal_transactions = 200000\n",
            &["points.total_transactions", "30 clients", "200010"],
        );
        for other in ["seconds = 5", "transactions = 5"] {
            let text = format!("[points]\ntotal_transactions = 8\n{other}\n");
            assert_refused(&text, &["points.total_transactions", "keep one"]);
        }
    }

    #[test]
    fn a_setting_stands_once_and_never_hides_what_is_measured() {
        assert_refused("[settings]\n\"a.b\" = 1\n[settings.a]\nb = 2\n", &["settings.a.b", "twice"]);
        for name in
            ["lc_messages", "log_min_messages", "log_autovacuum_min_duration", "track_counts", "track_activities"]
        {
            assert_refused(&format!("[settings]\n{name} = 1\n"), &[name, "pgthaw needs the usual logs"]);
        }
        assert_refused("[settings]\nlog_checkpoints = false\n", &["settings.log_checkpoints", "logs"]);
    }
}
