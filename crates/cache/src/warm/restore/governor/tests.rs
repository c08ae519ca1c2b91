use std::sync::atomic::AtomicUsize;

use super::*;
use crate::warm::Control;

impl Governor {
    pub fn note_traffic(&self) {
        self.lock().had_traffic = true;
    }
}

struct Fixed(Option<Busy>);

impl Traffic for Fixed {
    fn read_busy(&self) -> Option<Busy> {
        self.0
    }
}

/// Load after two seconds of such looks.
fn load_of(governor: &Governor, busy: Option<Busy>) -> Load {
    let mut looks = Looks::beginning(Load::Waiting);
    let times = (0..2000).step_by(LOOK_INTERVAL.as_millis() as usize).map(Duration::from_millis);
    times.map(|now| governor.look(&mut looks, now, true, &Fixed(busy)).0).last().unwrap()
}

#[test]
fn only_large_reads_that_nobody_crowds_out_measure_the_device() {
    assert!(measured_beside(Load::Idle, false, true).is_none());
    assert!(matches!(measured_beside(Load::Idle, true, false), Some(Beside::Nobody)));
    assert!(matches!(measured_beside(Load::Waiting, true, true), Some(Beside::OthersPushed)));
    assert!(measured_beside(Load::Waiting, true, false).is_none());
}

#[test]
fn a_gentle_restore_stays_so_beside_a_server_that_cannot_be_seen() {
    let new = |sharing| Governor::new(sharing, 16, None, planned(ProfileSource::Default));
    let gentle = new(Sharing::Gentle);
    assert_eq!(load_of(&gentle, None), Load::Waiting);
    gentle.note_no_server();
    assert_eq!(load_of(&gentle, None), Load::Idle, "nobody is there: full speed");
    assert!(!gentle.has_seen_server());

    let gentle = new(Sharing::Gentle);
    assert_eq!(load_of(&gentle, Some(Busy::default())), Load::Idle);
    assert!(gentle.has_seen_server());
    assert_eq!(load_of(&gentle, None), Load::Idle, "it was seen, and has stopped");
    assert_eq!(load_of(&new(Sharing::Fair), None), Load::Idle);
}

fn planned(source: ProfileSource) -> PlannedDevice {
    PlannedDevice { profile: DeviceProfile::default(), source }
}

#[test]
fn only_large_reads_at_the_devices_own_speed_show_its_bandwidth() {
    let shows = |max_rate, reads: u64, bytes: u64| {
        let governor = Governor::new(Sharing::Fair, 16, max_rate, planned(ProfileSource::Told));
        (0..reads).for_each(|_| governor.advance(bytes));
        governor.are_large(governor.lock().given)
    };
    assert!(shows(None, 10, 256 << 10));
    assert!(!shows(None, 10, 8 << 10));
    assert!(!shows(None, 0, 0));
    assert!(!shows(Some(Bytes(1 << 20)), 10, 256 << 10));
}

#[test]
fn for_the_end_of_a_restore_others_wait() {
    let governor = Governor::new(Sharing::Fair, 16, None, planned(ProfileSource::Told));
    let depth = |governor: &Governor, load| governor.allow(load).depth;
    let second = governor.lock().bandwidth.bytes;
    governor.begin_plan(Bytes(second.0 * 2));
    assert!(depth(&governor, Load::Waiting) < 16);
    governor.take(second.0);
    assert_eq!(depth(&governor, Load::Waiting), 16);
    assert!(depth(&governor, Load::Flowing) < 16, "they do not wait");
    governor.take(u64::MAX);
    assert_eq!(depth(&governor, Load::Waiting), 16);
    let gentle = Governor::new(Sharing::Gentle, 16, None, planned(ProfileSource::Told));
    gentle.begin_plan(Bytes(0));
    assert_eq!(depth(&gentle, Load::Waiting), 1);
}

#[test]
fn the_fewer_reads_others_leave_the_more_each_has_to_bring() {
    let needed = |max_rate, misses: u64| {
        let governor = Governor::new(Sharing::Fair, 16, max_rate, planned(ProfileSource::Told));
        governor.lock().others = Others::fetching(misses as f64 * 8192.0);
        governor.allow(Load::Waiting);
        governor.needed_per_read().0
    };
    assert_eq!(needed(None, 0), (125 << 20) / 3000);
    assert_eq!(needed(None, 1500), ((125 << 20) - 1500 * 8192) / 1500);
    assert_eq!(needed(None, 2500), ((125 << 20) - 2500 * 8192) / 500, "a cold server takes most of them");
    assert_eq!(needed(None, 5000), ((125 << 20) - 5000 * 8192) / 300, "and never all");
    assert_eq!(needed(Some(Bytes(1 << 20)), 1500), 0, "what a rate that was asked for brings is no lack of reads");
}

