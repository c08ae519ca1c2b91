//! `lab/outside`: a harness that shares no code with pgthaw computes its figures right, and says what is wrong with what it is asked.

use std::path::Path;
use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("lab/outside");
    Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

#[test]
fn the_outside_harness_computes_its_figures_right() {
    let ran = run("python3", &["-B", "-m", "unittest"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("\nOK"), "{said}");
}

#[test]
fn the_outside_harness_refuses_what_it_cannot_race() {
    for (arguments, told) in [
        (&["--warmers", "cat,dd"][..], "there is no dd; there are nothing, cat, pgthaw"),
        (&["--warmer", "cat"], "NAME=COMMAND"),
        (&["--warmers", "nothing", "--case", "b"], "no warmer is left"),
        (&["--seconds", "2"], "four seconds"),
    ] {
        let ran = run("./run", arguments);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains(told), "{arguments:?}: {said}");
    }
}
