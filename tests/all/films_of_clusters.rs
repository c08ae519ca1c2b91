//! Films of several clusters in one store: whose they are, and which of them a name means.

use std::path::Path;

use serde_json::Value;

use crate::films::receipt;
use crate::servers::{self, Home, Output, TestServer, output_of};

/// pgthaw against a server, with the films of `state`.
fn pgthaw(server: &TestServer, state: &Path, arguments: &[&str]) -> Output {
    output_of(server.command(arguments).env("XDG_STATE_HOME", state))
}

fn identifier(server: &TestServer) -> String {
    server.psql("SELECT system_identifier FROM pg_control_system()")
}

fn cluster_of(shown: &Value) -> &str {
    shown["header"]["system_identifier"].as_str().unwrap_or_else(|| panic!("{shown:#}"))
}

#[test]
fn a_name_means_a_film_of_the_server_that_is_there() {
    let home = Home::new();
    let state = home.path().join("state");
    let (first, second) = (servers::start_any(&[]), servers::start_new(15, &[]));
    let record = |server: &TestServer, name: &str| {
        let way = ["film", "record", "--seconds", "1", "--source", "polling", "--like", name, "--json"];
        pgthaw(server, &state, &way).ok();
    };
    // The newest of all is the second's.
    record(&first, "x");
    record(&second, "x");
    record(&second, "y");
    let [own, others] = [&first, &second].map(identifier);
    assert_ne!(own, others);

    let list = pgthaw(&first, &state, &["film", "show", "--json"]).ok().json();
    let told: Vec<&Value> = list["films"].as_array().unwrap().iter().map(|film| &film["system_identifier"]).collect();
    assert_eq!(told, [&*others, &*others, &*own]);
    let list = pgthaw(&first, &state, &["film", "show"]).ok().stdout;
    assert!(list.contains("cluster") && list.contains(&own) && list.contains(&others), "{list}");
    let marked: Vec<&str> = list.lines().filter(|line| line.starts_with('*')).collect();
    assert!(marked.len() == 2 && marked[0].contains(&own) && marked[1].contains("this server's cluster"), "{list}");

    for (server, cluster) in [(&first, &own), (&second, &others)] {
        let shown = pgthaw(server, &state, &["film", "show", "x", "--json"]).ok();
        assert_eq!(cluster_of(&shown.json()), cluster);
        assert!(shown.stderr.contains("those of other clusters were skipped"), "{}", shown.stderr);
    }

    // Nobody is there.
    let alone =
        |arguments: &[&str]| output_of(home.command(arguments).env("XDG_STATE_HOME", &state).env("PGHOST", "/nowhere"));
    for way in [&["film", "show", "x"][..], &["film", "drop", "x"], &["predict", "--film", "x"]] {
        let refused = alone(way).ends_with(2).stderr;
        assert!(refused.contains("named \"x\" belong to 2 clusters") && refused.contains("-h and -p"), "{refused}");
    }
    assert_eq!(cluster_of(&alone(&["film", "show", "y", "--json"]).ok().json()), others, "it is one cluster's");
    let directory = first.data_directory();
    let by_directory = ["-D", directory.to_str().unwrap()];
    let shown = alone(&[&["film", "show", "x", "--json"][..], &by_directory].concat()).ok().json();
    assert_eq!(cluster_of(&shown), own);
    for verb in ["show", "drop"] {
        let refused = alone(&[&["film", verb, "y"][..], &by_directory].concat()).ends_with(2).stderr;
        assert!(refused.contains("of another cluster"), "{refused}");
    }
    // All of a name of one cluster go, and no other's.
    record(&first, "x");
    let dropped = alone(&[&["film", "drop", "x", "--json"][..], &by_directory].concat()).ok().json();
    assert_eq!(dropped["dropped"].as_array().unwrap().len(), 2, "{dropped:#}");
    let list = alone(&["film", "show", "--json"]).ok().json();
    let left: Vec<&Value> = list["films"].as_array().unwrap().iter().map(|film| &film["system_identifier"]).collect();
    assert_eq!(left, [&*others, &*others]);
    let name = list["films"][0]["name"].as_str().unwrap().to_owned();
    assert!(alone(&["film", "drop", &name]).ok().stdout.contains(&name));
    alone(&["film", "drop", &name]).ends_with(2);
}

#[test]
fn a_film_of_another_cluster_alone_helps_no_job() {
    let home = Home::new();
    let state = home.path().join("state");
    let (first, second) = (servers::start_any(&[]), servers::start_new(15, &[]));
    pgthaw(&second, &state, &["film", "record", "--seconds", "1", "--source", "polling", "--like", "y", "--json"]).ok();
    let refused = pgthaw(&first, &state, &["run", "--film", "y", "--", "echo", "done"]).ends_with(2);
    assert!(refused.stderr.contains("of another cluster") && refused.stdout.is_empty(), "{refused:?}");
    let ran = receipt(&pgthaw(&first, &state, &["run", "--like", "y", "--json", "--", "true"]).ok());
    assert!(ran["remarks"].to_string().contains("all films named y belong to other clusters"), "{ran:#}");
}
