use std::collections::BTreeMap;

use super::stalls::STEPS_OF_SECOND;
use super::*;
use crate::gauges::{DeviceUse, OsSample, PressureRatios};
use crate::time::{FileCall, FileCallKind, FileName, Written, WrittenTo};
use crate::top::CheckpointPhase;
use postgres::{LockProcess, Session};

const STEP_NS: u64 = 250_000_000;

fn device(busy_ratio: f64) -> DeviceUse {
    DeviceUse { busy_ratio, ..DeviceUse::default() }
}

/// A healthy server with 16 clients on two processors.
fn quiet() -> Step {
    let wait = |class: &str, event: &str, count: f64| ((class.to_owned(), event.to_owned()), count);
    Step {
        length_ns: STEP_NS,
        commands: 1250,
        backends: 16.0,
        ready: 2.0,
        waits: BTreeMap::from([
            wait("Client", "ClientRead", 9.0),
            wait("LWLock", "WALWrite", 2.0),
            wait("IO", "WalSync", 0.7),
            wait("Lock", "transactionid", 1.5),
        ]),
        server_processors: 0.9,
        processors: 2.0,
        machine: OsSample {
            processors_busy_seconds: 1.5,
            parts: BTreeMap::from([("the data directory".to_owned(), device(0.3))]),
            pressure: PressureRatios { memory_some: Some(0.0), ..PressureRatios::default() },
            ..OsSample::default()
        },
        ..Step::default()
    }
}

fn stopped(waits: &[(&str, &str, f64)]) -> Step {
    let quiet = quiet();
    let waits = waits.iter().map(|(class, event, count)| (((*class).to_owned(), (*event).to_owned()), *count));
    let machine = OsSample { processors_busy_seconds: 0.1, ..quiet.machine };
    Step { commands: 0, ready: 0.0, waits: waits.collect(), server_processors: 0.0, machine, ..quiet }
}

fn window(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let place = |(place, step): (usize, Step)| Step { end_ns: (place as u64 + 2) * STEP_NS, ..step };
    steps.into_iter().enumerate().map(place).collect()
}

fn name(during: &[Step]) -> (StallKind, String) {
    name_stall(during, &window(vec![quiet(); 40]), 5000.0)
}

fn call(pid: u32, kind: FileCallKind, names: &[&str], writes: u64) -> FileCall {
    FileCall {
        pid,
        kind,
        begin_ns: STEP_NS,
        end_ns: None,
        file: FileName::of_names(names),
        device: (7, 0),
        unsynced: Some(Written { writes, bytes: writes * 8192 }),
    }
}

fn seen(call: FileCall, who: &str, relation: Option<&str>) -> SeenCall {
    SeenCall { call, who: who.into(), relation: relation.map(str::to_owned) }
}

const ACCOUNTS: [&str; 4] = ["16387.1", "16386", "base", "data"];
const LOG: [&str; 4] = ["000000010000000000000002", "pg_wal", "data", "x"];

#[test]
fn the_file_of_a_checkpoint_is_named_with_its_writes_and_those_who_wait_behind_it() {
    let during = || Step {
        calls: vec![
            seen(call(24637, FileCallKind::Fsync, &ACCOUNTS, 122_588), "checkpointer", Some("accounts")),
            seen(call(77, FileCallKind::Fdatasync, &LOG, 3), "client backend", None),
        ],
        checkpoint: Some(CheckpointPhase::Syncing),
        ..stopped(&[("LWLock", "WALWrite", 12.6), ("IO", "WalSync", 1.0), ("Client", "ClientRead", 2.0)])
    };
    let (kind, sentence) = name(&window(vec![during(); 32]));
    assert_eq!(kind, StallKind::FileSync);
    assert_eq!(
        sentence,
        "no command for 8.0 s. checkpointer 24637: fsync 8.0 s, 122,588 writes of 958 MB, base/16386/16387.1 (accounts); 14 of 16 \
         backends waited in LWLock:WALWrite and IO:WalSync behind it."
    );
}

