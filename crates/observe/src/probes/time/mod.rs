//! Loads and reads `time.bpf.c`, which charges every nanosecond of the server's processes.

mod files;
mod slot;

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::time::Duration;

use aya::maps::{Array, HashMap, Map, MapData, Queue, RingBuf};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, RawTracePoint};
use aya::{Btf, Ebpf};

use self::files::{
    CALL_WORDS, CallsBefore, FILES, IO_EVENTS, Key, KnownFile, is_left, parse_call, parse_file, parse_name,
};
use self::slot::{CALL, ENDED, First, SLOT_WORDS, SLOTS, STARTED, is_in_call, new_slot, parse_slot};
use super::load::{CostCount, REBUILD, attach, open_loader, refused, take_map};
use crate::Error;
use crate::error::refusal;
use crate::time::{EventWord, FileCall, FileTimes, ProbeCost, Reading, Tier, TimeSource, Written, WrittenTo};
use host::linux::clock::read_thread_cpu_time;
use host::linux::foreign_memory::SharedWords;
use host::linux::process::{Stage, StateFile, read_children, read_pid_max, read_run_time, read_stage};
use host::linux::read_monotonic;

/// Longest tolerated interruption of a pass over all slots. Slots read after it show activity later than the pass's
/// instant.
const LONGEST_BREAK: Duration = Duration::from_millis(1);
const PASSES: usize = 3;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/time.bpf.o"));

const STORES_IN_ORDER: u32 = if cfg!(target_arch = "x86_64") { 1 } else { 0 };

const RECEIVE: &str = "time_receive";

/// In order of attachment.
const PROGRAMS: [(&str, &str); 5] = [
    ("time_switch", "sched_switch"),
    ("time_wakeup", "sched_wakeup"),
    ("time_exit", "sched_process_exit"),
    (RECEIVE, "sock_recv_length"),
    // Once this is attached, children are followed from birth.
    ("time_fork", "sched_process_fork"),
];

/// Programs that count writes to ext4 and XFS, if loaded. Other file systems have no write tracepoint.
const WRITES: [(&str, &str); 4] = [
    ("time_ext4_write", "ext4_da_write_end"),
    ("time_ext4_write", "ext4_write_end"),
    ("time_xfs_write", "xfs_file_buffered_write"),
    ("time_xfs_write", "xfs_file_direct_write"),
];

/// Indexes in the BPF map `lost`.
const LOST_PROCESSES: u32 = 0;
const LOST_CALLS: u32 = 1;
const LOST_OF_FILES: u32 = 2;

/// Drop, or this process's end, unloads the BPF programs.
pub struct TimeProbe {
    ebpf: Ebpf,
    words: SharedWords,
    slots: Array<MapData, [u64; SLOT_WORDS]>,
    unused: Queue<MapData, u32>,
    tasks: Array<MapData, u32>,
    lost: Array<MapData, u64>,
    files: HashMap<MapData, Key, KnownFile>,
    written: Array<MapData, [u64; 2]>,
    slow_calls: RingBuf<MapData>,
    /// `None` if receives are not counted.
    receives: Option<BtfTracePointLinkId>,
    /// Files in the BPF map at the last reading.
    known: BTreeMap<Key, FileTimes>,
    /// Files no longer in the map.
    left: Vec<FileTimes>,
    before: CallsBefore,
    cost: CostCount,
    event_word: EventWord,
    without_slot: u64,
    doubts: Vec<Doubt>,
}

/// A process whose end the BPF program may have missed.
struct Doubt {
    pid: u32,
    start_ticks: u64,
    index: u32,
}

