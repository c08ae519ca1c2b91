//! Decodes slots, the BPF program's records of processes, from 64-bit words. time.bpf.c has the same layout.

use super::files::{STATISTIC_WORDS as STATISTIC, parse_statistic};
use crate::time::{OpenWait, ProcessTimes, WaitEvent};

/// Maximum distinct waits of a process. Further ones share one statistic.
const EVENTS: usize = 24;

const HEAD: usize = 32;
pub(super) const CALL: usize = 19;

/// The C compiler pads a statistic to lines of 64 bytes.
const STRIDE: usize = STATISTIC.next_multiple_of(8);

const WAITS: usize = HEAD + STRIDE;

/// Index of the current command's receipt time. The time is 0 without a command.
const RECEIVED: usize = 9;

/// Index of the time not yet charged to the wait's statistic.
const OWED: usize = 2;
/// Index of the process's processor time at the last switch.
const EXEC: usize = 8;

const PID: usize = 15;
const BIRTH: usize = 18;

pub(super) const SLOT_WORDS: usize = WAITS + (EVENTS + 1) * STRIDE;

pub(super) const SLOTS: usize = 2048;

/// 0 in an unused slot.
pub(super) const STARTED: usize = 16;

/// 0 while the process lives.
pub(super) const ENDED: usize = 17;

/// Stands for a wait event that could not be read.
const UNKNOWN: u32 = u32::MAX;
/// Stands for all wait events of a process beyond the first `EVENTS`.
const FURTHER: u32 = u32::MAX - 1;

const RUNNING: u64 = 1;
const READY: u64 = 2;
const WAITING: u64 = 3;

/// Wait of a client backend for a command, and class of waits of idle background processes.
const CLIENT_READ: u32 = 0x0600_0000;
const ACTIVITY: u32 = 0x05;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Ready,
    /// Asleep in this event; `None` if unreadable.
    Waiting(Option<u32>),
}

/// Slot of a process older than the probe. A command in progress counts as received now.
pub(super) fn new_slot(pid: u32, birth: u64, now_ns: u64, exec_ns: u64, first: First) -> [u64; SLOT_WORDS] {
    let mut words = [0; SLOT_WORDS];
    words[1] = now_ns;
    words[EXEC] = exec_ns;
    words[3] = READY;
    words[PID] = pid.into();
    words[STARTED] = now_ns;
    words[BIRTH] = birth;
    let is_handling = match first {
        First::Ready => true,
        First::Waiting(event) => event.is_some_and(|event| event != CLIENT_READ && event >> 24 != ACTIVITY),
    };
    words[RECEIVED] = if is_handling { now_ns } else { 0 };
    if let First::Waiting(event) = first {
        let event = event.unwrap_or(UNKNOWN);
        // time.bpf.c chooses the same statistic.
        let place = event.wrapping_mul(0x9e37_79b1) >> 28;
        words[3] = WAITING | u64::from(place) << 32;
        words[WAITS + place as usize * STRIDE] = u64::from(event) | 1 << 32;
    }
    words
}

/// Decodes a slot. Charges the current state's time up to `at_ns`; none if the state began later.
pub(super) fn parse_slot(words: &[u64], at_ns: u64) -> ProcessTimes {
    let ended_ns = (words[ENDED] != 0).then_some(words[ENDED]);
    let open_ns = at_ns.saturating_sub(words[1]);
    let (state, open_place) = (words[3] & 0xffff, (words[3] >> 32) as usize);
    let of = |wanted| if state == wanted && ended_ns.is_none() { open_ns } else { 0 };
    // Length of a wait not yet counted, including sleeps before spurious wakeups.
    let length_ns = words[4] + of(WAITING);
    let (mut waits, mut open) = (Vec::new(), None);
    for (place, statistic) in words[WAITS..].chunks_exact(STRIDE).take(EVENTS + 1).enumerate() {
        if statistic[0] >> 32 == 0 {
            continue;
        }
        let (event, mut statistic) = (event_of(statistic[0] as u32), parse_statistic(statistic));
        if place == open_place.min(EVENTS) && length_ns > 0 && ended_ns.is_none() {
            statistic.total_ns += words[OWED] + of(WAITING);
            // Only waits for locks or pins may continue after a wakeup.
            let has_ended = state == READY && words[OWED] > 0 && !may_go_on(&event);
            if has_ended {
                // The BPF program counts an ended wait only when the process runs again, so it is counted here.
                statistic.count(length_ns);
            }
            open = (!has_ended).then(|| OpenWait { event: event.clone(), length_ns });
        }
        waits.push((event, statistic));
    }
    let mut handled = parse_statistic(&words[HEAD..WAITS]);
    let is_handling = words[RECEIVED] != 0 && ended_ns.is_none();
    let handling_ns = is_handling.then(|| at_ns.saturating_sub(words[RECEIVED]));
    handled.total_ns += handling_ns.unwrap_or_default();
    ProcessTimes {
        pid: words[PID] as u32,
        birth: words[BIRTH],
        started_ns: words[STARTED],
        ended_ns,
        running_ns: words[5] + of(RUNNING),
        ready_ns: Some(words[6] + of(READY)),
        switches: words[7],
        commands: words[10],
        handled,
        handling_ns,
        waits,
        open,
        call: None,
        recovered: words[12],
        recovered_ns: words[13],
        wakes_missed: words[14],
    }
}

/// False for a running process, which may have left its call unnoticed.
pub(super) fn is_in_call(words: &[u64]) -> bool {
    words[3] & 0xffff > RUNNING && (words[3] >> 16) as u16 != 0 && words[ENDED] == 0
}