#[test]
fn where_commands_are_counted_no_more_nothing_is_a_stall_and_one_that_was_stays() {
    let mut stalls = Stalls::new(STEPS_OF_SECOND);
    window(vec![quiet(); 20]).into_iter().for_each(|step| stalls.add(step));
    stalls.end();
    assert!(stalls.clone().finish(false).is_empty());
    window(vec![quiet(); 20]).into_iter().for_each(|step| stalls.add(step));
    window(vec![stopped(&[]); 8]).into_iter().for_each(|step| stalls.add(step));
    assert!(stalls.ongoing.is_some());
    stalls.end();
    assert!(stalls.ongoing.is_none());
    assert_eq!((stalls.finished.len(), stalls.finished[0].length_ns), (1, 8 * STEP_NS));
    assert!(stalls.finished[0].end_ms.is_some());
}

#[test]
fn a_log_on_a_device_of_its_own_is_not_held_up_by_other_files() {
    let log = FileCall { device: (7, 1), ..call(77, FileCallKind::Fdatasync, &LOG, 40) };
    let during = || Step {
        calls: vec![
            seen(log.clone(), "walwriter", None),
            seen(call(24637, FileCallKind::Fsync, &ACCOUNTS, 122_588), "checkpointer", None),
        ],
        ..stopped(&[("LWLock", "WALWrite", 14.0), ("IO", "WalSync", 1.0)])
    };
    let (kind, sentence) = name(&window(vec![during(); 8]));
    assert_eq!(kind, StallKind::WalFlush);
    assert!(sentence.contains("walwriter 77: fdatasync 2.0 s, 40 writes of 320 kB, pg_wal/0000"), "{sentence}");
}

#[test]
fn where_all_wait_for_the_log_all_the_time_a_longer_sync_is_the_cause() {
    let waits = [("LWLock", "WALWrite", 13.0), ("IO", "WalSync", 1.0), ("Client", "ClientRead", 2.0)];
    let before = Step { commands: 250, ..stopped(&waits) };
    let during = Step {
        calls: vec![
            seen(call(77, FileCallKind::Fdatasync, &LOG, 3), "walwriter", None),
            seen(call(24637, FileCallKind::Fsync, &ACCOUNTS, 2348), "checkpointer", Some("pgbench_accounts")),
        ],
        ..stopped(&waits)
    };
    let (kind, sentence) = name_stall(&window(vec![during; 8]), &window(vec![before; 40]), 1000.0);
    assert_eq!(kind, StallKind::FileSync);
    assert!(sentence.contains("checkpointer 24637: fsync 2.0 s, 2,348 writes of 18.3 MB"), "{sentence}");
}

#[test]
fn clients_that_pause_again_and_again_work_so() {
    let pause = stopped(&[("Client", "ClientRead", 16.0)]);
    let kept = stopped(&[("LWLock", "WALWrite", 15.0), ("IO", "WalSync", 1.0)]);
    for (low, count) in [(pause, 0), (kept, 2)] {
        let mut stalls = Stalls::new(STEPS_OF_SECOND);
        let round = || [vec![low.clone(); 12], vec![quiet(); 20]].concat();
        let first = Step { commands: 1, ..low.clone() };
        window([vec![first], round(), round(), round()].concat()).into_iter().for_each(|step| stalls.add(step));
        assert_eq!(stalls.finish(false).len(), count);
    }
}

#[test]
fn many_short_syncs_of_the_log_fill_a_stall_together() {
    let short = |place: u64| FileCall {
        begin_ns: (place + 1) * STEP_NS,
        end_ns: Some((place + 2) * STEP_NS - 20_000_000),
        ..call(50 + place as u32, FileCallKind::Fdatasync, &LOG, 4)
    };
    let during = (0..8).map(|place| Step {
        calls: vec![seen(short(place), "client backend", None)],
        commands: 3,
        ..stopped(&[("LWLock", "WALWrite", 14.0), ("IO", "WalSync", 1.0)])
    });
    let (kind, sentence) = name(&window(during));
    assert_eq!(kind, StallKind::WalFlush);
    assert!(sentence.starts_with("12 commands a second for 2.0 s, usually 5,000. client backend 50"), "{sentence}");
    assert!(sentence.contains(", the longest of 8 calls; 15 of 16 backends waited in"), "{sentence}");
}

