//! The program in the kernel that counts waits for lightweight locks at the server's own probes, and what loads and reads it.
//!
//! `build.rs` compiles it from `lwlocks.bpf.c`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::os::fd::AsFd as _;

use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuHashMap};
use aya::programs::UProbe;

use super::load::{CostCount, REBUILD, open_loader, refusal, refused, take_map};
use super::time::{STATISTIC_WORDS, parse_statistic};
use crate::linux;
use crate::linux::foreign_memory::read_text;
use crate::linux::process::read_program_path;
use crate::linux::user_probes::{ArgumentPlace, AttachedProbe, UserProbe, attach_user_probe, read_user_probes};
use crate::observe::time::{ProbeCost, ProgramCost};
use crate::observe::{Error, Statistic};

/// As the compiler wrote it, aligned as its parser wants it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/lwlocks.bpf.o"));

const PROVIDER: &str = "postgresql";

/// Programs and the probes that they are attached to: the end first, so that no wait has a beginning alone.
const PROGRAMS: [(&str, &str); 2] =
    [("lwlock_wait_done", "lwlock__wait__done"), ("lwlock_wait_start", "lwlock__wait__start")];

/// What a process's stop at a probe is taken to cost beside the program, in nanoseconds: a trap into the kernel and back, of which the
/// kernel keeps no count.
const STOP_NS: u64 = 2000;

/// Longer than any name of a tranche may be.
const NAME_BYTES_MAX: usize = 64;

/// The program, loaded and attached. Dropping it, or the end of this process however it comes, takes it out of the kernel, and no process
/// stops any more.
pub struct LwlockProbe {
    // The first to go.
    attached: Vec<AttachedProbe>,
    ebpf: Ebpf,
    tranches: PerCpuHashMap<MapData, u64, [u64; STATISTIC_WORDS]>,
    lost: Array<MapData, u64>,
    postmaster_pid: u32,
    /// By their addresses, as long as the server was there.
    names: HashMap<u64, String>,
    cost: CostCount,
}

impl LwlockProbe {
    /// Counts waits of the processes of this postmaster from now on.
    ///
    /// # Errors
    /// When the server's program has not these probes, or nobody may attach to them.
    pub fn open(postmaster_pid: u32) -> Result<LwlockProbe, Error> {
        let places = find_places(postmaster_pid)?;
        let mut ebpf =
            open_loader()?.override_global("postmaster_pid", &postmaster_pid, true).load(OBJECT).map_err(refused)?;
        let mut probe = LwlockProbe {
            attached: Vec::new(),
            tranches: take_map(&mut ebpf, "tranches")?.try_into().map_err(refused)?,
            lost: take_map(&mut ebpf, "lost")?.try_into().map_err(refused)?,
            cost: CostCount::begin(),
            postmaster_pid,
            names: HashMap::new(),
            ebpf,
        };
        for (program, places) in PROGRAMS.iter().zip(&places) {
            probe.attach(program.0, places)?;
        }
        Ok(probe)
    }

    fn attach(&mut self, name: &str, places: &[(UserProbe, ArgumentPlace)]) -> Result<(), Error> {
        let program = self.ebpf.program_mut(name).ok_or_else(|| refusal("a program is missing", REBUILD))?;
        let program: &mut UProbe = program.try_into().map_err(refused)?;
        program.load().map_err(refused)?;
        let program = program.fd().map_err(refused)?.as_fd();
        for (probe, argument) in places {
            self.attached.push(attach_user_probe(program, self.postmaster_pid, probe, cookie_of(*argument))?);
        }
        Ok(())
    }

    /// Reads the names of tranches that were waited for since it was asked: a server that ends takes them with it.
    pub fn learn_names(&mut self) {
        for address in self.tranches.keys().filter_map(Result::ok) {
            if !self.names.contains_key(&address)
                && let Ok(name) = read_text(self.postmaster_pid, address, NAME_BYTES_MAX)
            {
                self.names.insert(address, name);
            }
        }
    }

    /// The waits of each tranche so far, by its name, and how many no tranche has.
    pub fn read(&mut self) -> Result<(BTreeMap<String, Statistic>, u64), Error> {
        self.learn_names();
        let mut found: BTreeMap<String, Statistic> = BTreeMap::new();
        for (address, of_processors) in self.tranches.iter().filter_map(Result::ok) {
            // A name that only another process has is its address.
            let name = self.names.get(&address).cloned().unwrap_or_default();
            let name = if name.is_empty() { format!("{address:#x}") } else { name };
            let sum = found.entry(name).or_default();
            of_processors.iter().for_each(|words| sum.merge(&parse_statistic(words)));
        }
        Ok((found, self.lost.get(&0, 0).map_err(refused)?))
    }

    /// What its programs cost by the kernel's own count, and as `lwlock_stops` what the stops at the probes are taken to cost.
    pub fn cost(&self) -> ProbeCost {
        let mut cost = self.cost.read(&self.ebpf).unwrap_or_default();
        let stops: u64 = cost.programs.iter().map(|program| program.runs).sum();
        let (name, runs) = ("lwlock_stops".to_owned(), 0);
        cost.programs.push(ProgramCost { name, runs, total_ns: stops * STOP_NS });
        cost
    }
}

impl fmt::Debug for LwlockProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LwlockProbe").field("attached", &self.attached.len()).finish_non_exhaustive()
    }
}

/// The places of each of the probes in the server's program, with where their argument is.
fn find_places(postmaster_pid: u32) -> Result<[Vec<(UserProbe, ArgumentPlace)>; 2], Error> {
    let program = read_program_path(postmaster_pid)?;
    let is_wanted = |provider: &str, name: &str| provider == PROVIDER && PROGRAMS.iter().any(|(_, one)| *one == name);
    let all = read_user_probes(postmaster_pid, is_wanted)?;
    let mut places = [Vec::new(), Vec::new()];
    for ((_, name), places) in PROGRAMS.iter().zip(&mut places) {
        for probe in all.iter().filter(|one| one.name == *name) {
            let argument = probe.first_argument().ok_or_else(|| {
                unavailable(
                    format!("the argument of {name} in {} is at {}", program.display(), probe.arguments),
                    "this pgthaw knows where it may be on x86-64 alone",
                )
            })?;
            places.push((probe.clone(), argument));
        }
        if places.is_empty() {
            return Err(unavailable(
                format!("{} has no probe {name}", program.display()),
                "a server that was built with --enable-dtrace has it, as the packages of Debian and Ubuntu are",
            ));
        }
    }
    Ok(places)
}

fn unavailable(reason: String, remedy: &str) -> Error {
    let what = "to count waits for lightweight locks at the server's own probes";
    Error::Linux(linux::Error::Unavailable { what, reason, remedy: remedy.to_owned() })
}

/// As the program in the kernel takes it apart.
fn cookie_of(place: ArgumentPlace) -> u64 {
    let behind = place.displacement.map_or(0, |displacement| 1 << 16 | u64::from(displacement.cast_unsigned()) << 32);
    u64::from(place.register_offset) | behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_probes_says_which_is_missing() {
        let error = LwlockProbe::open(std::process::id()).unwrap_err().to_string();
        assert!(error.contains("has no probe lwlock__wait__done"), "{error}");
    }

    #[test]
    fn a_cookie_says_where_the_argument_is() {
        assert_eq!(cookie_of(ArgumentPlace { register_offset: 80, displacement: None }), 80);
        let behind = cookie_of(ArgumentPlace { register_offset: 32, displacement: Some(-24) });
        assert_eq!((behind & 0xffff, behind >> 16 & 1, (behind >> 32) as u32 as i32), (32, 1, -24));
    }
}