impl TimeProbe {
    pub fn open(postmaster_pid: u32, (slow_call, ring_bytes): (Duration, u32)) -> Result<TimeProbe, Error> {
        let (btf, mut loader) = open_loader()?;
        let event_word = EventWord::find(postmaster_pid)?;
        // If the pointer is unreadable, the BPF program does not cache addresses of event numbers.
        let without_entry = event_word.read_pointer(postmaster_pid).unwrap_or(u64::MAX);
        let slow_call_ns = slow_call.as_nanos() as u64;
        let mut ebpf = loader
            .map_max_entries("slow_calls", ring_bytes)
            .map_max_entries("tasks", read_pid_max())
            .override_global("slow_call_ns", &slow_call_ns, true)
            .override_global("wait_event_pointer", &event_word.pointer, true)
            .override_global("wait_event_offset", &event_word.offset, true)
            .override_global("pointer_without_entry", &without_entry, true)
            .override_global("stores_in_order", &STORES_IN_ORDER, true)
            .override_global("postmaster_pid", &postmaster_pid, true)
            .load(OBJECT)
            .map_err(refused)?;
        let slots = take_map(&mut ebpf, "slots")?;
        let words = match &slots {
            Map::Array(data) => SharedWords::map(data.fd().as_fd(), SLOTS * SLOT_WORDS)?,
            _ => return Err(refusal("the BPF program's map `slots` is not an array", REBUILD)),
        };
        let mut probe = TimeProbe {
            words,
            slots: slots.try_into().map_err(refused)?,
            unused: take_map(&mut ebpf, "unused")?.try_into().map_err(refused)?,
            tasks: take_map(&mut ebpf, "tasks")?.try_into().map_err(refused)?,
            lost: take_map(&mut ebpf, "lost")?.try_into().map_err(refused)?,
            files: take_map(&mut ebpf, "files")?.try_into().map_err(refused)?,
            written: take_map(&mut ebpf, "written")?.try_into().map_err(refused)?,
            slow_calls: take_map(&mut ebpf, "slow_calls")?.try_into().map_err(refused)?,
            receives: None,
            known: BTreeMap::new(),
            left: Vec::new(),
            before: CallsBefore::default(),
            cost: CostCount::begin(),
            ebpf,
            event_word,
            without_slot: 0,
            doubts: Vec::new(),
        };
        for index in 0..SLOTS as u32 {
            probe.unused.push(index, 0).map_err(refused)?;
        }
        probe.attach(&btf)?;
        for pid in read_children(postmaster_pid)?.into_iter().chain([postmaster_pid]) {
            probe.follow(pid)?;
        }
        Ok(probe)
    }

    fn attach(&mut self, btf: &Btf) -> Result<(), Error> {
        for (name, tracepoint) in PROGRAMS {
            let link = attach(&mut self.ebpf, name, tracepoint, btf)?;
            if name == RECEIVE {
                self.receives = Some(link);
            }
        }
        for (name, tracepoint) in WRITES {
            let program = self.ebpf.program_mut(name).ok_or_else(|| refusal("a program is missing", REBUILD))?;
            let program: &mut RawTracePoint = program.try_into().map_err(refused)?;
            if program.fd().is_err() {
                program.load().map_err(refused)?;
            }
            let _ = program.attach(tracepoint);
        }
        Ok(())
    }

    fn follow(&mut self, pid: u32) -> Result<(), Error> {
        let (Ok(state), Ok(cpu)) = (StateFile::open(pid), read_run_time(pid)) else { return Ok(()) };
        let first = if state.is_running() == Some(true) {
            First::Ready
        } else {
            First::Waiting(self.event_word.read(pid).ok())
        };
        let is_in_io = matches!(first, First::Waiting(Some(event)) if event >> 24 == IO_EVENTS);
        let Ok(index) = self.unused.pop(0) else {
            self.without_slot += 1;
            return Ok(());
        };
        let (now_ns, exec_ns) = (read_monotonic().as_nanos() as u64, cpu.as_nanos() as u64);
        let slot = new_slot(pid, state.start_ticks, now_ns, exec_ns, first);
        self.slots.set(index, slot, 0).map_err(refused)?;
        // A process born meanwhile already has a slot, from `time_fork`.
        if self.tasks.get(&pid, 0).is_ok_and(|number| number != 0) {
            return self.give_back(index);
        }
        self.tasks.set(pid, index + 1, 0).map_err(refused)?;
        let start_ticks = state.start_ticks;
        if is_in_io {
            self.before.look(pid, start_ticks, now_ns);
        }
        // If the process still lives, `time_exit` will find its slot.
        if read_stage(pid, start_ticks) != Stage::Lives {
            self.doubts.push(Doubt { pid, start_ticks, index });
        }
        Ok(())
    }