#[test]
fn the_log_waits_behind_the_buffers_that_a_checkpoint_writes() {
    let others = Written { writes: 3000, bytes: 3000 * 8192 };
    let mut during = Step {
        written: WrittenTo { others, ..WrittenTo::default() },
        checkpoint: Some(CheckpointPhase::Writing),
        calls: vec![seen(call(77, FileCallKind::Fdatasync, &LOG, 8), "client backend", None)],
        ..stopped(&[("LWLock", "WALWrite", 14.0), ("IO", "WalSync", 1.0)])
    };
    let (kind, sentence) = name(&window(vec![during.clone(); 8]));
    assert_eq!(kind, StallKind::Checkpoint);
    assert!(
        sentence.contains(
            "a checkpoint wrote buffers: 188 MB within 4.0 s. client backend 77: fdatasync 2.0 s, 8 writes of 64 kB"
        ),
        "{sentence}"
    );
    let syncs = Step { checkpoint: Some(CheckpointPhase::Syncing), ..during.clone() };
    let (kind, sentence) = name(&window(vec![syncs; 8]));
    assert!(kind == StallKind::Checkpoint && sentence.contains("synced files: 188 MB"), "{sentence}");
    during.machine.parts.insert(step::LOG_DEVICE.to_owned(), device(1.0));
    assert_eq!(name(&window(vec![during; 8])).0, StallKind::WalFlush);
}

fn holder(state: &str, wait: Option<(&str, &str)>) -> LockProcess {
    let session = Session {
        pid: 99,
        backend: Some("client backend".into()),
        state: Some(state.into()),
        query: Some("LOCK TABLE accounts".into()),
        event_type: wait.map(|(class, _)| class.into()),
        event: wait.map(|(_, event)| event.into()),
        ..Session::default()
    };
    LockProcess { session, waiters: 1, ..LockProcess::default() }
}

fn with(holder: LockProcess, change: impl FnOnce(&mut Session)) -> LockProcess {
    let mut changed = holder;
    change(&mut changed.session);
    changed
}

#[test]
fn behind_a_lock_is_who_waits_for_none() {
    let waiting = with(holder("active", Some(("Lock", "relation"))), |one| one.pid = 98);
    let waiting = LockProcess { waiters: 14, ..waiting };
    let during = |holder: LockProcess| Step {
        holders: vec![waiting.clone(), holder],
        ..stopped(&[("Lock", "relation", 15.0), ("Client", "ClientRead", 1.0)])
    };
    let (kind, sentence) =
        name(&window(vec![during(holder("idle in transaction", Some(("Client", "ClientRead")))); 8]));
    assert_eq!(kind, StallKind::Lock);
    assert_eq!(
        sentence,
        "no command for 2.0 s. client backend 99, idle in transaction, (“LOCK TABLE accounts”) holds a lock; 15 of 16 backends waited in \
         Lock:relation behind it."
    );
    for pin in [("BufferPin", "BufferPin"), ("Buffer", "BufferCleanup")] {
        let (kind, _) = name(&window(vec![during(holder("active", Some(pin))); 8]));
        assert_eq!(kind, StallKind::BufferPin, "{pin:?}");
    }
    let during = Step {
        calls: vec![seen(call(77, FileCallKind::Fdatasync, &LOG, 3), "client backend", None)],
        ..during(holder("active", Some(("IO", "WalSync"))))
    };
    assert_eq!(name(&window(vec![during; 8])).0, StallKind::WalFlush);
}

