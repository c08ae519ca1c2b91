//! Which run is meant by a name, of whatever kind: sweeps, loaders.

use super::database::Query;
use super::{Error, Store};

/// What stands for the run that was started last.
pub const NEWEST: &str = "newest";

/// The kinds of runs that a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sweep,
    Loading,
}

/// Which kind the run is that was started last.
const NEWEST_KIND: &str = "
SELECT kind FROM (
    SELECT 'sweep' AS kind, started_at FROM sweeps
    UNION ALL SELECT 'loading', started_at FROM loading_runs
) AS everything ORDER BY started_at DESC LIMIT 1";

/// What has a name.
pub(super) trait Named {
    fn id(&self) -> &str;
}

/// The one whose id is `wanted`, or begins with it when no other does.
pub(super) fn choose<T: Named>(mut all: Vec<T>, wanted: &str) -> Result<Option<T>, Error> {
    if let Some(exact) = all.iter().position(|one| one.id() == wanted) {
        return Ok(Some(all.swap_remove(exact)));
    }
    all.retain(|one| one.id().starts_with(wanted));
    if all.len() > 1 {
        let matches = all.iter().map(|one| one.id().to_owned()).collect();
        return Err(Error::AmbiguousRun { wanted: wanted.to_owned(), matches });
    }
    Ok(all.pop())
}

impl Store {
    /// Of the run that was started last; `None` in an empty store.
    pub(super) async fn read_newest_kind(&self) -> Result<Option<Kind>, Error> {
        let kinds: Vec<String> = self.read(Query::new(NEWEST_KIND), |row| row.try_get("kind")).await?;
        let kind = kinds.into_iter().next();
        Ok(kind.map(|kind| match kind.as_str() {
            "loading" => Kind::Loading,
            _ => Kind::Sweep,
        }))
    }
}

impl Error {
    /// Where a file's name may stand too, a name that is no run's may be a file's that was mistyped. The newest run is no file.
    pub fn of_file_or_run(self, named: &str) -> Error {
        match self {
            Error::Missing(_) | Error::Empty(_) | Error::UnknownRun(_) if named != NEWEST => {
                Error::NeitherFileNorRun(named.to_owned())
            }
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_file_is_told_as_neither_file_nor_run() {
        let missing = || Error::Missing("/x/results.sqlite".into());
        let told = missing().of_file_or_run("nosuch").to_string();
        assert_eq!(told, "there is neither a file nor a stored run called \"nosuch\"");
        assert!(missing().of_file_or_run(NEWEST).to_string().contains("no results store"));
    }
}
