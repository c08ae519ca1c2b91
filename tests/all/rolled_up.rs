//! `--by`: partitioned tables, indexes and TOAST summed up against sums made here; names and patterns against psql's own.

use std::collections::BTreeSet;

use host::units::Bytes;
use postgres::StopMode;
use serde_json::Value;

use crate::map::relation;
use crate::servers::{self, TestServer};

/// A partitioned table with two levels, an index on it, and TOAST that is filled; a table with both; odd names.
const TABLES: &str = "
    CREATE EXTENSION pg_buffercache;
    CREATE SCHEMA sales;
    CREATE SCHEMA \"sc.hema\";
    CREATE TABLE sales.orders (id int, day int, body text) PARTITION BY RANGE (day);
    CREATE TABLE sales.orders_new PARTITION OF sales.orders FOR VALUES FROM (100) TO (200);
    CREATE TABLE sales.orders_old PARTITION OF sales.orders FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
    CREATE TABLE sales.orders_old_1 PARTITION OF sales.orders_old FOR VALUES FROM (0) TO (500);
    CREATE TABLE public.elsewhere PARTITION OF sales.orders_old FOR VALUES FROM (500) TO (9999);
    CREATE INDEX orders_id ON sales.orders (id);
    ALTER TABLE sales.orders ALTER body SET STORAGE EXTERNAL;
    ALTER TABLE sales.orders_old_1 ALTER body SET STORAGE EXTERNAL;
    INSERT INTO sales.orders SELECT i, i % 200, repeat('x', 3000) FROM generate_series(1, 1000) AS i;
    CREATE TABLE t (id int PRIMARY KEY, body text);
    ALTER TABLE t ALTER body SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, repeat('y', 3000) FROM generate_series(1, 100) AS i;
    CREATE TABLE \"Odd Name\" AS SELECT 1 AS i;
    CREATE TABLE \"sc.hema\".\"ta.ble\" AS SELECT 1 AS i;
    CREATE TABLE sales2 AS SELECT 1 AS i;
    CHECKPOINT;
";

fn rows(map: &Value) -> Vec<&Value> {
    map["relations"].as_array().unwrap().iter().collect()
}

fn names(map: &Value) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows(map).into_iter().map(|row| format!("{}.{}", text(&row["schema"]), text(&row["name"]))).collect()
}

fn blocks(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("{field} of {row:#}"))
}

/// Without its indexes and TOAST: of what psql's `\dt` lists.
fn tables(server: &TestServer, arguments: &[&str]) -> BTreeSet<String> {
    let map = server.pgthaw(&[&["map", "--json"], arguments].concat()).ok().json();
    let tables = rows(&map).into_iter().filter(|row| row["kind"] == "table");
    tables.map(|row| format!("{}.{}", row["schema"].as_str().unwrap(), row["name"].as_str().unwrap())).collect()
}

