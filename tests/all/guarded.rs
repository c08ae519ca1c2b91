//! A job runs, with its own end, whatever becomes of pgthaw.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::servers::{self, Output, TestServer, below, wait_until};

/// Leaves a mark, which it cannot do twice, and ends with 7.
const JOB: &str = "mkdir ran && exit 7";

/// The same in one process.
const FORKLESS_JOB: &str = "set -C; exec > ran; exit 7";

/// What the tests of one kind of run have.
const USUAL: &[&str] = &["--protect", "--like", "x"];

/// Every other kind of run.
const OTHER_KINDS: [&[&str]; 6] = [
    &[],
    &["--protect"],
    &["--protect=isolate"],
    &["--like", "x"],
    &["--protect=isolate", "--like", "x"],
    &["--record-only", "--like", "x"],
];

/// Limits that pgthaw itself comes up against.
const LIMITS: [&str; 7] =
    ["--as=300000000", "--data=3000000", "--fsize=4096", "--nofile=4", "--nofile=8", "--nofile=20", "--stack=65536"];

/// Nobody's number: no process counts against its limits but those of a test.
const UNUSED_USER: u32 = 54_321;

/// Runs the job as `prefix` has it; it has to run once, and to end as it ends.
fn run_by(server: &TestServer, prefix: &[&str], variables: &[(&str, &str)]) -> Output {
    run_kind(server, USUAL, prefix, variables)
}

fn run_kind(server: &TestServer, kind: &[&str], prefix: &[&str], variables: &[(&str, &str)]) -> Output {
    let run = server.command(&[&["run"], kind, &["--", "sh", "-c", JOB]].concat());
    check_job(server, &run, prefix, variables)
}

/// Without a recording there need be no job where only that was wanted.
fn check_job(server: &TestServer, run: &Command, prefix: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(prefix.first().map_or(run.get_program(), |first| first.as_ref()));
    command.args(prefix.iter().skip(1));
    if !prefix.is_empty() {
        command.arg(run.get_program());
    }
    command.args(run.get_args()).current_dir(server.home()).stdin(Stdio::null());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?)))).envs(variables.iter().copied());
    let mark = server.home().join("ran");
    let _ = fs::remove_dir(&mark).or_else(|_| fs::remove_file(&mark));
    let output = servers::output_of(&mut command);
    let ended = (output.status, mark.exists());
    let may_refuse = run.get_args().any(|word| word == "--record-only");
    let is_refused = matches!(ended, (1 | 3, false)) && output.stderr.contains("pgthaw: ");
    assert!(ended == (7, true) || may_refuse && is_refused, "{ended:?}: {command:?}: {}", output.stderr);
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
        "--rttime=1",
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
fn a_job_of_every_kind_of_run_runs_under_a_limit() {
    let server = servers::start_any(&[]);
    for kind in OTHER_KINDS {
        for limit in LIMITS {
            run_kind(&server, kind, &["prlimit", limit], &[]);
        }
        // What the limit ended early is undone, too.
        assert_eq!(run_kind(&server, kind, &[], &[]).status, 7, "{kind:?}");
    }
}

#[test]
fn a_job_of_an_ordinary_user_runs_under_the_limits_that_root_does_not_have() {
    needs_root!();
    let server = servers::start_any(&[]);
    let owner = fs::metadata(server.data_directory()).unwrap();
    for (user, group, limits) in [
        (owner.uid(), owner.gid(), &["--nproc=1", "--memlock=0", "--nice=0", "--rtprio=0", "--sigpending=0"][..]),
        // Threads count: the first process, the one that works, its threads, and the job.
        (UNUSED_USER, UNUSED_USER, &["--nproc=2", "--nproc=3", "--nproc=6"]),
    ] {
        let (uid, gid) = (format!("--reuid={user}"), format!("--regid={group}"));
        let state = server.home().join(format!("state-{user}"));
        for kind in OTHER_KINDS.into_iter().chain([USUAL]) {
            let run = server.command_for_others(&[&["run"], kind, &["--", "sh", "-c", FORKLESS_JOB]].concat());
            for limit in limits {
                // The other way round the user's other processes could keep pgthaw from being executed.
                let prefix = ["setpriv", &uid, &gid, "--clear-groups", "prlimit", limit];
                check_job(&server, &run, &prefix, &[("XDG_STATE_HOME", state.to_str().unwrap())]);
            }
        }
    }
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
    for kind in OTHER_KINDS {
        run_kind(&server, kind, &["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"], &[]);
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
        assert_eq!(told.contains("the job runs without the settings file"), is_told, "{told}");
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
