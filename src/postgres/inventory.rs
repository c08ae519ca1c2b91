//! What a server was given: settings that are not the default, and extensions that could be created.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection as _, Row as _};

use super::Error;
use super::secrets::keep_setting;

/// Settings that somebody set, by name, with their values as SHOW prints them to others: what pgthaw's own sessions set
/// for themselves does not count.
pub async fn read_settings(connection: &mut PgConnection) -> Result<Vec<(String, String)>, Error> {
    let failed = |source| Error::Query { action: "read the settings", source };
    let path = read_configured_path(connection).await;
    // The end of the transaction takes the reset back.
    let mut transaction = connection.begin().await.map_err(failed)?;
    let reset = sqlx::raw_sql(include_str!("sql/session_reset_13.sql"));
    reset.execute(&mut *transaction).await.map_err(failed)?;
    let rows = sqlx::query(include_str!("sql/settings_13.sql")).fetch_all(&mut *transaction).await.map_err(failed)?;
    transaction.rollback().await.map_err(failed)?;
    let kept = |row: &PgRow| {
        let name: String = row.try_get("name")?;
        let value = keep_setting(&name, row.try_get("value")?);
        Ok((name, value))
    };
    let mut settings: Vec<(String, String)> = rows.iter().map(kept).collect::<Result<_, _>>().map_err(failed)?;
    settings.extend(path.map(|path| (SEARCH_PATH.to_owned(), path)));
    settings.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(settings)
}

/// pgthaw's sessions ask for their own as they begin, and so cannot see it as others do.
const SEARCH_PATH: &str = "search_path";

const USUAL_SEARCH_PATH: &str = "\"$user\", public";

/// The search_path that others begin with; `None` when nobody set one, and for a role that may not know.
async fn read_configured_path(connection: &mut PgConnection) -> Option<String> {
    sqlx::query_scalar(include_str!("sql/configured_path_13.sql")).fetch_one(connection).await.ok().flatten()
}

/// What others see of search_path: its value, and where it is from.
fn describe_path(path: Option<String>) -> (Option<String>, String) {
    let source = if path.is_some() { "configuration file" } else { "default" };
    (Some(path.unwrap_or_else(|| USUAL_SEARCH_PATH.to_owned())), source.to_owned())
}

/// A setting as new sessions begin with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfiguredSetting {
    pub name: String,
    /// The setting's value in `unit`; `None` when this role may not see it.
    pub value: Option<String>,
    /// `8kB`, `ms`; `None` of a number without one, and of what is no number.
    pub unit: Option<String>,
    /// `default`, `configuration file`, `command line` …
    pub source: String,
}

/// Every setting of the server.
pub async fn read_configuration(connection: &mut PgConnection) -> Result<Vec<ConfiguredSetting>, Error> {
    let failed = |source| Error::Query { action: "read the configuration", source };
    let path = read_configured_path(connection).await;
    let rows = sqlx::query(include_str!("sql/configuration_13.sql")).fetch_all(connection).await.map_err(failed)?;
    let decode = |row: &PgRow| {
        let name: String = row.try_get("name")?;
        let value: Option<String> = row.try_get("value")?;
        Ok(ConfiguredSetting {
            value: value.map(|value| keep_setting(&name, value)),
            name,
            unit: row.try_get("unit")?,
            source: row.try_get("source")?,
        })
    };
    let mut settings: Vec<ConfiguredSetting> =
        rows.iter().map(decode).collect::<Result<_, sqlx::Error>>().map_err(failed)?;
    if let Some(setting) = settings.iter_mut().find(|setting| setting.name == SEARCH_PATH) {
        (setting.value, setting.source) = describe_path(path);
    }
    Ok(settings)
}

/// Names of the extensions whose files the server has.
pub async fn read_installable_extensions(connection: &mut PgConnection) -> Result<BTreeSet<String>, Error> {
    let failed = |source| Error::Query { action: "list the extensions", source };
    let question = include_str!("sql/installable_extensions_13.sql");
    let rows = sqlx::query(question).fetch_all(connection).await.map_err(failed)?;
    rows.iter().map(|row| row.try_get("name")).collect::<Result<_, _>>().map_err(failed)
}