#[test]
fn who_holds_a_lock_for_a_moment_when_the_long_one_is_let_go_is_not_behind_it() {
    let step = |holders: &[LockProcess]| Step {
        holders: holders.to_vec(),
        ..stopped(&[("Lock", "relation", 15.0), ("Client", "ClientRead", 1.0)])
    };
    let client = |wait| with(holder("active", wait), |one| (one.pid, one.query) = (55, Some("END;".into())));
    let queued = client(Some(("Lock", "relation")));
    let vacuums = |one: &mut Session| one.backend = Some("autovacuum worker".into());
    let reads = with(holder("active", Some(("IO", "DataFileRead"))), vacuums);
    let named = |long: &[LockProcess]| {
        let mut during = vec![step(long); 7];
        during.push(step(&[client(None)]));
        name(&window(during))
    };
    let (kind, sentence) = named(&[queued.clone(), reads]);
    assert_eq!(kind, StallKind::Lock);
    assert!(sentence.contains(" autovacuum worker 99 (“LOCK TABLE accounts”) holds a lock; 15 of 16"), "{sentence}");
    let (kind, sentence) = named(&[queued, holder("active", Some(("BufferPin", "BufferPin")))]);
    assert_eq!(kind, StallKind::BufferPin);
    assert!(
        sentence.contains(" client backend 99 (“LOCK TABLE accounts”) holds a lock and waits for a buffer pin"),
        "{sentence}"
    );
}

#[test]
fn clients_that_are_silent_are_told_from_those_that_are_slow() {
    let silent = stopped(&[("Client", "ClientRead", 16.0)]);
    let (kind, sentence) = name(&window(vec![silent.clone(); 8]));
    assert_eq!(kind, StallKind::ClientPause);
    assert_eq!(sentence, "no command for 2.0 s. the clients sent nothing: 16 of 16 backends waited for them.");
    let edge = Step { commands: 2_000, asked: (0..16).collect(), ..silent.clone() };
    let looked_at = Step { commands: 1, asked: vec![99], ..silent.clone() };
    let during = [vec![edge.clone()], vec![looked_at; 6], vec![edge.clone()]].concat();
    assert_eq!(name(&window(during)).0, StallKind::ClientPause);
    let few = stopped(&[("Client", "ClientRead", 4.0)]);
    let few = Step { backends: 4.0, ..few };
    let looked_at = Step { commands: 1, asked: vec![99], ..few.clone() };
    assert_eq!(name(&window(vec![looked_at; 8])).0, StallKind::ClientPause);
    let slow = Step { commands: 2, asked: vec![1, 2], ..few };
    assert_eq!(name(&window(vec![slow; 8])).0, StallKind::ClientDelay);
    // 0.1 % of the usual commands: each client is served once a second.
    let slow =
        |step: u32| Step { commands: 4, asked: (0..4).map(|pid| 4 * (step % 4) + pid).collect(), ..silent.clone() };
    let during = [vec![edge.clone()], (0..14).map(slow).collect(), vec![edge]].concat();
    assert_eq!(name(&window(during)).0, StallKind::ClientDelay);
    let slow = stopped(&[("Client", "ClientRead", 15.0), ("Lock", "transactionid", 1.0)]);
    let back = stopped(&[("Client", "ClientRead", 3.0), ("Lock", "transactionid", 10.0)]);
    let slow = Step { commands: 40, asked: (0..16).collect(), ..slow };
    let during = [vec![slow; 16], vec![Step { commands: 400, ..back }; 5]].concat();
    assert_eq!(name(&window(during)).0, StallKind::ClientDelay);
}

