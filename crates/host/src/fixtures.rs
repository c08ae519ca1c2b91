//! Skips tests that cannot run here. Fails them instead if they are required.

use std::fmt::Display;

/// Environment variable. With `root`, tests that `scripts/setup --for test` prepares may not be skipped.
const REQUIRE: &str = "PGTHAW_TEST_REQUIRE";

/// Prints why a test is skipped, and returns from the test with the default value. A reason marked `machine` never
/// fails the test.
#[macro_export]
macro_rules! untested {
    (machine: $($why:tt)+) => {{
        $crate::fixtures::say(&format_args!($($why)+));
        return Default::default();
    }};
    ($($why:tt)+) => {{
        $crate::fixtures::require(&format_args!($($why)+));
        return Default::default();
    }};
}

#[macro_export]
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            $crate::untested!("it takes root");
        }
    };
}

#[allow(clippy::print_stderr)]
pub fn say(why: &dyn Display) {
    eprintln!("not tested here: {why}");
}

pub fn require(why: &dyn Display) {
    assert!(
        std::env::var_os(REQUIRE).is_none_or(|required| required != "root"),
        "this test was skipped, although {REQUIRE}=root requires it: {why}"
    );
    say(why);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::REQUIRE;

    const LEAVES: &str = "PGTHAW_TEST_LEAVES";

    #[test]
    fn what_is_lacking_is_said_and_fails_where_it_is_required() {
        match std::env::var(LEAVES).as_deref() {
            Ok("machine") => untested!(machine: "there is no {}", "moon"),
            Ok(_) => untested!("there is no {}", "moon"),
            Err(_) => {}
        }
        let (_, path) = module_path!().split_once("::").unwrap();
        let name = format!("{path}::what_is_lacking_is_said_and_fails_where_it_is_required");
        let run = |lacks: &str, required: &str| -> Output {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "--nocapture", &name]).env(LEAVES, lacks).env(REQUIRE, required);
            command.output().unwrap()
        };
        for (lacks, required, passes) in
            [("root", "", true), ("root", "root", false), ("machine", "", true), ("machine", "root", true)]
        {
            let output = run(lacks, required);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), passes, "{lacks} {required}: {said}");
            assert!(String::from_utf8_lossy(&output.stdout).contains("running 1 test"), "{name} is this test");
            let words = if passes { "not tested here: there is no moon" } else { "there is no moon" };
            assert!(said.contains(words), "{lacks} {required}: {said}");
        }
    }
}
