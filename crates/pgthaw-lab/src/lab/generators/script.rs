//! The shell script that runs pgbench on a host. It goes there through a pipe, whole, before anything else is said.

use std::path::PathBuf;

use crate::lab::error::Error;
use host::files::read_at_most;
use postgres::{ConnectOptions, Load, Pgbench, SCRIPT_BYTES_MAX, Script};

/// What is the same for all.
const BODY: &str = include_str!("host.sh");

/// What a host's pgbench is to do.
#[derive(Debug)]
pub struct HostTask<'a> {
    pub load: &'a Load,
    pub connection: ConnectOptions,
    pub password: &'a str,
    /// `None`: it is looked for there.
    pub pgbench: Option<&'a str>,
}

/// The script of a host.
#[derive(Debug)]
pub struct HostScript {
    pub text: Vec<u8>,
    /// pgbench's arguments, as one would type them.
    pub arguments: String,
}

/// Writes the script. A shell reads a compound command to its end before it runs any of it, so whatever is said to the
/// script later is not taken for a part of it.
pub fn write_script(task: &HostTask<'_>) -> Result<HostScript, Error> {
    let mut load = task.load.clone();
    let files = take_files(&mut load)?;
    let arguments = Pgbench::in_path(task.connection.clone()).load_arguments(&load, &PathBuf::new());
    let arguments: Vec<String> =
        arguments.iter().map(|argument| quote(argument.to_string_lossy().as_bytes())).map(into_text).collect();
    let arguments = arguments.join(" ");
    let mut text = b"{\n".to_vec();
    for (name, value) in [("password", task.password), ("pgbench", task.pgbench.unwrap_or_default())] {
        text.extend(format!("{name}=").into_bytes());
        text.extend(quote(value.as_bytes()));
        text.push(b'\n');
    }
    text.extend(b"put_files() {\n:\n");
    for SentFile { name, content } in files {
        text.extend(b"printf %s ");
        text.extend(quote(&content));
        text.extend(format!(" >{name} || return\n").into_bytes());
    }
    text.extend(format!("}}\nrun_pgbench() {{ exec \"$pgbench\" {arguments}; }}\n").into_bytes());
    text.extend(BODY.as_bytes());
    text.extend(b"}\n");
    Ok(HostScript { text, arguments })
}

/// A file that goes along with the script.
struct SentFile {
    name: String,
    content: Vec<u8>,
}

/// Gives the load's scripts names of our own, and takes what they hold.
fn take_files(load: &mut Load) -> Result<Vec<SentFile>, Error> {
    let mut files = Vec::new();
    for (script, _) in &mut load.scripts {
        let Script::File(path) = script else { continue };
        let content = read_at_most(path, SCRIPT_BYTES_MAX).map_err(|source| Error::file("read", path, source))?;
        if content.contains(&0) {
            return Err(Error::Setting(format!("points.script: {} has a byte 0, and is no script", path.display())));
        }
        let name = format!("{}.sql", files.len());
        *script = Script::File(PathBuf::from(&name));
        files.push(SentFile { name, content });
    }
    Ok(files)
}

/// For a POSIX shell: nothing means anything between single quotes.
fn quote(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;
    use pgbench::QueryMode;
    use postgres::{Length, TransactionLog};

    fn load(script: &Path) -> Load {
        Load {
            scripts: vec![(Script::File(script.to_owned()), 3), (Script::Builtin("select-only"), 1)],
            variables: vec![("x".into(), "it's $(date) `id` \\ \"".into())],
            query_mode: QueryMode::default(),
            clients: 2,
            jobs: 1,
            rate: None,
            latency_limit_ms: None,
            max_tries: 1,
            length: Length::Seconds(5),
            log: TransactionLog::Transactions(1.0),
        }
    }

    #[test]
    fn a_script_goes_along_whatever_it_holds_and_no_argument_means_anything_to_the_shell() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b'; touch x.sql");
        let content = "SELECT 'it''s', $1;\n-- \\ `id` \u{e9}\n\n";
        std::fs::write(&path, content).unwrap();
        let connection = ConnectOptions {
            host: Some("h".into()),
            port: Some(1),
            user: Some("u".into()),
            database: Some("d".into()),
            ..ConnectOptions::default()
        };
        let task = HostTask { load: &load(&path), connection, password: "p'w", pgbench: Some("/x y/pgbench") };
        let script = String::from_utf8(write_script(&task).unwrap().text).unwrap();
        // The functions alone, with a pgbench that shows its arguments.
        let (head, _) = script.split_once("# Runs pgbench").unwrap();
        let shown = format!("{head}put_files; pgbench=printf; set --; printf '%s\\n' \"$password\"; run_pgbench; }}\n");
        let shown = shown.replacen("exec \"$pgbench\"", "exec printf '%s\\n'", 1);
        let output = Command::new("sh").arg("-c").arg(&shown).current_dir(directory.path()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "p'w", "{said}");
        assert!(lines.contains(&"x=it's $(date) `id` \\ \"") && lines.contains(&"0.sql@3"), "{said}");
        assert!(lines.contains(&"--log-prefix=log") && lines.ends_with(&["d"]), "{said}");
        assert_eq!(std::fs::read_to_string(directory.path().join("0.sql")).unwrap(), content);
    }

    #[test]
    fn what_is_no_text_is_no_script() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sql");
        std::fs::write(&path, b"SELECT\0").unwrap();
        let connection = ConnectOptions::default();
        let task = HostTask { load: &load(&path), connection, password: "", pgbench: None };
        assert!(write_script(&task).unwrap_err().to_string().contains("byte 0"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_shell_reads_a_quoted_word_as_it_was(word in "[^\\x00]{0,40}") {
            let script = [b"printf %s ".to_vec(), quote(word.as_bytes())].concat();
            let output = Command::new("sh").arg("-c").arg(into_text(script)).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
