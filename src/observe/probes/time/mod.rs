//! The program in the kernel that charges every nanosecond of the server's processes, and what loads and reads it.
//!
//! `build.rs` compiles it from `time.bpf.c`: a compiler is needed where pgthaw is built, and none where it runs.

mod slot;

use std::fmt;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::{Array, HashMap, Map, MapData, Queue};
use aya::sys::{Stats, enable_stats};
use aya::{Ebpf, EbpfLoader};

use self::slot::{First, SLOT_WORDS, SLOTS, STARTED, new_slot, parse_slot};
use crate::linux::process::{read_activity, read_children, read_start_ticks};
use crate::linux::read_monotonic;
use crate::linux::schedule::read_task_time;
use crate::linux::shared_words::SharedWords;
use crate::observe::Error;
use crate::observe::probes::load::{REBUILD, attach, open_types, read_cost, refusal, refused, take_map};
use crate::observe::time::{EventWord, ProbeCost, Reading, Tier, TimeSource};

/// As the compiler wrote it, aligned as its parser wants it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/time.bpf.o"));

/// Programs and the tracepoints that they are attached to, in the order in which that is done.
const PROGRAMS: [(&str, &str); 5] = [
    ("time_switch", "sched_switch"),
    ("time_wakeup", "sched_wakeup"),
    ("time_exit", "sched_process_exit"),
    ("time_receive", "sock_recv_length"),
    // From here on children are followed from their birth.
    ("time_fork", "sched_process_fork"),
];

/// Only where there is no entry yet.
const BPF_NOEXIST: u64 = 1;

/// The program, loaded and attached. Dropping it, or the end of this process however it comes, takes it out of the kernel.
pub struct TimeProbe {
    ebpf: Ebpf,
    words: SharedWords,
    slots: Array<MapData, [u64; SLOT_WORDS]>,
    unused: Queue<MapData, u32>,
    tasks: HashMap<MapData, u32, u32>,
    lost: Array<MapData, u64>,
    /// As long as it is open the kernel counts what its programs cost.
    counts_cost: Option<OwnedFd>,
    event_word: EventWord,
    /// Processes that were there before, and for which there was no slot.
    without_slot: u64,
}

impl TimeProbe {
    /// Follows the processes of this postmaster from now on.
    pub fn open(postmaster_pid: u32) -> Result<TimeProbe, Error> {
        let btf = open_types()?;
        let event_word = EventWord::find(postmaster_pid)?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("wait_event_pointer", &event_word.pointer, true)
            .override_global("wait_event_offset", &event_word.offset, true)
            .override_global("postmaster_pid", &postmaster_pid, true)
            .load(OBJECT)
            .map_err(refused)?;
        let slots = take_map(&mut ebpf, "slots")?;
        let words = match &slots {
            Map::Array(data) => SharedWords::map(data.fd().as_fd(), SLOTS * SLOT_WORDS)?,
            _ => return Err(refusal("the program's slots are no array", REBUILD)),
        };
        let mut probe = TimeProbe {
            words,
            slots: slots.try_into().map_err(refused)?,
            unused: take_map(&mut ebpf, "unused")?.try_into().map_err(refused)?,
            tasks: take_map(&mut ebpf, "tasks")?.try_into().map_err(refused)?,
            lost: take_map(&mut ebpf, "lost")?.try_into().map_err(refused)?,
            counts_cost: enable_stats(Stats::RunTime).ok(),
            ebpf,
            event_word,
            without_slot: 0,
        };
        for index in 0..SLOTS as u32 {
            probe.unused.push(index, 0).map_err(refused)?;
        }
        PROGRAMS.into_iter().try_for_each(|(name, point)| attach(&mut probe.ebpf, name, point, &btf))?;
        for pid in read_children(postmaster_pid)?.into_iter().chain([postmaster_pid]) {
            probe.follow(pid)?;
        }
        Ok(probe)
    }

    /// Begins with a process that was there before. It has told no event then: what it does is read from the outside.
    fn follow(&mut self, pid: u32) -> Result<(), Error> {
        // A process may end at any time.
        let (Ok(activity), Ok(time)) = (read_activity(pid), read_task_time(pid)) else { return Ok(()) };
        let first = match activity.is_running {
            true => First::Ready,
            false => First::Waiting(self.event_word.read(pid).ok()),
        };
        let Ok(index) = self.unused.pop(0) else {
            self.without_slot += 1;
            return Ok(());
        };
        let (now_ns, exec_ns) = (read_monotonic().as_nanos() as u64, time.cpu.as_nanos() as u64);
        let slot = new_slot(pid, activity.start_ticks, now_ns, exec_ns, first);
        self.slots.set(index, slot, 0).map_err(refused)?;
        // One that was born meanwhile has a slot already. One that ended meanwhile would leave its number to another.
        let is_ours = self.tasks.insert(pid, index, BPF_NOEXIST).is_ok();
        let is_there = read_start_ticks(pid).is_ok_and(|ticks| ticks == activity.start_ticks);
        if !(is_ours && is_there) {
            if is_ours {
                let _ = self.tasks.remove(&pid);
            }
            self.give_back(index)?;
        }
        Ok(())
    }

    /// A slot is given to the next process all zeros.
    fn give_back(&mut self, index: u32) -> Result<(), Error> {
        self.slots.set(index, [0; SLOT_WORDS], 0).map_err(refused)?;
        self.unused.push(index, 0).map_err(refused)
    }
}

impl fmt::Debug for TimeProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeProbe").field("event_word", &self.event_word).finish_non_exhaustive()
    }
}

impl TimeSource for TimeProbe {
    fn tier(&self) -> Tier {
        Tier::Bpf
    }

    fn read(&mut self) -> Result<Reading, Error> {
        let at_ns = read_monotonic().as_nanos() as u64;
        let mut processes = Vec::new();
        for index in 0..SLOTS {
            if self.words.read(index * SLOT_WORDS + STARTED) == 0 {
                continue;
            }
            let Some(words) = self.words.read_record(index * SLOT_WORDS, SLOT_WORDS) else { continue };
            let process = parse_slot(&words, at_ns);
            if process.ended_ns.is_some() {
                self.give_back(index as u32)?;
            }
            processes.push(process);
        }
        let lost = self.without_slot + self.lost.get(&0, 0).map_err(refused)?;
        Ok(Reading { at_ns, processes, lost })
    }

    fn cost(&self) -> Option<ProbeCost> {
        self.counts_cost.as_ref()?;
        Some(read_cost(&self.ebpf, PROGRAMS.into_iter().map(|(name, _)| name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postmaster_that_is_none_is_refused() {
        let error = TimeProbe::open(std::process::id()).unwrap_err().to_string();
        assert!(error.contains("has no symbol my_wait_event_info"), "{error}");
    }
}
