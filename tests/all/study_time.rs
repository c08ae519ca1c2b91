//! Where the time of the servers of a study went: what a trial keeps of it, and what is told by number of users.

use serde_json::Value;

use super::bench::Place;
use super::servers::{Home, Output};
use super::stalls::assert_switches_were_counted;
use super::sweep::{spec, sweep, trials};

const KINDS: [&str; 9] = ["running", "ready", "lwlock", "lock", "io", "other", "no_event", "unknown", "client"];

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_default()
}

/// The kinds add up to what client backends lived, in a trial and in each of its seconds.
fn assert_closed(time: &Value) {
    let sum: f64 = KINDS.iter().map(|kind| number(time, &format!("{kind}_seconds"))).sum();
    let lived = number(time, "lived_seconds");
    assert!(lived > 0.0 && (sum / lived - 1.0).abs() < 0.01, "{sum} of {lived}: {time}");
}

#[test]
fn a_trial_accounts_for_the_time_of_its_server() {
    let (home, place) = (Home::new(), Place::new());
    let study = "repeats = 1\ntime = true\n[points]\nclients = [1, 2]\nseconds = 4\nrate = 100\nscript = 'tpcb-like'\n";
    let path = spec(&home, study);
    let printed = Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap()).ok();
    let printed = printed.json();
    for trial in trials(&printed) {
        let time = &trial["time"];
        assert_closed(time);
        let named = time["statistics"].as_array().unwrap();
        assert!(named.iter().any(|one| one["name"] == "client backend::Client::ClientRead"), "{time}");
        // It was opened while the trial was prepared, and has at least the last second of it.
        let seconds: Vec<&Value> = trial["os_samples"].as_array().unwrap().iter().collect();
        let accounted: Vec<&&Value> = seconds.iter().filter(|second| second["time"].is_object()).collect();
        assert!(!accounted.is_empty(), "{trial}");
        for second in accounted {
            assert_closed(&second["time"]);
            assert!(number(&second["waited"], "Client::ClientRead") > 0.0, "{second}");
        }
        match time["source"].as_str() {
            Some("bpf") => {
                for bound in ["explained_ratio_min", "explained_ratio", "explained_ratio_max"] {
                    assert!((0.98..=1.02).contains(&number(time, bound)), "{bound}: {time}");
                }
                // Seven commands in a transaction; each tells what it does, and what it did.
                let (commands, handled) = (number(time, "commands"), number(time, "handled"));
                assert!(handled > 0.0 && handled <= commands + 2.0, "{handled} of {commands}");
                assert!(number(time, "handled_seconds") <= number(time, "lived_seconds"), "{time}");
                assert!(number(time, "activity_reports") > commands, "{time}");
                assert_switches_were_counted(&time["programs"]);
            }
            // With fewer rights it says why it is no better one.
            Some(_) => assert!(!time["refused"].as_array().unwrap().is_empty(), "{time}"),
            None => panic!("{time}"),
        }
    }
    let told = home.pgthaw(&["results", "show", "--time"]).ok().stdout;
    for part in ["USERS", "UPDATES", "HANDLED", "LWLOCK", "PER MINUTE", "check: the server used at most"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = home.pgthaw(&["results", "show", "--time", "--json"]).ok().json();
    let points = told["points"].as_array().unwrap();
    assert_eq!(points.iter().map(|one| one["clients"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for point in points {
        assert_closed(point);
        let explained = number(point, "explained_seconds") / number(point, "length_seconds");
        // Clients come a little after the start, and go at its end.
        assert!((0.8..=1.05).contains(&explained), "{point}");
    }
}

#[test]
fn a_study_may_leave_the_account_out() {
    let (home, place) = (Home::new(), Place::new());
    let path = spec(&home, "repeats = 1\ntime = false\n[points]\nseconds = 1\nrate = 100\n");
    let printed = Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap()).ok();
    let printed = printed.json();
    assert_eq!(printed["sweep"]["study"]["time"], false);
    let trial = &trials(&printed)[0];
    assert!(trial["time"].is_null() && trial["os_samples"][0]["time"].is_null(), "{trial}");
    let told = home.pgthaw(&["results", "show", "--time"]).ok().stdout;
    assert!(told.contains("not measure where its servers' time went"), "{told}");
}
