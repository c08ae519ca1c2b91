use std::path::Path;

use clap::{Args, Parser, Subcommand};

use super::*;

/// A command line like pgthaw's own.
#[derive(Debug, Parser)]
#[command(name = "pgthaw", disable_help_flag = true)]
struct Line {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Bench(Evict),
    Restore(Restore),
    Evict(Evict),
    #[command(subcommand)]
    Snapshot(Snapshot),
}

#[derive(Debug, Subcommand)]
enum Snapshot {
    Take(Restore),
}

#[derive(Debug, Args)]
struct Restore {
    #[command(flatten)]
    connection: ConnectionArguments,
    #[arg(long, default_value_t = 2)]
    connections: u32,
    #[arg(long, env = "PGTHAW_TEST_TIER_NOT_SET")]
    tier: Option<String>,
    #[arg(long, env = "PATH")]
    path: Option<String>,
    #[arg(long, conflicts_with = "tier")]
    fast: bool,
    #[arg(long, required = true)]
    needed: Option<String>,
}

#[derive(Debug, Args)]
struct Evict {
    #[command(flatten)]
    connection: ConnectionArguments,
    #[arg(long)]
    lab_server: Vec<u64>,
}

fn matches(text: &str, arguments: &[&str]) -> Result<Line, String> {
    use clap::{CommandFactory as _, FromArgMatches as _};
    let file = SettingsFile::parse(Path::new("x.toml"), text).map_err(|error| error.to_string())?;
    let command = apply_settings(Line::command(), &file, &[]).map_err(|error| error.to_string())?;
    let mut matches = command.try_get_matches_from([&["pgthaw"], arguments].concat()).map_err(|e| e.to_string())?;
    Line::from_arg_matches_mut(&mut matches).map_err(|error| error.to_string())
}

fn restore(text: &str, arguments: &[&str]) -> Restore {
    match matches(text, &[&["restore"], arguments].concat()) {
        Ok(Line { command: Commands::Restore(restore) }) => restore,
        other => panic!("{other:?}"),
    }
}

fn error(text: &str) -> String {
    matches(text, &["restore", "--needed=x"]).unwrap_err()
}

const NEEDED: &str = "[restore]\nneeded = 'x'\n";

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let text = format!("{NEEDED}connections = 4\npath = 'file'\ntier = 'os'");
    let from_file = restore(&text, &[]);
    assert_eq!(from_file.connections, 4);
    assert_eq!(from_file.tier.as_deref(), Some("os"));
    assert_eq!(from_file.path, std::env::var("PATH").ok());
    assert_eq!(from_file.needed.as_deref(), Some("x"));
    let typed = restore(&text, &["--connections=7", "--path=typed"]);
    assert_eq!((typed.connections, typed.path.as_deref()), (7, Some("typed")));
    assert_eq!(restore("", &["--needed=x"]).connections, 2);
}

#[test]
fn a_flag_can_be_set_and_does_not_conflict_with_what_is_typed() {
    assert!(restore(&format!("{NEEDED}fast = true"), &[]).fast);
    assert!(!restore(&format!("{NEEDED}fast = false"), &[]).fast);
    assert!(restore(&format!("{NEEDED}fast = true"), &["--tier=os"]).tier.is_some());
}

#[test]
fn the_connection_counts_for_every_command_that_connects() {
    let text = "[connection]\nhost = '/tmp'\ndbname = ['a', 'b']\nport = 5433\ndata_dir = '/data'\n";
    let restore = restore(text, &["--needed=x"]);
    assert_eq!(restore.connection.databases, ["a", "b"]);
    assert_eq!((restore.connection.host.as_deref(), restore.connection.port.as_deref()), (Some("/tmp"), Some("5433")));
    assert_eq!(restore.connection.data_dir.as_deref(), Some(Path::new("/data")));
    let Ok(Line { command: Commands::Snapshot(Snapshot::Take(take)) }) =
        matches(text, &["snapshot", "take", "--needed=x"])
    else {
        panic!("not taken")
    };
    assert_eq!(take.connection.port.as_deref(), Some("5433"));
}

#[test]
fn lab_servers_stand_at_the_top() {
    let Ok(Line { command: Commands::Evict(evict) }) = matches("lab_servers = [7391827364501928374, 2]", &["evict"])
    else {
        panic!("no lab servers")
    };
    assert_eq!(evict.lab_server, [7391827364501928374, 2]);
}

#[test]
fn a_commands_own_table_wins_wherever_it_stands() {
    let text = "lab_servers = [1]\n[bench]\nlab_server = [2]\nport = 2\n[connection]\nport = 1\n";
    let Ok(Line { command: Commands::Bench(bench) }) = matches(text, &["bench"]) else { panic!("not read") };
    assert_eq!((&bench.lab_server[..], bench.connection.port.as_deref()), (&[2][..], Some("2")));
}

#[test]
fn what_is_wrong_is_told_with_file_and_key() {
    let cases = [
        ("[restore]\nconnections = 'many'", "x.toml: restore.connections: invalid value 'many'"),
        ("[restore]\nconnections = [1, 2]", "x.toml: restore.connections: takes one value, not a list"),
        ("[restore]\nconections = 1", "x.toml: restore.conections: restore has no option --conections"),
        ("[restart]\nx = 1", "x.toml: restart.x: there is no command restart"),
        ("[connection]\ntier = 'os'", "x.toml: connection.tier: --tier is not a connection option"),
        ("[restore]\nfast = 'very'", "x.toml: restore.fast: must be true or false, not very"),
        ("[restore]\ntier = 1979-05-27", "x.toml: restore.tier: must be a string"),
        ("port = 5432", "x.toml: port: only lab_servers and mode are allowed at the top"),
        ("lab_servers = [1]\nname = 'a'", "x.toml: name: only lab_servers and mode"),
        ("[restore", "x.toml is not a TOML file"),
    ];
    for (text, expected) in cases {
        assert!(error(text).starts_with(expected), "{}", error(text));
    }
}

#[test]
fn the_first_file_there_is_counts() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("pgthaw/pgthaw.toml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "[restore]\nneeded = 'x'").unwrap();
    let environment = |name: &str| (name == "XDG_CONFIG_HOME").then(|| root.path().to_owned());
    assert_eq!(SettingsFile::find_in(environment).unwrap().settings().unwrap().len(), 1);
    let missing = |name: &str| (name == "PGTHAW_CONFIG").then(|| root.path().join("missing.toml"));
    assert!(matches!(SettingsFile::find_in(missing), Err(SettingsError::Read { .. })));
}

#[test]
fn another_users_file_is_refused_unless_it_is_named() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("pgthaw/pgthaw.toml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "").unwrap();
    needs_root!();
    std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
    let found = |name: &str| (name == "XDG_CONFIG_HOME").then(|| root.path().to_owned());
    assert!(matches!(SettingsFile::find_in(found), Err(SettingsError::NotOwned(_))));
    let named = |name: &str| (name == "PGTHAW_CONFIG").then(|| file.clone());
    assert!(SettingsFile::find_in(named).is_ok());
}
