//! A job runs, with its own end, whatever becomes of pgthaw.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::servers::{self, Output, TestServer, below, wait_until};

/// Leaves a mark, which it cannot do twice, and ends with 7.
const JOB: &str = "mkdir ran && exit 7";

/// Runs the job as `prefix` has it; it has to run once, and to end as it ends.
fn run_by(server: &TestServer, prefix: &[&str], variables: &[(&str, &str)]) -> Output {
    let run = server.command(&["run", "--protect", "--like", "x", "--", "sh", "-c", JOB]);
    let mut command = Command::new(prefix.first().map_or(run.get_program(), |first| first.as_ref()));
    command.args(prefix.iter().skip(1));
    if !prefix.is_empty() {
        command.arg(run.get_program());
    }
    command.args(run.get_args()).current_dir(server.home()).stdin(Stdio::null());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?)))).envs(variables.iter().copied());
    let mark = server.home().join("ran");
    let _ = fs::remove_dir(&mark);
    let output = servers::output_of(&mut command);
    assert_eq!((output.status, mark.exists()), (7, true), "{prefix:?} {variables:?}: {}", output.stderr);
    output
}

#[test]
fn a_job_runs_under_every_limit() {
    let server = servers::start_any(&[]);
    // Alone it is helped.
    assert!(!run_by(&server, &[], &[]).stderr.contains("early"));
    for limit in [
        "--as=300000000",
        "--core=0",
        "--cpu=1",
        "--data=3000000",
        "--fsize=4096",
        "--locks=0",
        "--memlock=0",
        "--msgqueue=0",
        "--nice=0",
        "--nofile=4",
        "--nofile=8",
        "--nofile=20",
        "--nproc=1",
        "--rss=0",
        "--rtprio=0",
        "--sigpending=0",
        "--stack=65536",
        "--stack=300000",
    ] {
        run_by(&server, &["prlimit", limit], &[]);
    }
    for variable in [
        ("RUST_MIN_STACK", "1"),
        ("RUST_MIN_STACK", "99999999999999"),
        ("TMPDIR", "/nonexistent"),
        ("HOME", "/nonexistent"),
    ] {
        run_by(&server, &[], &[variable]);
    }
    let told = run_by(&server, &["prlimit", "--nofile=4"], &[]).stderr;
    assert!(told.contains("Too many open files") && told.contains("the job runs without pgthaw"), "{told}");
    let told = run_by(&server, &["prlimit", "--stack=65536"], &[]).stderr;
    assert!(told.contains("(signal: 6") && told.contains("the job runs without pgthaw"), "{told}");
}

#[test]
fn a_job_runs_without_any_capability() {
    needs_root!();
    let server = servers::start_any(&[]);
    let one_by_one = [
        "bpf",
        "dac_override",
        "dac_read_search",
        "kill",
        "perfmon",
        "setuid",
        "setgid",
        "sys_admin",
        "sys_ptrace",
        "sys_resource",
    ];
    for without in one_by_one.map(|name| format!("-{name}")).iter().map(String::as_str).chain(["-all"]) {
        run_by(&server, &["setpriv", "--bounding-set", without, "--inh-caps", without], &[]);
    }
}

#[test]
fn a_job_runs_whatever_the_settings_are_like() {
    let server = servers::start_any(&[]);
    let file = server.home().join("pgthaw.toml");
    let named = [("PGTHAW_CONFIG", file.to_str().unwrap())];
    for (text, is_told) in [
        (&b""[..], false),
        (b"[[", true),
        (b"\xff\xfe", true),
        (b"[run]\nno_such = 1\n", true),
        // An empty name, and a film that is not there, would be refused on the command line.
        (b"[run]\nlike = ''\n", true),
        (b"[run]\nfilm = 'no-such-film'\n", true),
        (b"[run]\nrecord_only = true\n", true),
        (b"[connection]\nport = 'x'\n", false),
    ] {
        fs::write(&file, text).unwrap();
        let told = run_by(&server, &[], &named).stderr;
        assert_eq!(told.contains("the job runs without these settings"), is_told, "{told}");
    }
    fs::remove_file(&file).unwrap();
    assert!(run_by(&server, &[], &named).stderr.contains("note: cannot read the settings"));
    let told = run_by(&server, &[], &[("PGTHAW_MODE", "zz")]).stderr;
    assert!(told.contains("'zz'") && told.contains("the job runs without the environment's"), "{told}");
    // The working directory is not searched: whoever can write to it could have put the file there.
    fs::write(&file, "[connection]\nhost = 'elsewhere.invalid'\n[run]\nno_such = 1\n").unwrap();
    let told = run_by(&server, &[], &[]).stderr;
    assert!(!told.contains("elsewhere") && !told.contains("no_such"), "{told}");
}

#[test]
fn a_job_that_runs_is_waited_for_when_pgthaw_ends_early() {
    let server = servers::start_any(&[]);
    for (signal, job, ends) in [
        (Signal::ABORT, "read line; exit 7", (Some(7), None)),
        (Signal::KILL, "read line; exit 0", (Some(0), None)),
        (Signal::KILL, "read line; kill -USR1 $$", (None, Some(Signal::USR1.as_raw()))),
    ] {
        let mut run = server.command(&["run", "--protect", "--", "sh", "-c", job]);
        let mut run = run.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the job", || below(run.id()).len() == 2);
        kill_process(Pid::from_raw(below(run.id())[0] as i32).unwrap(), signal).unwrap();
        wait_until("its end", || below(run.id()).len() == 1);
        drop(run.stdin.take());
        let output = run.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.status.signal()), ends, "{told}");
        assert!(told.contains("the job ran to its end"), "{told}");
    }
}

#[test]
fn who_asks_for_an_end_before_the_job_gets_none() {
    let server = servers::start_any(&[]);
    let door = servers::slow_door(&server, 1, std::time::Duration::from_secs(600));
    let mark = server.home().join("ran");
    for signal in [Signal::INT, Signal::TERM] {
        let mut run = server.command(&[
            "run",
            "--protect",
            "-h",
            door.path().to_str().unwrap(),
            "--",
            "touch",
            mark.to_str().unwrap(),
        ]);
        let mut run = run.stderr(Stdio::null()).spawn().unwrap();
        wait_until("who works", || below(run.id()).len() == 1);
        kill_process(Pid::from_raw(run.id() as i32).unwrap(), signal).unwrap();
        assert!(!run.wait().unwrap().success());
        assert!(!mark.exists(), "{signal:?}");
    }
}
