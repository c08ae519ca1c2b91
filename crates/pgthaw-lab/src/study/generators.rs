use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml::Value;

/// pgthaw starts a local process, such as ssh, per host.
const HOSTS_MAX: usize = 64;

const HOST: &str = "{host}";

/// ssh without password prompt and terminal. ServerAliveInterval detects a lost host.
const COMMAND: [&str; 6] = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5"];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Generators {
    pub hosts: Vec<String>,
    /// `{host}` in the arguments stands for the host; pgthaw appends `sh`.
    command: Vec<String>,
    /// Address at which the hosts reach this machine.
    pub address: String,
    /// Path of pgbench by host; other hosts have pgbench in PATH.
    pgbench: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawGenerators {
    hosts: Vec<String>,
    command: Option<Vec<String>>,
    address: String,
    pgbench: Option<Value>,
}

pub fn read_generators(raw: RawGenerators) -> Result<Generators, String> {
    let RawGenerators { hosts, command, address, pgbench } = raw;
    if hosts.is_empty() || hosts.len() > HOSTS_MAX {
        return Err(format!("generators.hosts: there are {} hosts; write 1 to {HOSTS_MAX}", hosts.len()));
    }
    let mut known = BTreeSet::new();
    for host in &hosts {
        // ssh would parse a dash as an option.
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.:@%[]".contains(c);
        if !host.chars().all(is_word) || !host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '[')
        {
            return Err(format!(
                "generators.hosts: {host:?} is not a host; write a name such as \"bench1\" or \"user@bench2\""
            ));
        }
        if !known.insert(host) {
            return Err(format!("generators.hosts: {host} occurs twice"));
        }
    }
    let command = command.unwrap_or_else(|| COMMAND.into_iter().chain([HOST]).map(str::to_owned).collect());
    if !command.iter().skip(1).any(|word| word.contains(HOST)) || command.iter().any(|word| word.contains('\0')) {
        return Err(format!(
            "generators.command: {command:?} does not contain {HOST}; write a program and its arguments, with {HOST} among them, such as [\"ip\", \"netns\", \"exec\", \"{HOST}\"]"
        ));
    }
    let is_address = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
    if address.is_empty() || address.starts_with('-') || !address.chars().all(is_address) {
        return Err(format!(
            "generators.address: {address:?} is not an address; write the address at which the hosts reach this machine"
        ));
    }
    let pgbench = read_programs(pgbench.as_ref(), &hosts)?;
    Ok(Generators { hosts, command, address, pgbench })
}

fn read_programs(value: Option<&Value>, hosts: &[String]) -> Result<BTreeMap<String, String>, String> {
    let wrong = |value: &Value| {
        format!(
            "generators.pgbench: {value} is not a program; write the path of pgbench, or a table with a path for each host, such as {{ bench1 = \"/opt/18/bin/pgbench\" }}"
        )
    };
    let is_program = |program: &str| !program.is_empty() && !program.starts_with('-') && !program.contains('\0');
    match value {
        None => Ok(BTreeMap::new()),
        Some(Value::String(program)) if is_program(program) => {
            Ok(hosts.iter().map(|host| (host.clone(), program.clone())).collect())
        }
        Some(Value::Table(programs)) => {
            let of_host = |(host, program): (&String, &Value)| {
                if !hosts.contains(host) {
                    return Err(format!("generators.pgbench.{host}: generators.hosts has only {}", hosts.join(", ")));
                }
                let program = program.as_str().filter(|program| is_program(program)).ok_or_else(|| wrong(program))?;
                Ok((host.clone(), program.to_owned()))
            };
            programs.iter().map(of_host).collect()
        }
        Some(other) => Err(wrong(other)),
    }
}

impl Generators {
    pub fn command(&self, host: &str) -> Vec<String> {
        let words = self.command.iter().map(|word| word.replace(HOST, host));
        words.chain(["sh".to_owned()]).collect()
    }

    pub fn pgbench(&self, host: &str) -> Option<&str> {
        self.pgbench.get(host).map(String::as_str)
    }
}

