//! How a server was built, as far as it decides how fast it is.

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use super::Error;

/// What the server says of its build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerBuild {
    /// Built with `--enable-cassert`?
    pub has_assertions: bool,
    /// Flags of the C compiler, as `pg_config --cflags` prints them; empty where they were not recorded.
    pub compiler_flags: String,
}

/// How the server was built. Only superusers may ask.
pub async fn read_server_build(connection: &mut PgConnection) -> Result<ServerBuild, Error> {
    let failed = |source| Error::Query { action: "ask how the server was built", source };
    let row = sqlx::query(include_str!("sql/build_13.sql")).fetch_one(connection).await.map_err(failed)?;
    let flags: Option<String> = row.try_get("compiler_flags").map_err(failed)?;
    Ok(ServerBuild {
        has_assertions: row.try_get("has_assertions").map_err(failed)?,
        compiler_flags: flags.filter(|flags| flags.starts_with('-')).unwrap_or_default(),
    })
}

impl ServerBuild {
    /// How little the compiler was asked to optimise, where that is less than users of a server expect: `-O0`, `-Og`, or
    /// nothing, which means -O0. The last of several options counts.
    pub fn weak_optimisation(&self) -> Option<&str> {
        let level = self.compiler_flags.split_ascii_whitespace().rfind(|word| word.starts_with("-O"));
        let level = level.unwrap_or_default();
        (!self.compiler_flags.is_empty() && ["", "-O0", "-Og"].contains(&level)).then_some(level)
    }
}

#[cfg(test)]
mod tests {
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