/// Whether one wait may take several sleeps, as in time.bpf.c: class Lock and buffer pins.
fn may_go_on(event: &WaitEvent) -> bool {
    matches!(event, WaitEvent::Number(number) if number >> 24 == 0x03 || *number == 0x0400_0000)
}

fn event_of(number: u32) -> WaitEvent {
    match number {
        UNKNOWN => WaitEvent::Unknown,
        FURTHER => WaitEvent::Further,
        number => WaitEvent::Number(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Statistic;

    const LOCK: u32 = 0x0300_0005;

    #[test]
    fn what_is_open_is_charged_until_the_instant() {
        let mut words = new_slot(7, 5, 1000, 40, First::Waiting(Some(LOCK)));
        let waiting = parse_slot(&words, 1500);
        assert_eq!((waiting.pid, waiting.birth, waiting.started_ns, waiting.running_ns), (7, 5, 1000, 0));
        assert_eq!(waiting.waits, [(WaitEvent::Number(LOCK), Statistic::of_time(0, 500))]);
        assert_eq!(waiting.open, Some(OpenWait { event: WaitEvent::Number(LOCK), length_ns: 500 }));
        assert_eq!(parse_slot(&words, 900).waits[0].1.total_ns, 0);
        let place = (words[3] >> 32) as usize;
        (words[1], words[3], words[4]) = (1300, 2 | (place as u64) << 32, 300);
        words[WAITS + place * STRIDE + 2] = 300;
        let ready = parse_slot(&words, 1500);
        assert_eq!((ready.ready_ns, ready.waits[0].1.total_ns), (Some(200), 300));
        assert_eq!(ready.open.unwrap().length_ns, 300, "the wait may go on");
        // The waker left 100 ns uncharged.
        words[OWED] = 100;
        let owed = parse_slot(&words, 1500);
        assert_eq!((owed.waits[0].1.total_ns, owed.open.unwrap().length_ns), (400, 300));
        words[OWED] = 0;
        (words[1], words[3], words[4], words[ENDED]) = (1400, (place as u64) << 32, 0, 1400);
        let ended = parse_slot(&words, 1500);
        assert_eq!((ended.ended_ns, ended.open, ended.ready_ns), (Some(1400), None, Some(0)));
    }

    #[test]
    fn who_was_woken_from_no_lock_waits_no_more() {
        let mut words = new_slot(7, 5, 1000, 40, First::Waiting(Some(CLIENT_READ)));
        (words[1], words[OWED], words[4]) = (1300, 300, 300);
        words[3] = 2 | words[3] >> 32 << 32;
        let ready = parse_slot(&words, 1500);
        let wait = ready.waits[0].1;
        assert_eq!((ready.ready_ns, wait.total_ns, ready.open), (Some(200), 300, None));
        assert_eq!((wait.count, wait.max_ns), (1, Some(300)), "it is over, though its process has not run since");
    }

    #[test]
    fn a_command_is_handled_from_its_receipt_on() {
        let mut words = new_slot(7, 5, 1000, 40, First::Ready);
        (words[HEAD + 1], words[HEAD + 2], words[RECEIVED]) = (3, 900, 1200);
        let handling = parse_slot(&words, 1500).handled;
        assert_eq!((handling.count, handling.total_ns), (3, 1200), "one that is handled now has its time so far");
        words[RECEIVED] = 0;
        assert_eq!(parse_slot(&words, 1500).handled.total_ns, 900);
    }

    #[test]
    fn a_command_that_was_received_before_has_the_part_that_is_seen() {
        let waits = |event| First::Waiting(Some(event));
        for (first, handled_ns) in [
            (First::Ready, 500),
            (waits(LOCK), 500),
            (waits(0), 500),
            (waits(CLIENT_READ), 0),
            (waits(0x0500_0003), 0),
            (First::Waiting(None), 0),
        ] {
            let told = parse_slot(&new_slot(7, 5, 1000, 40, first), 1500);
            assert_eq!((told.handled.total_ns, told.handling_ns.unwrap_or(0)), (handled_ns, handled_ns), "{first:?}");
            assert_eq!((told.commands, told.handled.count), (0, 0), "it is counted when it ends");
        }
    }

    #[test]
    fn who_sleeps_in_a_call_is_in_it_and_who_runs_may_have_left() {
        let mut words = new_slot(7, 5, 1000, 40, First::Waiting(Some(LOCK)));
        assert!(!is_in_call(&words));
        words[3] |= 1 << 16;
        assert!(is_in_call(&words));
        assert_eq!(parse_slot(&words, 1500).open.unwrap().length_ns, 500);
        words[3] = 1 << 16 | 1;
        assert!(!is_in_call(&words));
    }

    #[test]
    fn histograms_are_pairs_of_halves() {
        let mut words = [0; STATISTIC];
        assert_eq!(parse_statistic(&words), Statistic::default());
        (words[1], words[5], words[20]) = (9, 3 << 32 | 2, 4 << 32);
        let statistic = parse_statistic(&words);
        let histogram = statistic.histogram;
        assert_eq!((statistic.count, histogram[0], histogram[1], histogram[31]), (9, 2, 3, 4));
    }

    #[test]
    fn first_slots_of_all_events_have_their_place() {
        for event in [0, 1, LOCK, UNKNOWN] {
            let slot = new_slot(1, 1, 1, 0, First::Waiting(Some(event)));
            assert_eq!(parse_slot(&slot, 1).waits[0].0, event_of(event));
        }
        assert!(parse_slot(&new_slot(1, 1, 1, 0, First::Ready), 9).waits.is_empty());
    }
}
