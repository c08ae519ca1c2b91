//! The scripts that pgbench's clients run.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use crate::files::read_at_most;
use crate::pgbench::BUILTIN_SCRIPTS;

/// What the clients run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Script {
    /// One of pgbench's own: `select-only`, `simple-update` or `tpcb-like`.
    Builtin(&'static str),
    File(PathBuf),
}

/// Bytes that a script may have.
pub const SCRIPT_BYTES_MAX: u64 = 64 << 20;

/// Meta commands by which a script lets its client wait for something else than the server.
const PAUSES: [&str; 3] = ["sleep", "shell", "setshell"];

/// Neither a built-in script nor a file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("there is no file {}, and pgbench's own scripts are {}", .0.display(), BUILTIN_SCRIPTS.join(", "))]
pub struct NoSuchScript(PathBuf);

impl Script {
    /// What people read: the builtin's name, or the file's.
    pub fn name(&self) -> String {
        match self {
            Script::Builtin(name) => (*name).to_owned(),
            Script::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        }
    }

    /// Does it write nothing? Of a file that is not known.
    pub fn is_read_only(&self) -> bool {
        *self == Script::Builtin("select-only")
    }

    /// May a client pause by the script's own will? One that calls pg_sleep does not: it waits for the server. A file that
    /// cannot be read may do anything.
    pub fn may_pause(&self) -> bool {
        match self {
            Script::Builtin(_) => false,
            Script::File(path) => {
                read_at_most(path, SCRIPT_BYTES_MAX).map_or(true, |text| has_pause(&String::from_utf8_lossy(&text)))
            }
        }
    }
}

/// Has a script such a line? A meta command stands at the beginning of one.
fn has_pause(text: &str) -> bool {
    let commands = text.lines().filter_map(|line| line.trim_start().strip_prefix('\\'));
    commands.filter_map(|command| command.split_ascii_whitespace().next()).any(|name| PAUSES.contains(&name))
}

impl FromStr for Script {
    type Err = NoSuchScript;

    /// A builtin's name; anything else is a file that must be there, as a study must not find out late that it is not.
    fn from_str(text: &str) -> Result<Script, Self::Err> {
        let file = PathBuf::from(text);
        match BUILTIN_SCRIPTS.into_iter().find(|name| *name == text) {
            Some(name) => Ok(Script::Builtin(name)),
            None if file.is_file() => Ok(Script::File(file)),
            None => Err(NoSuchScript(file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_pauses_where_its_script_says_so() {
        for pausing in ["\\sleep 5 ms\n", "SELECT 1;\n  \\shell true\n", "\\setshell x echo 1\r\nSELECT :x;\r\n"] {
            assert!(has_pause(pausing), "{pausing}");
        }
        for busy in ["\\set x random(1, 9)\nSELECT :x;\n", "-- \\sleep 5\nSELECT pg_sleep(1);\n", "\\sleepy\n", ""] {
            assert!(!has_pause(busy), "{busy}");
        }
        assert!(Script::File("no/such/script.sql".into()).may_pause() && !Script::Builtin("tpcb-like").may_pause());
    }

    #[test]
    fn a_name_is_a_builtin_or_a_file() {
        assert_eq!("tpcb-like".parse::<Script>().unwrap(), Script::Builtin("tpcb-like"));
        assert!("no/such/script.sql".parse::<Script>().unwrap_err().to_string().contains("select-only"));
        assert_eq!(Script::File("scripts/hot.sql".into()).name(), "hot.sql");
    }
}
