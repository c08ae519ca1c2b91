//! Others on the machine are named in every kind of study: beside real burners of all processors and a real reader of the
//! disk. What is borne, and what is told with which figures, is asserted of the pure function in crates/pgthaw-lab/src/bench/others.rs.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::bench::{Place, text};
use crate::servers::{Home, Output};
use crate::sweep;

/// Programs that take all of the processors that are left, and read from the disk past the page cache. Dropping ends them.
struct Beside(Vec<Child>);

impl Beside {
    fn start(directory: &Path) -> Beside {
        let file = directory.join("read-beside");
        std::fs::write(&file, vec![1; 64 << 20]).unwrap();
        // What is only in memory would not be read.
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
        let cores = std::thread::available_parallelism().unwrap().get();
        let read = "while :; do dd if=\"$0\" of=/dev/null bs=1M iflag=direct 2>/dev/null || exit; sleep 0.05; done";
        let mut beside = Beside(vec![start(&[read, file.to_str().unwrap()])]);
        // Other tests that run meanwhile come first.
        beside.0.extend((0..cores).map(|_| start(&["exec nice -n 19 sh -c 'while :; do :; done'"])));
        beside
    }
}

fn start(script: &[&str]) -> Child {
    let mut command = Command::new("sh");
    command.arg("-c").args(script).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().unwrap()
}

impl Drop for Beside {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let group = Pid::from_raw(child.id() as i32).unwrap();
            // Not reaped yet, so the number is still its own.
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
        }
    }
}

/// Where a tmpfs has no device nobody reads from one.
fn has_disk(machine: &Value) -> bool {
    !text(machine, "/device/major_minor").is_empty()
}

#[test]
fn a_sweep_names_others_and_does_not_blame_pgbench() {
    let (home, place, directory) = (Home::new(), Place::new(), Place::new());
    let study =
        "repeats = 1\n[points]\nclients = 1\nseconds = 3\nstart = 'cold'\n[settings]\nshared_buffers = '16MB'\n";
    let path = sweep::spec(&home, study);
    let beside = Beside::start(directory.0.path());
    let output = sweep::sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap();
    drop(beside);
    let printed = Output::from(output).ok().json();
    let verdicts = sweep::trials(&printed)[0]["verdicts"].as_array().unwrap();
    let of = |kind: &str| verdicts.iter().find(|verdict| verdict["kind"] == kind);
    let others = of("others").unwrap_or_else(|| panic!("nobody is named: {verdicts:?}"));
    assert!(others["used_processors"].as_f64().unwrap() > 0.1, "{others}");
    assert!(
        text(others, "/sentence").contains("processors") && text(others, "/remedy").contains("wait until "),
        "{others}"
    );
    if has_disk(&printed["sweep"]["machine"]) {
        assert!(others["read_bytes"].as_u64().unwrap() > 20_000_000, "{others}");
        assert!(text(others, "/sentence").contains("that the disk delivered"), "{others}");
    }
    assert!(of("generator_saturated").is_none() && of("shared_processors").is_none(), "{verdicts:?}");
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("other programs used "), "{shown}");
}

#[test]
fn warmers_beside_a_load_and_loaders_name_them_too() {
    let (home, place, directory) = (Home::new(), Place::new(), Place::new());
    let beside = Beside::start(directory.0.path());
    let run = |arguments: &[&str]| Output::from(place.command(&home, 15, arguments).output().unwrap()).ok().json();
    let small = ["scale=1", "seconds=3", "clients=2", "repeats=1", "--json"];
    let raced = run(&[["bench", "warmup", "strategy=nothing"].as_slice(), &small].concat());
    let loaded = run(&["bench", "residency", "strategy=cat", "scale=3", "repeats=1", "disk=gp3", "--json"]);
    drop(beside);
    for printed in [raced, loaded] {
        let warnings: Vec<&str> =
            printed["trials"][0]["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(
            warnings.iter().any(|one| one.contains("other programs ") && one.contains("wait until ")),
            "{warnings:?}"
        );
        assert!(!warnings.iter().any(|one| one.contains("itself is the limit")), "{warnings:?}");
    }
}
