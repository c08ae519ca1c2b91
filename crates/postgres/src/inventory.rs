use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sqlx::Connection as _;
use sqlx::postgres::{PgArguments, PgConnection, Postgres};
use sqlx::query::Query;

use super::Result;
use super::answer::{Answer, Columns as _, answer, ask_all, ask_one, in_time};
use super::secrets::keep_setting;

/// Values as other sessions' SHOW prints them.
pub async fn read_settings(connection: &mut PgConnection) -> Result<Vec<(String, String)>> {
    let path = read_configured_path(connection).await;
    let question = sqlx::query(include_str!("sql/settings_13.sql"));
    let mut settings: Vec<(String, String)> = fetch_as_others(connection, question).await?;
    for (name, value) in &mut settings {
        *value = keep_setting(name, std::mem::take(value));
    }
    settings.extend(path.map(|path| (SEARCH_PATH.to_owned(), path)));
    settings.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(settings)
}

/// Runs a query without this session's own settings.
async fn fetch_as_others<T: Answer>(
    connection: &mut PgConnection,
    question: Query<'_, Postgres, PgArguments>,
) -> Result<Vec<T>> {
    let asked = async {
        // The rollback restores pgthaw's settings.
        let mut transaction = connection.begin().await?;
        sqlx::raw_sql(include_str!("sql/session_reset_13.sql")).execute(&mut *transaction).await?;
        let rows = question.fetch_all(&mut *transaction).await?;
        transaction.rollback().await?;
        rows.iter().map(T::of).collect()
    };
    in_time("read the settings", asked).await
}

/// pgthaw's sessions override this setting and cannot see the original value.
const SEARCH_PATH: &str = "search_path";

const USUAL_SEARCH_PATH: &str = "\"$user\", public";

/// `None` if unset or hidden.
async fn read_configured_path(connection: &mut PgConnection) -> Option<String> {
    let row = sqlx::query(include_str!("sql/configured_path_13.sql")).fetch_one(connection).await.ok()?;
    row.try_get(0).ok()?
}