#[test]
fn a_device_that_nobody_told_has_the_reads_that_it_shows() {
    let show = |governor: &Governor, reads: u64, bytes: u64| {
        let start = Instant::now().checked_sub(Duration::from_secs(1)).map(|start| (start, governor.lock().given));
        (0..reads).for_each(|_| governor.advance(bytes / reads));
        governor.judge_shortage(start, Load::Waiting, Allowed { depth: 4, rate: None });
        governor.expected_reads()
    };
    let reads_after =
        |source, reads: u64, bytes: u64| show(&Governor::new(Sharing::Fair, 16, None, planned(source)), reads, bytes);
    let shown = reads_after(ProfileSource::Default, 200, 20_000_000);
    assert!((150.0..=200.0).contains(&shown), "{shown}");
    assert_eq!(reads_after(ProfileSource::Told, 200, 20_000_000), 3000.0);
    assert_eq!(reads_after(ProfileSource::Default, 600, 130_000_000), 3000.0, "it was short of bytes");
    let faltering = Governor::new(Sharing::Fair, 16, None, planned(ProfileSource::Default));
    show(&faltering, 2500, 130_000_000);
    let shown = show(&faltering, 500, 60_000_000);
    assert!((2000.0..=2500.0).contains(&shown), "a moment of less is not all that it has: {shown}");
}

#[test]
fn a_device_that_answers_nothing_for_a_while_stops_nothing() {
    let governor = Governor::new(Sharing::Fair, 16, None, planned(ProfileSource::Default));
    let start = Instant::now().checked_sub(Duration::from_secs(1)).map(|start| (start, governor.lock().given));
    governor.judge_shortage(start, Load::Waiting, Allowed { depth: 4, rate: None });
    assert_eq!(governor.expected_reads(), 3000.0, "nothing is known of its reads");
    let allowed = governor.allow(Load::Flowing);
    assert!(allowed.rate.is_some());
    governor.pace.wait(Bytes(8192), &Control::default());
}

#[test]
fn that_the_rest_is_cold_is_not_true_of_the_next_pass() {
    let governor = Governor::new(Sharing::Fair, 16, None, planned(ProfileSource::Told));
    governor.note_cold_rest();
    assert!(governor.lock().is_cold_rest);
    governor.begin_pass();
    assert!(!governor.lock().is_cold_rest);
}

#[test]
fn a_moment_of_somebodys_work_is_no_traffic() {
    let governor = Governor::new(Sharing::Fair, 16, None, planned(ProfileSource::Told));
    let busy = |running| Fixed(Some(Busy { running, waiting: 0 }));
    governor.begin(&busy(2));
    assert!(governor.situation() == Situation::Shared && !governor.may_read_in_order());
    governor.begin(&busy(1));
    assert_eq!(governor.situation(), Situation::Alone, "it may be the one that serves this restore");
    governor.apply(Allowed { depth: 16, rate: None });
    assert!(governor.may_read_in_order());
    governor.apply(Allowed { depth: 16, rate: Some(Bytes(1 << 40)) });
    assert!(!governor.may_read_in_order(), "a rate is to be kept");
    governor.judge_situation(Load::Flowing, BUSY_MIN - 1);
    assert!(governor.situation() == Situation::Alone && !governor.had_traffic());
    governor.judge_situation(Load::Waiting, BUSY_MIN);
    assert!(governor.situation() == Situation::Shared && governor.had_traffic());
    governor.judge_situation(Load::Waiting, 0);
    assert_eq!(governor.situation(), Situation::Shared, "until nobody is busy any more");
    governor.judge_situation(Load::Idle, 0);
    assert!(governor.situation() == Situation::Alone && governor.had_traffic(), "there was somebody");
}

#[test]
fn a_read_is_dearer_while_others_take_the_reads() {
    let governor = Governor::new(Sharing::Fair, 16, None, planned(ProfileSource::Told));
    governor.begin(&Fixed(Some(Busy { running: 0, waiting: 8 })));
    let most = governor.read_worth();
    assert_eq!((governor.worth_after(0.5) * 100.0) as u64, (most * 100.0) as u64);
    let DeviceProfile { reads_per_second, bandwidth, largest_read, .. } = DeviceProfile::default();
    let of_bytes = largest_read.seconds_at(bandwidth);
    assert!((4.0..6.0).contains(&most) && most / reads_per_second < of_bytes, "large reads pay for small ones: {most}");
    governor.lock().read_worth = 1.0;
    assert!((governor.worth_after(0.5) - READ_WORTH_STEP).abs() < 1e-9);
    governor.lock().read_worth = 2.9;
    assert!(governor.worth_after(0.9) == 2.9 && governor.worth_after(0.95) < 2.9);
    governor.begin(&Fixed(None));
    assert_eq!(governor.worth_after(0.5), 1.0, "nobody else is there");
}

#[test]
fn only_as_many_threads_read_as_the_traffic_leaves_room_for() {
    let governor = Governor::new(Sharing::Gentle, 16, None, planned(ProfileSource::Default));
    governor.enter(0, || panic!("the first may read at once"));
    let asked = AtomicUsize::new(0);
    governor.enter(1, || asked.fetch_add(1, Ordering::Relaxed) < 3);
    assert_eq!(asked.into_inner(), 4);
    assert_eq!(governor.lock().depth, 1);
}
