//! `pgthaw map --rows`: what the lecture's query and its division say of each table, and how long the model takes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::servers;

fn table<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let found = rows["relations"].as_array().unwrap().iter().find(|one| one["relation"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {rows:#}"))
}

#[test]
fn rows_are_counted_and_their_fill_time_computed() {
    let server = servers::start_any(&[]);
    server.psql(
        "CREATE TABLE accounts (aid int PRIMARY KEY, filler char(84)); \
         INSERT INTO accounts SELECT i, '' FROM generate_series(1, 100000) AS i; ANALYZE accounts; \
         CREATE TABLE never (i int); INSERT INTO never SELECT 1; CREATE TABLE \"Bare\" AS SELECT 1 AS i; ANALYZE \"Bare\"",
    );
    let bytes: f64 = server.psql("SELECT pg_relation_size('accounts')").trim().parse().unwrap();
    let rows = server.pgthaw(&["map", "--rows", "--riops", "140.8", "--hit", "0.238ms", "--json"]).ok().json();
    let accounts = table(&rows, "public.accounts");
    let figure = |name: &str| accounts[name].as_f64().unwrap();
    assert_eq!((figure("rows"), figure("bytes")), (100_000.0, bytes));
    assert!((figure("rows_per_mb") * bytes / 1_048_576.0 / 100_000.0 - 1.0).abs() < 1e-9, "{accounts:#}");
    assert!((figure("rows_per_page") * bytes / 8192.0 / 100_000.0 - 1.0).abs() < 1e-9, "{accounts:#}");
    // 140.8 reads of 8 kB a second are the 1.1 MB/s of the lecture.
    assert!((figure("fill_seconds") * 1.1 * figure("rows_per_mb") / 100_000.0 - 1.0).abs() < 1e-9, "{accounts:#}");
    // Each page once, and more: pages that are there are asked for again, and the index is read too.
    let once = bytes / 8192.0 / 140.8;
    assert!((once..3.0 * once).contains(&figure("warm_after_seconds")), "{once} {accounts:#}");
    assert!(rows["remarks"].to_string().contains("public.never"), "{rows:#}");

    let text = server.pgthaw(&["map", "--rows", "--riops", "140.8"]).ok().stdout;
    assert!(text.contains("rows/MB") && text.contains("public.accounts") && text.contains("public.Bare"), "{text}");
    assert!(!text.contains("pg_class"), "{text}");
    assert!(server.pgthaw(&["map", "--rows", "--top", "0"]).ok().stdout.contains("pg_catalog.pg_class"));
    // All databases, or those that are named.
    server.psql("CREATE DATABASE shop");
    server.psql("CREATE DATABASE stock");
    for name in ["shop", "stock"] {
        server.psql_in(name, "CREATE TABLE of_its_own AS SELECT 1 AS i; ANALYZE of_its_own");
    }
    let databases = |arguments: &[&str]| -> BTreeSet<String> {
        let rows = server.pgthaw(&[&["map", "--rows", "--json"], arguments].concat()).ok().json();
        rows["relations"].as_array().unwrap().iter().map(|one| one["database"].as_str().unwrap().to_owned()).collect()
    };
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(databases(&["-d", "shop", "-d", "stock"]), named(&["shop", "stock"]));
    assert!(databases(&[]).is_superset(&named(&["shop", "stock"])) && databases(&[]).len() == 3);
    let text = server.pgthaw(&["map", "--rows", "-d", "shop", "-d", "stock"]).ok().stdout;
    assert!(text.contains("database") && text.contains("stock"), "{text}");
    for (option, value, told) in
        [("--riops", "1e-300", "from 0.01"), ("--riops", "1e300", "from 0.01"), ("--hit", "1e300s", "3600s")]
    {
        let refused = server.pgthaw(&["map", "--rows", option, value]).ends_with(2).stderr;
        assert!(refused.contains(told), "{refused}");
    }
    let refused = server.pgthaw(&["map", "--rows", "--riops", "0"]).ends_with(2).stderr;
    assert!(refused.contains("above 0"), "{refused}");
    let refused = server.pgthaw(&["rows"]).ends_with(2).stderr;
    assert!(refused.contains("pgthaw map --rows"), "{refused}");
    server.pgthaw(&["map", "--riops", "100"]).ends_with(2);
}
