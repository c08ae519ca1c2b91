use std::iter::successors;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use aya::maps::Map;
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, Program};
use aya::sys::{Stats, enable_stats};
use aya::{Btf, Ebpf, EbpfLoader};

use crate::Error;
use crate::error::refusal;
use crate::time::{ProbeCost, ProgramCost};
use host::linux::capability::{BPF_REMEDY, counts_program_time};
use host::linux::process::has_kernel_pids;

pub const REBUILD: &str = "rebuild pgthaw: its BPF object file does not match it";

/// The kernel's type information (BTF), and a loader with a copy of it. Fails in a child pid namespace, because the
/// kernel reports the host's pids.
pub fn open_loader() -> Result<(Btf, EbpfLoader<'static>), Error> {
    if !has_kernel_pids()? {
        let remedy = "run pgthaw on the host, not in a container";
        return Err(refusal("pgthaw runs in its own pid namespace", remedy));
    }
    // The loader parses its own copy of the BTF, in parallel if a thread is available.
    let (types, loader) = thread::scope(|scope| {
        let types = thread::Builder::new().spawn_scoped(scope, Btf::from_sys_fs);
        let loader = EbpfLoader::new();
        let join = |thread: ScopedJoinHandle<_>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        (types.map_or_else(|_| Btf::from_sys_fs(), join), loader)
    });
    let types = types.map_err(|error| {
        let kernel = "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's and Ubuntu's are";
        refusal(&format!("the kernel has no type information (BTF): {}", tell(&error)), kernel)
    })?;
    Ok((types, loader))
}

pub fn attach(ebpf: &mut Ebpf, name: &str, tracepoint: &str, btf: &Btf) -> Result<BtfTracePointLinkId, Error> {
    let program = ebpf.program_mut(name).ok_or_else(|| refusal("a program is missing", REBUILD))?;
    let program: &mut BtfTracePoint = program.try_into().map_err(refused)?;
    program.load(tracepoint, btf).map_err(refused)?;
    program.attach().map_err(refused)
}

/// While this exists, the kernel counts the run time of BPF programs.
#[derive(Debug)]
pub struct CostCount {
    _counting: Option<OwnedFd>,
    pub refusal: Option<String>,
}

impl CostCount {
    /// Requires CAP_SYS_ADMIN (BPF_ENABLE_STATS in bpf(2)) unless counting is already on. Loading BPF programs
    /// does not require it.
    pub fn begin() -> CostCount {
        let (counting, refusal) = match enable_stats(Stats::RunTime) {
            Ok(counting) => (Some(counting), None),
            Err(_) if counts_program_time() => (None, None),
            Err(_) => {
                let why = "the kernel times BPF programs only with CAP_SYS_ADMIN or kernel.bpf_stats_enabled = 1";
                (None, Some(why.to_owned()))
            }
        };
        CostCount { _counting: counting, refusal }
    }

    pub fn read(&self, ebpf: &Ebpf) -> Option<ProbeCost> {
        self.refusal.is_none().then(|| read_cost(ebpf))
    }
}

fn read_cost(ebpf: &Ebpf) -> ProbeCost {
    let cost = |(name, program): (&str, &Program)| {
        let info = program.info().ok()?;
        let (runs, total_ns) = (info.run_count(), info.run_time().as_nanos() as u64);
        Some(ProgramCost { name: name.to_owned(), runs, total_ns })
    };
    let mut programs: Vec<ProgramCost> = ebpf.programs().filter_map(cost).collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    ProbeCost { programs }
}

pub fn take_map(ebpf: &mut Ebpf, name: &str) -> Result<Map, Error> {
    ebpf.take_map(name).ok_or_else(|| refusal(&format!("the BPF program has no map {name}"), REBUILD))
}

pub fn refused(error: impl std::error::Error) -> Error {
    refusal(&tell(&error), BPF_REMEDY)
}

fn tell(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    for more in successors(error.source(), |error| error.source()).map(ToString::to_string) {
        if !told.contains(&more) {
            told = format!("{told}: {more}");
        }
    }
    // Keeps the first line: the verifier's log may be pages long.
    told.lines().next().unwrap_or_default().to_owned()
}