    fn settle_doubts(&mut self) -> Result<(), Error> {
        for doubt in std::mem::take(&mut self.doubts) {
            // Reads the process's stage before its slot: if the process has ended, its end is already in the slot,
            // unless the BPF program missed it.
            let stage = read_stage(doubt.pid, doubt.start_ticks);
            let is_told = self.words.read(doubt.index as usize * SLOT_WORDS + ENDED) != 0;
            if is_told {
                continue;
            }
            if stage != Stage::Ended {
                self.doubts.push(doubt);
                continue;
            }
            // The pid may be reused.
            if self.tasks.get(&doubt.pid, 0).is_ok_and(|number| number == doubt.index + 1) {
                self.tasks.set(doubt.pid, 0, 0).map_err(refused)?;
            }
            self.give_back(doubt.index)?;
        }
        Ok(())
    }

    /// Turns 0 unsynced writes into unknown: the write tracepoint may be missing.
    fn name_call(&self, (mut call, key): (FileCall, Key)) -> FileCall {
        let words = self.files.get(&key, 0).ok();
        call.file = words.as_ref().map(parse_name).unwrap_or_default();
        call.unsynced = call.unsynced.filter(|unsynced| unsynced.writes > 0);
        call
    }

    fn read_slow_calls(&mut self) -> Vec<FileCall> {
        let mut calls = Vec::new();
        while let Some(record) = self.slow_calls.next() {
            let words: Vec<u64> = record.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
            calls.extend(words.get(CALL_WORDS).and_then(|pid| parse_call(*pid as u32, &words, true)));
        }
        calls.into_iter().map(|call| self.name_call(call)).collect()
    }

    fn read_lost(&self, what: u32) -> Result<u64, Error> {
        self.lost.get(&what, 0).map_err(refused)
    }

    /// Also returns the instant before the first slot was read.
    fn read_slots(&self) -> (u64, Vec<(usize, Vec<u64>)>) {
        let at_ns = read_monotonic().as_nanos() as u64;
        let read = |index: usize| {
            let is_doubted = self.doubts.iter().any(|doubt| doubt.index as usize == index);
            let is_had = !is_doubted && self.words.read(index * SLOT_WORDS + STARTED) != 0;
            is_had.then(|| self.words.read_record(index * SLOT_WORDS, SLOT_WORDS)).flatten().map(|words| (index, words))
        };
        (at_ns, (0..SLOTS).filter_map(read).collect())
    }

    fn give_back(&mut self, index: u32) -> Result<(), Error> {
        self.slots.set(index, [0; SLOT_WORDS], 0).map_err(refused)?;
        self.unused.push(index, 0).map_err(refused)
    }
}

host::debug_by!(TimeProbe: event_word);

impl TimeSource for TimeProbe {
    fn tier(&self) -> Tier {
        Tier::Bpf
    }

    fn event_word(&self) -> Option<EventWord> {
        Some(self.event_word)
    }