/// Libraries that the server loads when it starts: the setting `shared_preload_libraries`.
pub async fn read_preloaded(connection: &mut PgConnection) -> Result<String, Error> {
    let failed = |source| Error::Query { action: "read a setting", source };
    let question = include_str!("sql/preloaded_13.sql");
    sqlx::query_scalar(question).fetch_one(connection).await.map_err(failed)
}

/// What the server says of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingState {
    pub name: String,
    /// When it can change: `postmaster` at a start, `internal` never, any other while the server runs.
    pub context: String,
    /// Where its value is from: `configuration file`, `command line`, `default` …
    pub source: String,
    /// A changed value waits for a restart.
    pub pending_restart: bool,
    /// `bool`, `integer`, `real`, `enum` or `string`.
    pub kind: String,
    /// `8kB`, `ms`; `None` of a number without one, and of what is no number.
    pub unit: Option<String>,
    /// Words that are allowed; `None` of what is no `enum`.
    pub allowed: Option<Vec<String>>,
    /// What new sessions begin with, in `unit`.
    pub value: Option<String>,
}

/// What the server says of these settings to sessions that set nothing for themselves, as pgthaw's own do; those that it
/// does not know are left out.
pub async fn read_setting_states(connection: &mut PgConnection, names: &[String]) -> Result<Vec<SettingState>, Error> {
    let failed = |source| Error::Query { action: "ask for settings", source };
    let path = read_configured_path(connection).await;
    // The end of the transaction takes the reset back.
    let mut transaction = connection.begin().await.map_err(failed)?;
    let reset = sqlx::raw_sql(include_str!("sql/session_reset_13.sql"));
    reset.execute(&mut *transaction).await.map_err(failed)?;
    let question = sqlx::query(include_str!("sql/setting_contexts_13.sql")).bind(names);
    let rows = question.fetch_all(&mut *transaction).await.map_err(failed)?;
    transaction.rollback().await.map_err(failed)?;
    let decode = |row: &sqlx::postgres::PgRow| {
        Ok(SettingState {
            name: row.try_get("name")?,
            context: row.try_get("context")?,
            source: row.try_get("source")?,
            pending_restart: row.try_get("pending_restart")?,
            kind: row.try_get("kind")?,
            unit: row.try_get("unit")?,
            allowed: row.try_get("allowed")?,
            value: row.try_get("value")?,
        })
    };
    let mut states: Vec<SettingState> = rows.iter().map(decode).collect::<Result<_, sqlx::Error>>().map_err(failed)?;
    if let Some(state) = states.iter_mut().find(|state| state.name == SEARCH_PATH) {
        (state.value, state.source) = describe_path(path);
    }
    Ok(states)
}

/// When the server read its configuration files last, by its clock: something else after it has read them again.
pub async fn read_load_time(connection: &mut PgConnection) -> Result<String, Error> {
    let time = sqlx::query_scalar(include_str!("sql/load_time_13.sql")).fetch_one(connection).await;
    time.map_err(|source| Error::Query { action: "ask when the settings were read", source })
}

/// Settings of the configuration files that the running server cannot use as they stand, and why.
pub async fn read_setting_errors(connection: &mut PgConnection) -> Result<Vec<(String, String)>, Error> {
    let errors = sqlx::query_as(include_str!("sql/setting_errors_13.sql")).fetch_all(connection).await;
    errors.map_err(|source| Error::Query { action: "ask for mistakes in the configuration", source })
}

/// Settings that ALTER ROLE or ALTER DATABASE has given to some sessions, with their values.
pub async fn read_setting_overrides(connection: &mut PgConnection) -> Result<Vec<(String, String)>, Error> {
    let overrides = sqlx::query_as(include_str!("sql/setting_overrides_13.sql")).fetch_all(connection).await;
    overrides.map_err(|source| Error::Query { action: "ask for settings of roles and databases", source })
}
