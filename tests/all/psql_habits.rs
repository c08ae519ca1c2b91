//! What psql understands, pgthaw understands: both are given the same options, strings and variables.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use postgres::Programs;

use crate::servers::{self, Home, output_of};

/// Variables, then arguments. SOCKET, PORT and FILE stand for the server's and for a password file of `app`.
type Given = (&'static [(&'static str, &'static str)], &'static [&'static str]);

const WAY: &[(&str, &str)] = &[("PGHOST", "SOCKET"), ("PGPORT", "PORT"), ("PGUSER", "postgres")];

const INPUTS: &[Given] = &[
    (WAY, &[]),
    (WAY, &["postgres"]),
    (&[("PGHOST", "SOCKET"), ("PGPORT", "PORT")], &["postgres", "postgres"]),
    (&[("PGHOST", "SOCKET"), ("PGPORT", "PORT")], &["-d", "postgres", "postgres"]),
    (&[("PGHOST", "SOCKET"), ("PGPORT", "PORT"), ("PGUSER", "nobody_known")], &["-U", "postgres", "postgres"]),
    (&[("PGHOST", "SOCKET"), ("PGPORT", "PORT"), ("PGUSER", "nobody_known")], &["postgres"]),
    (&[], &["-h", "SOCKET", "-p", "PORT", "-U", "postgres", "-d", "postgres"]),
    (&[], &["-d", "host=SOCKET port=PORT user=postgres dbname=postgres"]),
    (&[], &["-d", " host = 'SOCKET' port=PORT user='postgres'  dbname=postgres application_name='a b' "]),
    (&[], &["host=SOCKET port=PORT user=postgres dbname=postgres"]),
    (&[], &["postgresql:///postgres?host=SOCKET&port=PORT&user=postgres"]),
    (&[], &["-d", "postgres://postgres@/postgres?host=SOCKET&port=PORT"]),
    (&[], &["-d", "postgresql://postgres@localhost/postgres?host=SOCKET&port=PORT&connect_timeout=5"]),
    // A connection string wins over the options beside it.
    (&[], &["-h", "/nowhere", "-p", "1", "-d", "host=SOCKET port=PORT user=postgres dbname=postgres"]),
    // An empty value is libpq's default, whatever the environment says.
    (&[("PGPORT", "1"), WAY[0], WAY[2]], &["-d", "port='' dbname=postgres"]),
    // Several hosts.
    (&[("PGHOST", "/nowhere,SOCKET"), ("PGPORT", "PORT"), ("PGUSER", "postgres")], &["postgres"]),
    (&[("PGUSER", "postgres")], &["-h", "/nowhere,SOCKET", "-p", "1,PORT", "postgres"]),
    (&[("PGUSER", "postgres")], &["-h", "/nowhere,SOCKET", "-p", "1,PORT,3", "postgres"]),
    (&[("PGUSER", "postgres")], &["-h", "/nowhere,/nowhere/either", "postgres"]),
    // Which of them is wanted.
    (WAY, &["-d", "dbname=postgres target_session_attrs=read-write"]),
    (WAY, &["-d", "dbname=postgres target_session_attrs=primary"]),
    (WAY, &["-d", "dbname=postgres target_session_attrs=standby"]),
    (WAY, &["-d", "dbname=postgres target_session_attrs=prefer-standby"]),
    (WAY, &["-d", "dbname=postgres target_session_attrs=any-one"]),
    (WAY, &["-d", "dbname=postgres target_session_attrs=read-write options='-c default_transaction_read_only=on'"]),
    (WAY, &["-d", "dbname=postgres target_session_attrs=read-only options=-cdefault_transaction_read_only=on"]),
    // Encryption: none through a socket, whatever is asked for.
    (&[("PGSSLMODE", "require"), WAY[0], WAY[1], WAY[2]], &["postgres"]),
    (&[("PGSSLMODE", "sometimes"), WAY[0], WAY[1], WAY[2]], &["postgres"]),
    // Passwords: right, wrong, none, and from a file.
    (WAY, &["-d", "user=app password='it''s' dbname=postgres"]),
    (WAY, &["-d", r"user=app password='it\'s' dbname=postgres"]),
    (WAY, &["-d", "user=app password=wrong dbname=postgres"]),
    (WAY, &["-w", "-d", "user=app dbname=postgres"]),
    (WAY, &["-d", "user=app passfile=FILE dbname=postgres"]),
    (&[("PGPASSFILE", "FILE"), WAY[0], WAY[1]], &["-U", "app", "postgres"]),
    (&[("PGPASSWORD", "it's"), WAY[0], WAY[1]], &["-U", "app", "postgres"]),
    (&[], &["postgresql://app:it%27s@/postgres?host=SOCKET&port=PORT"]),
    (&[], &["postgresql://app:it%2s@/postgres?host=SOCKET&port=PORT"]),
    // What cannot be understood.
    (WAY, &["-d", "dbname=postgres usr=postgres"]),
    (WAY, &["-d", "dbname=postgres user"]),
    (WAY, &["-d", "dbname=postgres user='postgres"]),
    (WAY, &["-d", "postgresql://[::1/postgres"]),
    (WAY, &["-d", "absent"]),
    (&[WAY[0], WAY[2], ("PGPORT", "five")], &["postgres"]),
    (&[WAY[0], WAY[2], ("PGPORT", "0")], &["postgres"]),
    (&[("PGSERVICE", "absent"), WAY[0], WAY[1], WAY[2]], &["postgres"]),
];

#[test]
fn psql_and_pgthaw_reach_the_same_server_as_the_same_role() {
    let mut server = servers::start_any(&[]);
    server.psql("CREATE ROLE app LOGIN PASSWORD 'it''s'");
    let rules = "local all app scram-sha-256\nlocal all all trust\n";
    fs::write(server.data_directory().join("pg_hba.conf"), rules).unwrap();
    server.restart();
    let options = server.cluster.connect_options("postgres");
    let (socket, port) = (options.host.unwrap(), options.port.unwrap().to_string());
    let home = Home::new();
    let file = home.path().join("passwords");
    fs::write(&file, format!("{socket}:{port}:*:app:it's\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let fill =
        |text: &str| text.replace("SOCKET", &socket).replace("PORT", &port).replace("FILE", file.to_str().unwrap());
    // A distribution's psql knows encryption; the downloaded ones do not.
    let psql = Programs::find_all().iter().rev().find_map(|programs| programs.path("psql").ok());
    let psql = psql.unwrap_or_else(|| server.command_of("psql").get_program().into());
    let (mut reached, mut differences) = (0, Vec::new());
    for (variables, arguments) in INPUTS {
        let give = |command: &mut Command| {
            for (name, value) in *variables {
                command.env(name, fill(value));
            }
            command.args(arguments.iter().map(|argument| fill(argument)));
            output_of(command)
        };
        let mut of_psql = Command::new(&psql);
        of_psql.args(["-XAtw", "-c", "SELECT current_user"]).env_clear().env("HOME", home.path());
        let expected = give(&mut of_psql);
        let said = give(&mut home.command(&["doctor", "--json"]));
        let lines = if said.stdout.is_empty() { serde_json::Value::Array(Vec::new()) } else { said.json() };
        let line = |name: &str| lines.as_array().unwrap().iter().find(|line| line["name"] == name).cloned();
        let role = line("server").filter(|line| line["ok"] == true).and(line("role"));
        let role = role.map(|line| line["detail"].as_str().unwrap().split(' ').next().unwrap().to_owned());
        let wanted = (expected.status == 0).then(|| expected.stdout.trim().to_owned());
        let told = format!(
            "{variables:?} {arguments:?}\npsql: {}\npgthaw: {}{:?}",
            expected.stderr,
            said.stderr,
            line("server")
        );
        if role != wanted {
            differences.push(format!("{role:?} where psql has {wanted:?}: {told}"));
        }
        if format!("{}{}", said.stdout, said.stderr).contains("it's") {
            differences.push(format!("a password is shown: {told}"));
        }
        reached += usize::from(wanted.is_some());
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n\n"));
    assert!(reached > 20 && reached < INPUTS.len() - 10, "{reached} of {} were let in", INPUTS.len());
}

#[test]
fn no_password_is_printed_or_seen_in_the_list_of_processes() {
    let home = Home::new();
    let secret = "planted-geheim";
    for word in [
        "postgres://a:SECRET@/d?host=/nowhere",
        "-dpostgres://a:SECRET@/d?host=/nowhere",
        "-wdpostgres://a:SECRET@h/d",
        "--dbname=host=/nowhere password=SECRET",
        "-dhost=/nowhere password=SECRET",
        "-d=host=/nowhere password=SECRET",
        "postgres://a:p@SECRET@/nowhere",
        "postgres://a:SECRET/x@h:1/d",
        "postgres:/a:SECRET@h/d",
        "a:SECRET@h:5433/d",
        "--password=SECRET",
        "password=SECRET wort",
        "host=/nowhere password='SECRET",
    ] {
        for more in [&["map", "-w"][..], &["results", "--results"], &["map", "x", "y", "z"], &["map", "--json"]] {
            let word = word.replace("SECRET", secret);
            let said = home.pgthaw(&[more, &[word.as_str()]].concat());
            assert_ne!(said.status, 0, "{word}");
            assert!(!format!("{}{}", said.stdout, said.stderr).contains(secret), "{word} {more:?}: {said:?}");
        }
    }
    // Somebody who takes a connection and says nothing keeps pgthaw waiting, to be looked at.
    let listener = std::os::unix::net::UnixListener::bind(home.path().join(".s.PGSQL.5432")).unwrap();
    let way = format!("host={} password={secret}", home.path().display());
    let mut waiting = home.command(&["map", "-d", &way]).spawn().unwrap();
    let client = listener.accept().unwrap();
    let seen = fs::read(format!("/proc/{}/cmdline", waiting.id())).unwrap();
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    drop(client);
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.contains("map") && seen.contains("host=") && !seen.contains(secret), "{seen}");
}