#[test]
fn others_on_the_processors_and_a_hypervisor_are_told_apart() {
    let mut hog = stopped(&[("Client", "ClientRead", 13.0)]);
    (hog.commands, hog.ready, hog.machine.processors_busy_seconds, hog.server_processors) = (200, 3.0, 2.0, 0.2);
    hog.machine.pressure.cpu_some = Some(1.0);
    let (kind, sentence) = name(&window(vec![hog.clone(); 8]));
    assert_eq!(kind, StallKind::Processors);
    assert!(
        sentence.ends_with(
            "other processes used 1.8 of 2 processors, 0.6 before; 3 of 16 backends waited for a processor."
        )
    );
    (hog.machine.processors_busy_seconds, hog.machine.processors_steal_seconds) = (0.5, 1.4);
    assert!(name(&window(vec![hog; 8])).1.contains("other virtual machines used 1.4 of 2 processors, 0.0 before"));
}

#[test]
fn others_that_have_what_silent_clients_leave_are_not_the_cause() {
    let mut silent = stopped(&[("Client", "ClientRead", 16.0)]);
    (silent.machine.processors_busy_seconds, silent.machine.pressure.cpu_some) = (2.0, Some(0.3));
    assert_eq!(name(&window(vec![silent.clone(); 8])).0, StallKind::ClientPause);
    silent.machine.pressure.cpu_some = Some(0.95);
    assert_eq!(name(&window(vec![silent.clone(); 8])).0, StallKind::Processors);
    silent.machine.pressure.cpu_some = None;
    assert_eq!(name(&window(vec![silent; 8])).0, StallKind::Processors);
}

#[test]
fn a_crowd_that_was_there_before_is_told_as_one() {
    let mut before = quiet();
    (before.machine.processors_busy_seconds, before.ready) = (2.0, 1.5);
    let mut during = stopped(&[("Client", "ClientRead", 9.0)]);
    (during.commands, during.ready, during.machine.processors_busy_seconds, during.server_processors) =
        (400, 5.3, 2.0, 0.6);
    let (kind, sentence) = name_stall(&window(vec![during; 8]), &window(vec![before; 40]), 5000.0);
    assert_eq!(kind, StallKind::Processors, "{sentence}");
    assert!(sentence.contains("no processor was free: 5.3 of 16 backends waited for one, up from 1.5"), "{sentence}");
}

#[test]
fn who_is_blocked_misses_no_processor() {
    let mut during = stopped(&[("Lock", "relation", 15.0)]);
    during.machine.processors_busy_seconds = 2.0;
    during.holders = vec![holder("idle in transaction", Some(("Client", "ClientRead")))];
    assert_eq!(name(&window(vec![during.clone(); 8])).0, StallKind::Lock);
    during.ready = 4.0;
    during.holders = vec![holder("active", None)];
    assert_eq!(name(&window(vec![during; 8])).0, StallKind::Processors);
}

#[test]
fn temporary_files_are_behind_what_waits_for_their_device() {
    let flood = Written { writes: 4000, bytes: 4000 * 8192 };
    let during = Step {
        written: WrittenTo { temporary: flood, ..WrittenTo::default() },
        calls: vec![seen(call(77, FileCallKind::Fdatasync, &LOG, 3), "client backend", None)],
        ..stopped(&[("LWLock", "WALWrite", 13.0), ("IO", "WalSync", 1.0), ("IO", "BufFileWrite", 2.0)])
    };
    let (kind, sentence) = name(&window(vec![during; 8]));
    assert_eq!(kind, StallKind::TemporaryFiles);
    assert!(sentence.contains("temporary files: 250 MB were written within 4.0 s; "), "{sentence}");
}