    fn read(&mut self) -> Result<Reading, Error> {
        self.settle_doubts()?;
        let (at_ns, slots) = read_undisturbed(|| {
            let (begin, own) = (read_monotonic(), read_thread_cpu_time());
            let slots = self.read_slots();
            (slots, (read_monotonic() - begin).saturating_sub(read_thread_cpu_time() - own))
        });
        let (mut processes, mut ended_calls) = (Vec::new(), Vec::new());
        for (index, words) in slots {
            let mut process = parse_slot(&words, at_ns);
            if is_in_call(&words) {
                process.call = parse_call(process.pid, &words[CALL..], false).map(|call| self.name_call(call));
            }
            ended_calls.extend(self.before.tell(&mut process, at_ns));
            if process.ended_ns.is_some() {
                self.give_back(index as u32)?;
            }
            processes.push(process);
        }
        self.left.extend(ended_calls.iter().map(|call| FileTimes::of_call(call, at_ns)));
        let written = |class| {
            let [writes, bytes] = self.written.get(&class, 0).map_err(refused)?;
            Ok::<_, Error>(Written { writes, bytes })
        };
        let written = WrittenTo { others: written(0)?, wal: written(1)?, temporary: written(2)? };
        Ok(Reading {
            at_ns,
            processes,
            counts_commands: self.receives.is_some(),
            lost: self.without_slot + self.read_lost(LOST_PROCESSES)?,
            slow_calls: self.read_slow_calls().into_iter().chain(ended_calls).collect(),
            written,
            lost_calls: self.read_lost(LOST_CALLS)?,
            lost_of_files: self.read_lost(LOST_OF_FILES)?,
            begins_from: None,
        })
    }

    fn cost(&self) -> Option<ProbeCost> {
        self.cost.read(&self.ebpf)
    }

    fn cost_refusal(&self) -> Option<String> {
        self.cost.refusal.clone()
    }

    fn files(&mut self) -> Result<Vec<FileTimes>, Error> {
        let now: BTreeMap<Key, FileTimes> =
            self.files.iter().filter_map(Result::ok).map(|(key, words)| (key, parse_file(&words))).collect();
        let is_full = now.len() > FILES / 4 * 3;
        for (key, file) in &now {
            let before = self.known.get(key);
            // Removes unchanged temporary files, and other unchanged files if the map is nearly full.
            if before.is_some_and(|before| is_left(file, before) || is_full && file == before) {
                let _ = self.files.remove(key);
                self.left.push(file.clone());
            }
        }
        self.left = FileTimes::merge(std::mem::take(&mut self.left));
        let all = self.left.iter().chain(now.values()).cloned().collect();
        self.known = now;
        Ok(FileTimes::merge(all))
    }

    fn drop_receives(&mut self) -> bool {
        // The program stays loaded, so that its cost remains readable.
        let program = self.ebpf.program_mut(RECEIVE).and_then(|program| <&mut BtfTracePoint>::try_from(program).ok());
        program.zip(self.receives.take()).is_some_and(|(program, link)| program.detach(link).is_ok())
    }
}

/// Returns the first reading with little interruption, else the least interrupted one.
fn read_undisturbed<T>(mut read: impl FnMut() -> (T, Duration)) -> T {
    let (mut least, mut lost) = read();
    for _ in 1..PASSES {
        if lost <= LONGEST_BREAK {
            break;
        }
        let (next, lost_by_next) = read();
        if lost_by_next < lost {
            (least, lost) = (next, lost_by_next);
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SLOW_CALLS;

    #[test]
    fn what_was_read_while_others_had_the_processor_is_read_again() {
        let read = |lost_ms: &[u64]| {
            let mut lost = lost_ms.iter().enumerate();
            let read = || lost.next().map(|(pass, ms)| (pass, Duration::from_millis(*ms))).unwrap();
            (read_undisturbed(read), lost.len())
        };
        assert_eq!(read(&[0, 9, 9]), (0, 2), "the first will do");
        assert_eq!(read(&[12, 1, 0]), (1, 1));
        assert_eq!(read(&[12, 3, 7, 0]), (1, 1), "it is not tried for ever");
    }

    #[test]
    fn a_postmaster_that_is_none_is_refused() {
        let error = TimeProbe::open(std::process::id(), SLOW_CALLS).unwrap_err().to_string();
        assert!(error.contains("has no symbol my_wait_event_info"), "{error}");
    }
}