/// Hosts that ran pgbench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct TrialGenerators {
    /// Time from the first start of pgbench to the last.
    pub start_spread_ms: f64,
    pub hosts: Vec<TrialGenerator>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct TrialGenerator {
    pub host: String,
    pub clients: u32,
    pub jobs: u32,
    pub pgbench_version: String,
    /// Lead of the host's clock over the clock of the machine that runs pgthaw.
    pub clock_offset_ms: f64,
    /// Uncertainty (±) of `clock_offset_ms`.
    pub clock_uncertainty_ms: f64,
    /// Delay of pgbench's start after the agreed instant, by the clock of the machine that runs pgthaw.
    pub started_after_ms: f64,
    pub transactions: u64,
    pub tps: f64,
    /// Whether pgbench's processes run on the machine that runs pgthaw.
    pub is_seen: bool,
}

impl TrialGenerators {
    pub fn new(hosts: Vec<TrialGenerator>) -> TrialGenerators {
        let starts = || hosts.iter().map(|host| host.started_after_ms);
        let spread = starts().fold(f64::NEG_INFINITY, f64::max) - starts().fold(f64::INFINITY, f64::min);
        TrialGenerators { start_spread_ms: if hosts.is_empty() { 0.0 } else { spread }, hosts }
    }

    pub fn seen_jobs(&self) -> u32 {
        self.hosts.iter().filter(|host| host.is_seen).fold(0, |jobs, host| host.jobs.saturating_add(jobs))
    }

    pub fn unseen(&self) -> Vec<String> {
        self.hosts.iter().filter(|host| !host.is_seen).map(|host| host.host.clone()).collect()
    }

    /// Sum of the two largest uncertainties.
    pub fn start_uncertainty_ms(&self) -> f64 {
        let mut uncertain: Vec<f64> = self.hosts.iter().map(|host| host.clock_uncertainty_ms).collect();
        uncertain.sort_by(|one, other| other.total_cmp(one));
        uncertain.iter().take(2).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Generators, String> {
        let raw: RawGenerators = toml::from_str(text).map_err(|error| error.to_string())?;
        read_generators(raw)
    }

    #[test]
    fn ssh_is_what_reaches_a_host_unless_something_else_does() {
        let text = "hosts = ['bench1', 'me@bench2']\naddress = '10.0.0.1'\n";
        let generators = read(text).unwrap();
        let words = "ssh -T -o BatchMode=yes -o ServerAliveInterval=5 me@bench2 sh";
        assert_eq!(generators.command("me@bench2").join(" "), words);
        let generators = read(&format!("{text}command = ['ip', 'netns', 'exec', '{{host}}']\n")).unwrap();
        assert_eq!(generators.command("bench1"), ["ip", "netns", "exec", "bench1", "sh"]);
    }

    #[test]
    fn hosts_may_have_different_programs() {
        let of = |pgbench: &str| read(&format!("hosts = ['a', 'b']\naddress = 'x'\npgbench = {pgbench}\n"));
        let all = of("'/opt/pgbench'").unwrap();
        assert_eq!((all.pgbench("a"), all.pgbench("b")), (Some("/opt/pgbench"), Some("/opt/pgbench")));
        let some = of("{ b = '/opt/18/pgbench' }").unwrap();
        assert_eq!((some.pgbench("a"), some.pgbench("b")), (None, Some("/opt/18/pgbench")));
        assert!(of("{ c = '/x' }").unwrap_err().contains("generators.pgbench.c"));
        assert!(of("7").unwrap_err().contains("generators.pgbench"));
    }

    #[test]
    fn what_is_no_host_is_refused_with_what_is_allowed() {
        let refused = |text: &str, part: &str| {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(part), "{part:?} is not said: {problem}");
        };
        refused("hosts = []\naddress = 'x'\n", "1 to 64");
        for host in ["-oProxyCommand=x", "a b", "a;b", "", "$(x)"] {
            refused(&format!("hosts = ['{host}']\naddress = 'x'\n"), "is not a host");
        }
        refused("hosts = ['a', 'a']\naddress = 'x'\n", "twice");
        refused("hosts = ['a']\naddress = '/tmp'\n", "generators.address");
        refused("hosts = ['a']\n", "address");
        refused("hosts = ['a']\naddress = 'x'\ncommand = ['ssh']\n", "{host}");
        refused("hosts = ['a']\naddress = 'x'\nuser = 'me'\n", "user");
    }
}