#[test]
fn memory_a_device_and_a_checkpoint_have_their_names_and_the_rest_has_none() {
    let mut memory = stopped(&[("sleep", "no event", 12.0)]);
    memory.machine.pressure.memory_some = Some(0.63);
    let (kind, sentence) = name(&window(vec![memory; 8]));
    assert_eq!(kind, StallKind::Memory);
    assert!(sentence.contains("waited for it 63 % of the time, 0 % before"), "{sentence}");
    let mut reads = stopped(&[("IO", "DataFileRead", 15.0)]);
    reads.checkpoint = Some(CheckpointPhase::Writing);
    assert_eq!(name(&window(vec![reads.clone(); 8])).0, StallKind::Checkpoint);
    reads.machine.parts.insert("the data directory".to_owned(), device(1.0));
    let (kind, sentence) = name(&window(vec![reads; 8]));
    assert_eq!(kind, StallKind::Device);
    assert!(sentence.contains("the device of the data directory was busy 100 % of the time; 15 of 16"), "{sentence}");
    let limited = stopped(&[("IO", "DataFileRead", 15.0)]);
    let (kind, sentence) = name(&window(vec![limited; 8]));
    assert_eq!(kind, StallKind::Device);
    assert!(
        sentence.contains(
            "though the device of the data directory was busy only 30 % of the time: a limit, such as a cgroup's"
        ),
        "{sentence}"
    );
    let (kind, sentence) = name(&window(vec![stopped(&[("sleep", "no event", 12.0)]); 8]));
    assert_eq!(kind, StallKind::Unexplained);
    assert!(sentence.ends_with("no cause was found; 12 of 16 backends were in sleep:no event."), "{sentence}");
}

#[test]
fn a_stall_is_told_while_it_lasts_and_once_when_it_has_ended() {
    let mut stalls = Stalls::new(STEPS_OF_SECOND);
    let mut at = 0;
    let mut add = |stalls: &mut Stalls, step: Step, count: u64| {
        for _ in 0..count {
            at += 1;
            stalls.add(Step { end_ns: at * STEP_NS, wall_ms: (at * 250) as i64, ..step.clone() });
        }
    };
    add(&mut stalls, stopped(&[]), 20);
    add(&mut stalls, quiet(), 40);
    add(&mut stalls, stopped(&[("Client", "ClientRead", 16.0)]), 8);
    let ongoing = stalls.ongoing.as_ref().unwrap();
    assert_eq!((ongoing.kind, ongoing.end_ms, ongoing.length_ns), (StallKind::ClientPause, None, 8 * STEP_NS));
    add(&mut stalls, quiet(), 10);
    assert!(stalls.ongoing.is_none());
    let [stall] = &stalls.finished[..] else { panic!("{:?}", stalls.finished) };
    assert_eq!((stall.begin_ms, stall.end_ms), (60 * 250, Some(68 * 250)));
    assert_eq!((stall.least_per_second, stall.usual_per_second), (0.0, 5000.0));
    let mut gone = stopped(&[]);
    gone.backends = 0.0;
    add(&mut stalls, gone, 20);
    assert!(stalls.ongoing.is_none());
    assert_eq!(stalls.finish(false).len(), 1);
}

#[test]
fn a_quiet_server_has_no_stall() {
    let mut stalls = Stalls::new(STEPS_OF_SECOND);
    for place in 0..400_u64 {
        let mut step = quiet();
        step.commands = 1250 - (place * 7919 % 17) * 25;
        stalls.add(Step { end_ns: place * STEP_NS, ..step });
    }
    assert!(stalls.finish(false).is_empty());
}

#[test]
fn a_standstill_of_an_idle_server_is_no_stall() {
    let found = |count: f64, commands: u64, running: f64| {
        let mut stalls = Stalls::new(STEPS_OF_SECOND);
        let waits = |at_work: f64| BTreeMap::from([(("Client".to_owned(), "ClientRead".to_owned()), count - at_work)]);
        let step = |commands, running| Step { commands, backends: count, ready: 0.0, waits: waits(running), ..quiet() };
        window([vec![step(commands, running); 100], vec![step(0, 0.0); 100]].concat())
            .into_iter()
            .for_each(|step| stalls.add(step));
        stalls.finish(false).into_iter().map(|stall| stall.kind).collect::<Vec<_>>()
    };
    assert_eq!(found(5.0, 8, 0.02), []);
    assert_eq!(found(5.0, 8, 0.8), [StallKind::ClientPause], "the same number of long ones is a load");
    assert_eq!(found(1.0, 500, 0.7), [StallKind::ClientPause]);
}
