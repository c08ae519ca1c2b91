//! Several load generators for one trial: in network namespaces, and over ssh to an sshd of the test's own.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::bench::{Place, text};
use super::servers::{Home, Output, programs};

/// Two hosts and a server, each in a network namespace of its own, that a bridge beside the server joins. Gone on drop.
struct Network {
    server: String,
    hosts: [String; 2],
}

/// Of a network that this machine shows nobody.
const SERVER: &str = "10.213.7.1";

impl Network {
    /// `None`, with a message, where the test may not make one.
    fn new() -> Option<Network> {
        needs_root!();
        if !Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success()) {
            untested!("there is no ip (Debian: the package iproute2)");
        }
        let name = |role: &str| format!("pgthaw-{role}-{}", std::process::id());
        let network = Network { server: name("server"), hosts: [name("one"), name("two")] };
        for namespace in [&network.server, &network.hosts[0], &network.hosts[1]] {
            ip(&["netns", "add", namespace]);
        }
        let inside = |namespace: &str, words: &str| {
            ip(&["-n", namespace].into_iter().chain(words.split(' ')).collect::<Vec<_>>());
        };
        inside(&network.server, "link set lo up");
        inside(&network.server, "link add bridge0 type bridge");
        inside(&network.server, &format!("address add {SERVER}/24 dev bridge0"));
        inside(&network.server, "link set bridge0 up");
        for (number, host) in (1..).zip(&network.hosts) {
            inside(host, &format!("link add eth0 type veth peer name port{number} netns {}", network.server));
            inside(host, &format!("address add 10.213.7.{}/24 dev eth0", number + 1));
            inside(host, "link set eth0 up");
            inside(&network.server, &format!("link set port{number} master bridge0 up"));
        }
        Some(network)
    }

    /// `[generators]` that reach the hosts.
    fn study(&self) -> String {
        format!(
            "[generators]\nhosts = ['{}', '{}']\ncommand = ['ip', 'netns', 'exec', '{{host}}']\naddress = '{SERVER}'\n\
             pgbench = '{}'\n",
            self.hosts[0],
            self.hosts[1],
            programs(15).path("pgbench").unwrap().display()
        )
    }

    /// pgthaw beside the server. Only the network differs: `ip netns exec` would hide the cgroups too.
    fn sweep(&self, home: &Home, place: &Place, study: &Path, more: &[&str]) -> Command {
        let arguments = [["bench", study.to_str().unwrap()].as_slice(), more].concat();
        let pgthaw = place.command(home, 15, &arguments);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.server)).arg(pgthaw.get_program()).args(pgthaw.get_args());
        command.current_dir(home.path());
        for (name, value) in pgthaw.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// The processes of a host's namespace that have this name; of pgbench those that run a load.
    fn processes(host: &str, name: &str) -> Vec<Pid> {
        let listed = Command::new("ip").args(["netns", "pids", host]).output().unwrap();
        let pids = String::from_utf8(listed.stdout).unwrap();
        let has = |pid: &str, file: &str, text: &str| {
            fs::read_to_string(format!("/proc/{pid}/{file}")).is_ok_and(|content| content.contains(text))
        };
        let is_it = |pid: &&str| {
            has(pid, "comm", &format!("{name}\n")) && (name != "pgbench" || has(pid, "cmdline", "--log-prefix"))
        };
        pids.split_whitespace().filter(is_it).map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect()
    }

    /// Waits until nobody of anything that was run there is left.
    fn assert_quiet(&self) {
        for host in &self.hosts {
            let is_quiet = || ["pgbench", "sh", "sleep"].iter().all(|name| Network::processes(host, name).is_empty());
            let quiet = (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                is_quiet()
            });
            assert!(quiet, "something still runs on {host}");
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.hosts[0], &self.hosts[1]] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn spec(home: &Home, text: &str) -> PathBuf {
    let path = home.path().join("study.toml");
    fs::write(&path, text).unwrap();
    path
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// What several hosts did is counted as if they were one.
fn check_sums(trial: &Value, hosts: &[&str]) {
    assert_eq!(trial["failure"], Value::Null, "{trial}");
    let generators = trial["generators"]["hosts"].as_array().unwrap();
    let names: Vec<&str> = generators.iter().map(|one| text(one, "/host")).collect();
    assert_eq!(names, hosts);
    for one in generators {
        assert!(count(&one["transactions"]) > 0 && text(one, "/pgbench_version").starts_with("pgbench"), "{one}");
        // One machine has one clock.
        let (offset, uncertainty) =
            (one["clock_offset_ms"].as_f64().unwrap(), one["clock_uncertainty_ms"].as_f64().unwrap());
        assert!(offset.abs() <= uncertainty && uncertainty > 0.0, "{one}");
    }
    let spread = trial["generators"]["start_spread_ms"].as_f64().unwrap();
    assert!((0.0..1000.0).contains(&spread), "{trial}");
    let both: u64 = generators.iter().map(|one| count(&one["transactions"])).sum();
    assert_eq!(both, count(&trial["transactions"]));
    assert_eq!(count(&trial["latency"]["count"]), both);
    let scripts = trial["scripts"].as_array().unwrap();
    assert_eq!(scripts.iter().map(|script| count(&script["answered"])).sum::<u64>(), both);
    // What ended after the last whole second belongs to none.
    let by_seconds: u64 = trial["samples"].as_array().unwrap().iter().map(|one| count(&one["transactions"])).sum();
    assert!(by_seconds <= both && by_seconds > both / 2, "{by_seconds} of {both}");
    // The server counts those of its statistics' readers too, a handful.
    let committed = trial["statistics"]["pg_stat_database"][0]["added"]["xact_commit"].as_f64().unwrap() as u64;
    assert!(committed >= both && committed < both + 200, "{committed} at the server, {both} at the generators");
}

#[test]
fn two_generators_are_counted_as_one() {
    let Some(network) = Network::new() else { return };
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("it's.sql"), "SELECT abalance FROM pgbench_accounts WHERE aid = :row;\n").unwrap();
    let study = format!(
        "repeats = 1\n[points]\nclients = 3\njobs = 3\nseconds = 4\nrate = 300\nstart = 'as-is'\n\
         script = {{ \"it's.sql\" = 1, select-only = 1 }}\n[variables]\nrow = 7\n{}",
        network.study()
    );
    let path = spec(&home, &study);
    let child = network.sweep(&home, &place, &path, &["--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let pid = child.id();
    let output = Output::from(child.wait_with_output().unwrap()).ok();
    place.assert_nothing_is_left(pid);
    network.assert_quiet();
    let printed = output.json();
    let trial = &printed["trials"][0];
    check_sums(trial, &[&network.hosts[0], &network.hosts[1]]);
    let generators = &trial["generators"]["hosts"];
    assert_eq!((&generators[0]["clients"], &generators[1]["clients"]), (&json!(2), &json!(1)));
    // The processes are this machine's, so what their threads did is known.
    assert!(generators[0]["is_seen"] == true && generators[1]["is_seen"] == true, "{generators}");
    let seconds = trial["os_samples"].as_array().unwrap();
    assert_eq!(seconds[2]["generator_threads"].as_array().unwrap().len(), 3, "{seconds:?}");
    // The rate is that of both together: 300 a second, but for chance.
    let rate = trial["transactions"].as_f64().unwrap() / 4.0;
    assert!((240.0..360.0).contains(&rate), "{rate}");
    assert!(trial["scripts"][0]["service"]["count"].as_u64().unwrap() > 0, "{}", trial["scripts"]);
    assert!(text(trial, "/command").contains(&network.hosts[1]) && !text(trial, "/command").contains("PGPASSWORD"));
    let kept = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert!(kept == printed, "what was kept differs from what was printed");
}

/// Starts a sweep that would take minutes, and waits until both hosts run pgbench.
fn start_long(network: &Network, home: &Home, place: &Place) -> Child {
    let study = format!(
        "repeats = 1\n[points]\nclients = 2\njobs = 2\nseconds = 120\nrate = 100\nstart = 'as-is'\n{}",
        network.study()
    );
    let mut child = network
        .sweep(home, place, &spec(home, &study), &["--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_running = || network.hosts.iter().all(|host| !Network::processes(host, "pgbench").is_empty());
    while !is_running() {
        assert!(child.try_wait().unwrap().is_none(), "it ended: {:?}", Output::from(child.wait_with_output().unwrap()));
        std::thread::sleep(Duration::from_millis(50));
    }
    child
}

#[test]
fn a_generator_that_is_killed_fails_the_trial_by_name_and_the_other_stops() {
    let Some(network) = Network::new() else { return };
    let (home, place) = (Home::new(), Place::new());
    let child = start_long(&network, &home, &place);
    for pgbench in Network::processes(&network.hosts[1], "pgbench") {
        kill_process(pgbench, Signal::KILL).unwrap();
    }
    let printed = Output::from(child.wait_with_output().unwrap()).ends_with(1).json();
    let failure = text(&printed, "/trials/0/failure");
    assert!(failure.contains(&network.hosts[1]) && failure.contains("signal 9"), "{failure}");
    assert!(!failure.contains(&network.hosts[0]), "{failure}");
    network.assert_quiet();
    assert!(fs::read_dir(place.0.path()).unwrap().next().is_none(), "something is left");
}

#[test]
fn nothing_runs_on_hosts_whose_sweep_is_gone() {
    let Some(network) = Network::new() else { return };
    for signal in [Signal::INT, Signal::KILL] {
        let (home, place) = (Home::new(), Place::new());
        let mut child = start_long(&network, &home, &place);
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        network.assert_quiet();
        let is_script = |name: &str| name.starts_with("pgthaw-") && name.len() == "pgthaw-XXXXXXXX".len();
        let left = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| is_script(&name.to_string_lossy())).collect();
        assert!(left.is_empty(), "{signal:?}: {left:?}");
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_named_before_anything_is_made() {
    let (home, place) = (Home::new(), Place::new());
    let study = "[generators]\nhosts = ['one', 'two']\ncommand = ['sh', '-c', 'echo \"$0: no route\" >&2; exit 9', '{host}']\n\
                 address = '127.0.0.1'\n";
    let path = spec(&home, study);
    let mut command = place.command(&home, 15, &["bench", path.to_str().unwrap()]);
    let output = Output::from(command.output().unwrap()).ends_with(1);
    assert!(
        output.stderr.contains("pgbench on one failed") && output.stderr.contains("one: no route"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("generators.command"), "{}", output.stderr);
}

/// An sshd of the test's own: an ordinary process on a port of this host, with keys that nobody else knows. Gone on drop.
struct Sshd {
    directory: tempfile::TempDir,
    process: Child,
    port: u16,
    user: String,
}

/// Two addresses of one machine are two hosts.
const ADDRESSES: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

impl Sshd {
    /// `None`, with a message, where there is none.
    fn start() -> Option<Sshd> {
        let Some(program) = find_sshd() else {
            untested!("there is no sshd (scripts/setup --for test gets one)");
        };
        // As root it would need a user of its own.
        let user = if rustix::process::geteuid().is_root() { "postgres".to_owned() } else { output("id", &["-un"]) };
        if output("getent", &["passwd", &user]).is_empty() {
            untested!("there is no user {user}");
        }
        let directory = tempfile::Builder::new().prefix("pgthaw-sshd-").tempdir_in("/var/tmp").unwrap();
        let path = |name: &str| directory.path().join(name);
        let program = within_reach(program, directory.path());
        for name in ["host", "user"] {
            output("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", path(name).to_str().unwrap()]);
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let key = fs::read_to_string(path("host.pub")).unwrap();
        let known: String = ADDRESSES.map(|address| format!("[{address}]:{port} {key}")).concat();
        fs::write(path("known"), known).unwrap();
        fs::create_dir(path("temporary")).unwrap();
        fs::write(path("config"), configuration(&program, directory.path(), port)).unwrap();
        fs::write(path("log"), "").unwrap();
        let mut command = Command::new("setpriv");
        if rustix::process::geteuid().is_root() {
            output("chown", &["-R", &user, directory.path().to_str().unwrap()]);
            command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
        }
        command.arg(&program).args(["-D", "-f"]).arg(path("config")).arg("-E").arg(path("log"));
        let libraries: Vec<String> =
            library_directories(&program).iter().map(|one| one.display().to_string()).collect();
        let process = command.env("LD_LIBRARY_PATH", libraries.join(":")).stdin(Stdio::null()).spawn().unwrap();
        let mut sshd = Sshd { directory, process, port, user };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = || fs::read_to_string(sshd.directory.path().join("log")).unwrap();
            assert!(sshd.process.try_wait().unwrap().is_none(), "sshd ended: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(sshd)
    }

    fn hosts(&self) -> [String; 2] {
        ADDRESSES.map(|address| format!("{}@{address}", self.user))
    }

    /// `[generators]` that reach the hosts.
    fn study(&self) -> String {
        let (hosts, place) = (self.hosts(), self.directory.path().display());
        format!(
            "[generators]\nhosts = ['{}', '{}']\naddress = '127.0.0.1'\n\
             command = ['ssh', '-T', '-F', 'none', '-o', 'BatchMode=yes', '-o', 'UserKnownHostsFile={place}/known',\
             '-o', 'IdentitiesOnly=yes', '-i', '{place}/user', '-p', '{}', '{{host}}']\n",
            hosts[0], hosts[1], self.port
        )
    }

    /// What the hosts keep while a trial runs.
    fn kept(&self) -> usize {
        fs::read_dir(self.directory.path().join("temporary")).unwrap().count()
    }

    /// The pgbenches that were started over it.
    fn generators(&self) -> Vec<PathBuf> {
        let mark = format!("TMPDIR={}", self.directory.path().display());
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let has = |path: &PathBuf, file: &str, text: &str| {
            fs::read(path.join(file)).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
        };
        processes.filter(|process| has(process, "cmdline", "--log-prefix") && has(process, "environ", &mark)).collect()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Debian's, or the one that `scripts/setup` has got without installing it.
fn find_sshd() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    let own = cache.join("pgthaw/tools/sshd/usr/sbin/sshd");
    let found = [PathBuf::from("/usr/sbin/sshd"), own].into_iter().find(|path| path.exists());
    found.filter(|_| Command::new("ssh").arg("-V").output().is_ok())
}

/// The user may be unable to reach the checkout.
fn within_reach(program: PathBuf, directory: &Path) -> PathBuf {
    if program.starts_with("/usr") {
        return program;
    }
    let root = program.ancestors().nth(3).unwrap();
    output("cp", &["-r", root.to_str().unwrap(), directory.join("sshd").to_str().unwrap()]);
    directory.join("sshd").join(program.strip_prefix(root).unwrap())
}

/// Where the libraries of a program are that was not installed.
fn library_directories(program: &Path) -> Vec<PathBuf> {
    let parent = program.ancestors().nth(2).unwrap().join("lib");
    let entries = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_string_lossy().ends_with("-linux-gnu")).collect()
}

fn configuration(program: &Path, directory: &Path, port: u16) -> String {
    let place = directory.display();
    let listen = ADDRESSES.map(|address| format!("ListenAddress {address}:{port}\n")).concat();
    // Newer ones are in several programs.
    let parts = program.ancestors().nth(2).unwrap().join("lib/openssh");
    let parts = [("SshdSessionPath", "sshd-session"), ("SshdAuthPath", "sshd-auth")]
        .map(|(option, name)| (option, parts.join(name)))
        .into_iter()
        .filter(|(_, path)| path.exists())
        .map(|(option, path)| format!("{option} {}\n", path.display()));
    format!(
        "{listen}{}HostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\nPidFile none\nStrictModes no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nSetEnv TMPDIR={place}/temporary\n",
        parts.collect::<String>()
    )
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn hosts_are_reached_by_ssh() {
    let Some(sshd) = Sshd::start() else { return };
    let (home, place) = (Home::new(), Place::new());
    let study = |seconds: u32| {
        format!("repeats = 1\n[points]\nclients = 2\njobs = 2\nseconds = {seconds}\nstart = 'as-is'\n{}", sshd.study())
    };
    let run = |seconds: u32| {
        let path = spec(&home, &study(seconds));
        let mut command = place.command(&home, 15, &["bench", path.to_str().unwrap(), "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let printed = Output::from(run(3).wait_with_output().unwrap()).ok().json();
    let hosts = sshd.hosts();
    check_sums(&printed["trials"][0], &[&hosts[0], &hosts[1]]);
    assert!(sshd.kept() == 0 && sshd.generators().is_empty());

    // What is killed cannot say goodbye.
    let mut child = run(120);
    while sshd.generators().len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended: {:?}", Output::from(child.wait_with_output().unwrap()));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(sshd.kept(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let is_quiet = || sshd.kept() == 0 && sshd.generators().is_empty();
    let quiet = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        is_quiet()
    });
    assert!(quiet, "{:?}", sshd.generators());
}
