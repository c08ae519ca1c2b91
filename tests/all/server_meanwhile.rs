//! `pgthaw run --protect`: what the server is said to have done meanwhile.

use crate::films::{psql, receipt};
use crate::servers;

test_every_version! {
    fn transactions_of_pgthaw_itself_are_not_what_the_server_did(version) {
        let server = servers::start(version, &[]);
        let job = ["--", "sleep", "4"];
        let arguments = [&["run", "--protect", "--json"], &job[..]].concat();
        let named = [&["run", "--protect", "--application-name", "nightly", "--json"], &job[..]].concat();
        for arguments in [arguments, named] {
            let seen = receipt(&server.pgthaw(&arguments).ok())["others"].clone();
            let during = seen["during_tps"].as_f64().unwrap();
            // There are twenty looks a second for sessions by their name. What connecting for them takes is counted.
            assert!(seen["before_tps"].is_null() && during < 10.0, "{arguments:?}: {seen}");
        }
        // What the job alone did is nobody else's.
        let told = server.pgthaw(&["run", "--protect", "--", &psql(&server), "-XAtqc", "SELECT pg_sleep(4)"]).ok().stderr;
        assert!(!told.contains("the server did"), "{told}");
    }
}