test_every_version! {
    fn a_partitioned_table_is_the_sum_of_its_partitions(version) {
        let server = servers::start(version, &[]);
        server.psql(TABLES);
        let by = |by: &str| server.pgthaw(&["map", "--json", "--by", by]).ok().json();
        let (table, partition, each) = (by("table"), by("partition"), by("relation"));
        assert_eq!((&table["by"], &partition["by"], &each["by"]), (&"table".into(), &"partition".into(), &"relation".into()));
        let orders = relation(&table, "orders");
        assert_eq!((&orders["kind"], &orders["partitions"]), (&"partitioned_table".into(), &3.into()));
        let members: Vec<&str> = orders["members"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        // Three partitions, each with an index, and a TOAST table with its index.
        assert_eq!(members.len(), 12, "{members:?}");
        let sum_of = |field: &str, members: &[&str]| -> u64 {
            let is_member = |row: &&Value| members.contains(&&*format!("{}.{}", row["schema"].as_str().unwrap(), row["name"].as_str().unwrap()));
            rows(&each).into_iter().filter(is_member).map(|row| blocks(row, field)).sum()
        };
        for field in ["blocks", "buffers_blocks", "bytes"] {
            assert_eq!(blocks(orders, field), sum_of(field, &members), "{field}");
        }
        let bytes: u64 = server.psql(
            "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('sales.orders') WHERE isleaf"
        ).parse().unwrap();
        assert_eq!(blocks(orders, "bytes"), bytes);
        for (name, regclass) in [("elsewhere", "elsewhere"), ("orders_old_1", "sales.orders_old_1"), ("t", "t")] {
            let size: u64 = server.psql(&format!("SELECT pg_total_relation_size('{regclass}')")).parse().unwrap();
            assert_eq!(blocks(relation(&partition, name), "bytes"), size, "{name}");
        }
        assert_eq!(relation(&each, "orders_old_1")["parent"], "sales.orders_old");
        for totals in [&partition["totals"], &each["totals"]] {
            assert_eq!(totals["blocks"], table["totals"]["blocks"]);
        }

        let text = server.pgthaw(&["map"]).ok().stdout;
        assert!(text.contains("sales.orders (3 partitions)") && text.contains("table +9"), "{text}");
        assert!(!text.contains("orders_new") && !text.contains("t_pkey"), "{text}");
        // Without --by programs get what they always got.
        let plain = server.pgthaw(&["map", "--json"]).ok().json();
        assert_eq!((&plain["by"], names(&plain)), (&"relation".into(), names(&each)));
    }
}

test_every_version! {
    fn names_and_patterns_are_those_of_psql(version) {
        let server = servers::start(version, &[]);
        server.psql(TABLES);
        // What has a schema in it does not depend on the search path. psql lists partitioned tables too.
        let patterns = [
            "sal*.*", "sales.orders", "SALES.Orders_NEW", "sales.orders_???", "*.t", "public.*", "sales.*_[0-9]",
            "\"sc.hema\".\"ta.ble\"", "*.\"Odd Name\"", "s*.\"ta.ble\"", "public.(t|sales2)", "postgres.sales.orders_new",
        ];
        for pattern in patterns {
            // -A -t prints schema|name|type|owner.
            let listed = server.psql(&format!("\\dt {pattern}"));
            let partitioned = |line: &&str| !line.contains("|partitioned table|");
            let expected: BTreeSet<String> = listed.lines().filter(partitioned).map(|line| {
                let mut fields = line.split('|');
                format!("{}.{}", fields.next().unwrap(), fields.next().unwrap())
            }).collect();
            let found = tables(&server, &["-r", pattern]);
            // A partitioned table that is meant brings its partitions.
            let brought: BTreeSet<String> = match listed.contains("|partitioned table|") {
                true => ["sales.orders_new", "sales.orders_old_1", "public.elsewhere"].map(str::to_owned).into(),
                false => BTreeSet::new(),
            };
            assert_eq!(found, expected.union(&brought).cloned().collect(), "{pattern}: {listed}");
        }
        let own = |arguments: &[&str]| tables(&server, arguments);
        assert_eq!(own(&["-r", "Odd Name"]), own(&["-r", "\"Odd Name\""]));
        assert_eq!(own(&["-n", "sal*"]), ["sales.orders_new", "sales.orders_old_1"].map(str::to_owned).into());
        assert_eq!(own(&["-r", "orders_old"]), ["public.elsewhere", "sales.orders_old_1"].map(str::to_owned).into());
        let error = server.pgthaw(&["map", "-r", "sales.ordrs"]).ends_with(2).stderr;
        assert!(error.contains("relation \"sales.ordrs\" does not exist") && error.contains("sales.orders"), "{error}");
    }
}

#[test]
fn a_snapshot_knows_what_its_partitions_are_parts_of() {
    let server = servers::start_any(&[]);
    server.psql(TABLES);
    server.pgthaw(&["snapshot", "take"]).ok();
    let text = server.pgthaw(&["snapshot", "show"]).ok().stdout;
    assert!(text.contains("sales.orders (3 partitions)"), "{text}");
    let shown = server.pgthaw(&["snapshot", "show", "--json", "-r", "sales.orders", "--by", "table"]).ok().json();
    assert_eq!(names(&shown), ["sales.orders".to_owned()].into());
    // restore takes the same names: all of the partitioned table, and nothing else.
    let receipt = server.pgthaw(&["restore", "--dry-run", "--json", "-r", "sales.orders"]).ok().json();
    let skipped = receipt.to_string();
    assert!(!skipped.contains("\"t_pkey\"") && !skipped.contains("Odd Name"), "{receipt:#}");
    server.pgthaw(&["restore", "--dry-run", "-r", "sales.order"]).ends_with(2);
    let diff = server.pgthaw(&["snapshot", "diff", "newest", "--json", "-r", "sales.orders"]).ok().json();
    assert_eq!(diff["relations"].as_array().unwrap().len(), 12, "{diff:#}");
}

/// Empty: a table with an index and TOAST, a partition of three; and a table that has nothing in its TOAST.
const EMPTY: &str = "
    CREATE EXTENSION pg_buffercache;
    CREATE TABLE customers (id int PRIMARY KEY, body text);
    CREATE TABLE filled AS SELECT 1 AS id, 'x'::text AS body;
    CREATE TABLE parts (id int PRIMARY KEY, body text) PARTITION BY LIST (id);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
    CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
    CREATE TABLE parts_3 PARTITION OF parts FOR VALUES IN (3);
    INSERT INTO parts SELECT i, 'x' FROM generate_series(1, 3) AS i;
    TRUNCATE parts_2;
    CHECKPOINT;
";

#[test]
fn what_belongs_to_an_empty_table_is_summed_and_found_with_it() {
    let server = servers::start_any(&[]);
    server.psql(EMPTY);
    let text = server.pgthaw(&["map"]).ok().stdout;
    assert!(!text.contains("pg_toast") && !text.contains("_pkey"), "{text}");
    assert!(text.contains("parts (3 partitions)") && text.contains("table +2"), "{text}");
    let each = server.pgthaw(&["map", "--json"]).ok().json();
    assert!(!names(&each).contains("public.customers"), "an empty relation is no row: {each:#}");
    let total = |relation: &str| -> u64 {
        server.psql(&format!("SELECT pg_total_relation_size('{relation}')")).parse().unwrap()
    };
    server.pgthaw(&["snapshot", "take"]).ok();
    for command in [&["map"][..], &["snapshot", "show"]] {
        let ask = |arguments: &[&str]| server.pgthaw(&[command, &["--json"], arguments].concat()).ok().json();
        for table in ["customers", "filled", "parts_1", "parts_2"] {
            let meant = ask(&["-r", table]);
            assert_eq!(blocks(&meant["totals"], "bytes"), total(table), "{command:?} {table}: {meant:#}");
        }
        let tables = ask(&["--by", "table"]);
        let expected = ["customers", "filled", "parts"].map(|name| format!("public.{name}"));
        let own: BTreeSet<String> = names(&tables).into_iter().filter(|name| name.starts_with("public.")).collect();
        assert_eq!(own, expected.into());
        assert_eq!(relation(&tables, "parts")["partitions"], 3);
        assert_eq!(blocks(relation(&ask(&["--by", "partition"]), "parts_2"), "bytes"), total("parts_2"));
    }
}

#[test]
fn a_stopped_servers_map_says_what_stands_there_without_a_name() {
    let mut server = servers::start_any(&[]);
    server.psql(EMPTY);
    server.pgthaw(&["snapshot", "take"]).ok();
    for later in ["SELECT 1", "CREATE TABLE later AS SELECT 1 AS i; CREATE TABLE latest AS SELECT 1 AS i; CHECKPOINT"] {
        server.psql(later);
        server.cluster.stop(StopMode::Fast).unwrap();
        let map = server.home.pgthaw(&["map", "--json", "-D", server.data_directory().to_str().unwrap()]).ok().json();
        server.cluster.start().unwrap();
        // Those of template0 have no name: nobody can connect to it.
        let (unnamed, named): (Vec<&Value>, Vec<&Value>) =
            rows(&map).into_iter().partition(|row| row["kind"] == "unknown");
        let remarks = map["remarks"].to_string();
        // What has no block is no row, and is not spoken of either.
        let known = format!("which has {} of {} relations", named.len(), map["relation_count"]);
        assert!(remarks.contains(&known), "{known}: {remarks}");
        let bytes = Bytes(unnamed.iter().map(|row| blocks(row, "bytes")).sum());
        let rest = format!("; the other {} ({bytes}) appear under their file names", unnamed.len());
        assert!(remarks.contains(&rest), "{rest}: {remarks}");
    }
}