fn describe_path(path: Option<String>) -> (Option<String>, String) {
    let source = if path.is_some() { "configuration file" } else { "default" };
    (Some(path.unwrap_or_else(|| USUAL_SEARCH_PATH.to_owned())), source.to_owned())
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ConfiguredSetting {
    pub name: String,
    /// In `unit`; `None` without the privilege to see it.
    pub value: Option<String>,
    /// Such as `8kB` or `ms`.
    pub unit: Option<String>,
    /// Such as `configuration file`.
    pub source: String,
}

answer!(row => ConfiguredSetting { name, value, unit, source });

pub async fn read_configuration(connection: &mut PgConnection) -> Result<Vec<ConfiguredSetting>> {
    let path = read_configured_path(connection).await;
    let question = "SELECT name, reset_val AS value, unit, source FROM pg_catalog.pg_settings ORDER BY name";
    let mut settings: Vec<ConfiguredSetting> = ask_all(connection, "read the configuration", question).await?;
    for setting in &mut settings {
        setting.value = setting.value.take().map(|value| keep_setting(&setting.name, value));
    }
    if let Some(setting) = settings.iter_mut().find(|setting| setting.name == SEARCH_PATH) {
        (setting.value, setting.source) = describe_path(path);
    }
    Ok(settings)
}

pub async fn read_installable_extensions(connection: &mut PgConnection) -> Result<BTreeSet<String>> {
    let question = "SELECT name::pg_catalog.text FROM pg_catalog.pg_available_extensions ORDER BY name";
    Ok(ask_all(connection, "list the extensions", question).await?.into_iter().collect())
}

pub async fn read_preloaded(connection: &mut PgConnection) -> Result<String> {
    let question = "SELECT pg_catalog.current_setting('shared_preload_libraries')";
    ask_one(connection, "read a setting", sqlx::query(question)).await
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingState {
    pub name: String,
    /// `postmaster`: changes at a start; `internal`: never; others: at run time.
    pub context: String,
    pub source: String,
    pub pending_restart: bool,
    /// `bool`, `integer`, `real`, `enum` or `string`.
    pub kind: String,
    pub unit: Option<String>,
    /// Only for `enum`.
    pub allowed: Option<Vec<String>>,
    /// Value of new sessions, in `unit`.
    pub value: Option<String>,
}

answer!(row => SettingState { name, context, source, pending_restart, kind, unit, allowed, value });

pub async fn read_setting_states(connection: &mut PgConnection, names: &[String]) -> Result<Vec<SettingState>> {
    let path = read_configured_path(connection).await;
    let question = sqlx::query(
        "SELECT name, context, source, pending_restart, vartype AS kind, unit, enumvals AS allowed, reset_val AS value \
         FROM pg_catalog.pg_settings WHERE name = ANY($1)",
    );
    let mut states: Vec<SettingState> = fetch_as_others(connection, question.bind(names)).await?;
    if let Some(state) = states.iter_mut().find(|state| state.name == SEARCH_PATH) {
        (state.value, state.source) = describe_path(path);
    }
    Ok(states)
}

/// Last reload, by the server's clock.
pub async fn read_load_time(connection: &mut PgConnection) -> Result<String> {
    let question = "SELECT pg_catalog.pg_conf_load_time()::pg_catalog.text";
    ask_one(connection, "read the time of the last reload", sqlx::query(question)).await
}

pub async fn read_setting_errors(connection: &mut PgConnection) -> Result<Vec<(String, String)>> {
    let question = "SELECT name, error FROM pg_catalog.pg_file_settings WHERE error IS NOT NULL AND name IS NOT NULL";
    ask_all(connection, "read the errors of the configuration", question).await
}

/// Settings of ALTER ROLE and ALTER DATABASE.
pub async fn read_setting_overrides(connection: &mut PgConnection) -> Result<Vec<(String, String)>> {
    let question = "SELECT pg_catalog.split_part(entry, '=', 1), pg_catalog.right(entry, -pg_catalog.strpos(entry, '=')) \
                    FROM pg_catalog.pg_db_role_setting CROSS JOIN pg_catalog.unnest(setconfig) AS entry";
    ask_all(connection, "read the settings of roles and databases", question).await
}

// guc.c rounds a value to the next smaller unit, then to the setting's own unit.

const MEMORY_UNITS: [(&str, f64); 5] =
    [("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)];

const TIME_UNITS: [(&str, f64); 6] =
    [("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1000.0), ("ms", 1.0), ("us", 0.001)];

/// wal_compression shows this for `on` since 15.
const ON_BY_ANOTHER_NAME: &str = "pglz";

/// Relative tolerance: PostgreSQL prints real settings with six digits.
const PRINTED: f64 = 1e-5;

/// Converts the value to `unit`. `None` for unsupported notations (`1e3`, `0x10`).
pub fn parse_setting_number(text: &str, unit: Option<&str>) -> Option<f64> {
    let (number, given) = split_number(text.trim());
    let (number, given) = (parse_number(number)?, given.trim());
    if given.is_empty() {
        return Some(number);
    }
    // A unit such as `8kB` begins with a factor.
    let (count, base) = split_number(unit?);
    let count: f64 = if count.is_empty() { 1.0 } else { count.parse().ok()? };
    let units = [MEMORY_UNITS.as_slice(), &TIME_UNITS].into_iter().find(|units| find_unit(units, base).is_some())?;
    let (given, base) = (find_unit(units, given)?, find_unit(units, base)?);
    let amount = number * units[given].1;
    let amount = units.get(given + 1).map_or(amount, |(_, smaller)| (amount / smaller).round() * smaller);
    Some(amount / (count * units[base].1))
}

fn find_unit(units: &[(&str, f64)], name: &str) -> Option<usize> {
    units.iter().position(|(known, _)| *known == name)
}

fn split_number(text: &str) -> (&str, &str) {
    let is_part = |one: char| one.is_ascii_digit() || "+-.".contains(one);
    text.split_at(text.find(|one: char| !is_part(one)).unwrap_or(text.len()))
}

/// A number with a leading 0 is octal, as in file modes.
fn parse_number(text: &str) -> Option<f64> {
    let octal = text.strip_prefix('0').filter(|rest| !rest.is_empty() && !rest.contains('.'));
    match octal {
        Some(octal) => u32::from_str_radix(octal, 8).ok().map(f64::from),
        None => text.parse().ok(),
    }
}

/// Boolean; accepts unique prefixes.
fn parse_switch(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "" | "o" => None,
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        _ if "true".starts_with(&text) || "yes".starts_with(&text) => Some(true),
        _ if "false".starts_with(&text) || "no".starts_with(&text) => Some(false),
        _ => None,
    }
}

/// Drops blanks, quotes, case and the schema pg_catalog.
fn simplify(text: &str) -> String {
    let letters = text.chars().filter(|one| !one.is_whitespace() && *one != '"');
    let simple: String = letters.flat_map(char::to_lowercase).collect();
    simple.trim_start_matches("pg_catalog.").to_owned()
}

impl SettingState {
    /// Whether new sessions start with the value `asked`. `None` if unknown.
    pub fn holds(&self, asked: &str) -> Option<bool> {
        // A value set by pgthaw's session hides the original.
        let value = self.value.as_deref().filter(|_| self.source != "client")?;
        match self.kind.as_str() {
            "bool" => Some(parse_switch(asked)? == parse_switch(value)?),
            "integer" => self.compare_number(asked, |asked, value| (asked - value).abs() <= 0.5),
            "real" => self.compare_number(asked, |asked, value| (asked - value).abs() <= PRINTED * asked.abs()),
            "enum" => self.compare_word(&simplify(asked), &simplify(value)),
            _ => Some(simplify(asked) == simplify(value)),
        }
    }

    fn compare_word(&self, asked: &str, value: &str) -> Option<bool> {
        match (parse_switch(asked), parse_switch(value)) {
            _ if asked == value => Some(true),
            (Some(asked), Some(value)) => Some(asked == value),
            (Some(true), None) if value == ON_BY_ANOTHER_NAME => Some(true),
            // The meaning of an unlisted word is unknown.
            _ => self.allowed.iter().flatten().any(|known| simplify(known) == asked).then_some(false),
        }
    }

    fn compare_number(&self, asked: &str, is_same: impl Fn(f64, f64) -> bool) -> Option<bool> {
        let asked = parse_setting_number(asked, self.unit.as_deref())?;
        Some(is_same(asked, self.value.as_deref()?.parse().ok()?))
    }

    /// Whether the server replaced 0 or -1 by its own value.
    pub fn is_left_to_server(&self, asked: &str) -> bool {
        self.source == "override" && parse_setting_number(asked, None).is_some_and(|asked| asked <= 0.0)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerBuild {
    pub has_assertions: bool,
    /// From `pg_config --cflags`.
    pub compiler_flags: String,
}

/// Superusers only.
pub async fn read_server_build(connection: &mut PgConnection) -> Result<ServerBuild> {
    let question = "SELECT pg_catalog.current_setting('debug_assertions') = 'on', \
                    (SELECT setting FROM pg_catalog.pg_config WHERE name = 'CFLAGS')";
    let (has_assertions, flags): (bool, Option<String>) =
        ask_one(connection, "read the server's build options", sqlx::query(question)).await?;
    Ok(ServerBuild { has_assertions, compiler_flags: flags.filter(|flags| flags.starts_with('-')).unwrap_or_default() })
}

impl ServerBuild {
    /// Optimisation level if it is too low: `-O0`, `-Og` or none. The last option counts.
    pub fn weak_optimisation(&self) -> Option<&str> {
        let level = self.compiler_flags.split_ascii_whitespace().rfind(|word| word.starts_with("-O"));
        let level = level.unwrap_or_default();
        (!self.compiler_flags.is_empty() && ["", "-O0", "-Og"].contains(&level)).then_some(level)
    }
}

#[cfg(test)]
mod setting_value_tests {
    use super::*;

    fn state(kind: &str, unit: Option<&str>, value: &str) -> SettingState {
        SettingState {
            name: "one".into(),
            context: "user".into(),
            source: "configuration file".into(),
            pending_restart: false,
            kind: kind.into(),
            unit: unit.map(str::to_owned),
            allowed: Some(["off", "local", "on"].map(str::to_owned).to_vec()),
            value: Some(value.into()),
        }
    }

    #[test]
    fn amounts_are_rounded_as_the_server_does() {
        let number = |text, unit| parse_setting_number(text, Some(unit));
        assert_eq!(number("256MB", "8kB"), Some(32_768.0));
        assert_eq!(number(" 1.5 GB ", "kB"), Some(1_572_864.0));
        assert_eq!(number("0.3GB", "kB"), Some(307.0 * 1024.0));
        assert_eq!(number("90s", "ms"), Some(90_000.0));
        assert_eq!(number("1.5min", "s"), Some(90.0));
        assert_eq!(number("1d", "min"), Some(1440.0));
        assert_eq!(number("100us", "ms"), Some(0.1));
        assert_eq!((number("64", "MB"), parse_setting_number("-1", None)), (Some(64.0), Some(-1.0)));
        assert_eq!(parse_setting_number("0640", None), Some(416.0));
        for strange in ["1s", "1mb", "MB", "", "a lot"] {
            assert_eq!(number(strange, "kB"), None, "{strange}");
        }
        assert_eq!(parse_setting_number("1MB", None), None);
    }

    #[test]
    fn another_way_to_write_a_value_is_the_same_value() {
        let holds = |kind, unit, value, asked| state(kind, unit, value).holds(asked);
        assert_eq!(holds("integer", Some("8kB"), "32768", "256MB"), Some(true));
        assert_eq!(holds("integer", Some("8kB"), "16384", "256MB"), Some(false));
        assert_eq!(holds("integer", Some("8kB"), "12", "100kB"), Some(true));
        assert_eq!(holds("real", Some("ms"), "1.5", "1500us"), Some(true));
        assert_eq!(holds("real", None, "1.5", "4"), Some(false));
        assert_eq!([holds("bool", None, "on", "TRUE"), holds("bool", None, "on", "of")], [Some(true), Some(false)]);
        assert_eq!(holds("enum", None, "local", "Local"), Some(true));
        assert_eq!(holds("enum", None, "local", "off"), Some(false));
        assert_eq!([holds("enum", None, "on", "yes"), holds("enum", None, "off", "1")], [Some(true), Some(false)]);
        assert_eq!([holds("enum", None, "local", "nearby"), holds("enum", None, "local", "yes")], [None, None]);
        assert_eq!([holds("enum", None, "pglz", "1"), holds("enum", None, "local", "on")], [Some(true), Some(false)]);
        assert_eq!(holds("string", None, "\"$user\", public", "\"$user\",public"), Some(true));
        assert_eq!(holds("string", None, "pg_catalog.english", "english"), Some(true));
        assert_eq!(holds("string", None, "a", "b"), Some(false));
        let of_client = SettingState { source: "client".into(), ..state("string", None, "UTC") };
        assert_eq!(of_client.holds("Europe/Berlin"), None);
        let chosen = SettingState { source: "override".into(), ..state("integer", Some("8kB"), "512") };
        assert!(chosen.is_left_to_server("-1") && !chosen.is_left_to_server("16MB"));
    }
}

#[cfg(test)]
mod build_tests {
    use super::*;

    #[test]
    fn the_last_option_says_how_much_was_optimised() {
        let weak = |flags: &str| {
            let build = ServerBuild { has_assertions: false, compiler_flags: flags.into() };
            build.weak_optimisation().map(str::to_owned)
        };
        assert_eq!(weak("-Wall -g -O2 -fwrapv"), None);
        assert_eq!(weak("-O0 -g -O2"), None);
        assert_eq!(weak("-O2 -g -O0"), Some("-O0".into()));
        assert_eq!(weak("-Wall -O3 -Og"), Some("-Og".into()));
        assert_eq!([weak("-O"), weak("-Os"), weak("-Ofast")], [None, None, None]);
        assert_eq!(weak("-Wall -fwrapv"), Some(String::new()));
        assert_eq!(weak(""), None);
    }
}
