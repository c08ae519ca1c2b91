use super::*;
use crate::time::source::OpenWait;

const SECOND: u64 = 1_000_000_000;
const LOCK: WaitEvent = WaitEvent::Number(0x0300_0005);

fn process(pid: u32, started_ns: u64, running_ns: u64, lock: Statistic) -> ProcessTimes {
    ProcessTimes {
        pid,
        started_ns,
        running_ns,
        ready_ns: Some(0),
        waits: vec![(LOCK, lock)],
        ..ProcessTimes::default()
    }
}

fn reading(at_ns: u64, processes: Vec<ProcessTimes>) -> Reading {
    Reading { at_ns, processes, ..Reading::default() }
}

fn backend(_: &ProcessTimes) -> Who {
    Who { kind: "client backend".into(), ..Who::default() }
}

#[test]
fn a_wait_is_seen_while_it_lasts_and_counted_once() {
    let mut accounting = Accounting::begin(
        reading(0, vec![process(1, 0, 0, Statistic::default())]),
        By::Kind,
        WaitNames::of_version(150_000),
    );
    for at in 1..=3 {
        let mut waiting = process(1, 0, 0, Statistic::of_time(0, at * SECOND));
        waiting.open = Some(OpenWait { event: LOCK, length_ns: at * SECOND });
        accounting.add(reading(at * SECOND, vec![waiting]), backend);
        let last = accounting.seconds[at as usize - 1];
        assert_eq!((last.shares.waiting_ns, last.explained), (SECOND, Some(1.0)));
    }
    accounting.finish();
    let (name, lock) = accounting.span.statistics.first_key_value().unwrap();
    assert_eq!([&name.place, &name.part, &name.detail], ["client backend", "Lock", "transactionid"]);
    assert_eq!((lock.count, lock.total_ns, lock.max_ns), (1, 3 * SECOND, Some(3 * SECOND)));
}

#[test]
fn of_another_source_nothing_is_added_up_that_was_before_it_began() {
    let ran = |pid, started_ns, running_ns| process(pid, started_ns, running_ns, Statistic::default());
    let mut accounting = Accounting::begin(reading(0, vec![ran(1, 0, 0)]), By::Kind, WaitNames::of_version(150_000));
    accounting.add(reading(SECOND, vec![ran(1, 0, SECOND)]), backend);
    let begin = reading(SECOND + 10_000_000, vec![ran(2, 900_000_000, 110_000_000)]);
    let next =
        |at_ns, begins_from| Reading { begins_from, ..reading(at_ns, vec![ran(2, 900_000_000, at_ns - 900_000_000)]) };
    accounting.follow_restart(WaitNames::of_version(180_000));
    accounting.add(next(2 * SECOND, Some(Box::new(begin.clone()))), backend);
    let shares = accounting.seconds[1].shares;
    assert_eq!((shares.lived_ns, shares.running_ns, accounting.processes), (990_000_000, 990_000_000, 2));
    accounting.add(next(3 * SECOND, Some(Box::new(begin))), backend);
    assert_eq!(accounting.processes, 2);
}

#[test]
fn a_span_that_was_taken_out_has_what_was_added_since() {
    let names = WaitNames::of_version(150_000);
    let mut accounting = Accounting::begin(reading(0, vec![process(1, 0, 0, Statistic::default())]), By::Kind, names);
    for at in 1..=2 {
        let mut waiting = process(1, 0, 0, Statistic::of_time(0, at * SECOND));
        waiting.open = Some(OpenWait { event: LOCK, length_ns: at * SECOND });
        accounting.add(reading(at * SECOND, vec![waiting]), backend);
        let span = accounting.take_span();
        assert_eq!((span.second.length_ns, span.clients.waiting_ns), (SECOND, SECOND));
        let (name, open) = span.open.first_key_value().unwrap();
        let expected = Lasting { count: 1, longest_ns: at * SECOND, within_ns: SECOND };
        assert_eq!(*open, expected, "it lasts, and is seen");
        assert_eq!((span.statistics[name].count, span.statistics[name].total_ns), (0, SECOND));
    }
    assert!(accounting.seconds.is_empty() && accounting.span.statistics.is_empty());
    assert_eq!(accounting.take_span().second, TimeSecond::default());
}

#[test]
fn who_comes_and_goes_lived_only_so_long() {
    let mut accounting = Accounting::begin(reading(0, Vec::new()), By::Backend, WaitNames::of_version(180_000));
    let short = ProcessTimes { ended_ns: Some(SECOND / 2), ..process(7, SECOND / 2 - 100, 100, Statistic::default()) };
    accounting.add(reading(SECOND, vec![short]), backend);
    accounting.add(reading(2 * SECOND, Vec::new()), backend);
    accounting.add(reading(2 * SECOND + SECOND / 100, Vec::new()), backend);
    assert_eq!((accounting.processes, accounting.total.lived_ns, accounting.total.running_ns), (1, 100, 100));
    assert_eq!(accounting.seconds[0].explained, Some(1.0));
    assert_eq!(accounting.seconds[1].explained, None, "nobody lived");
    assert_eq!((accounting.seconds.len(), accounting.seconds[1].length_ns), (2, SECOND + SECOND / 100));
    assert!(
        accounting
            .span
            .statistics
            .keys()
            .any(|name| (&*name.place, &*name.part, &*name.detail) == ("7 client backend", "processor", "running"))
    );
}

#[test]
fn who_serves_no_client_handles_no_command() {
    let mut accounting = Accounting::begin(reading(0, Vec::new()), By::Kind, WaitNames::of_version(130_000));
    let mut told = |kind: &str| {
        let handled = Statistic::of_time(3, 50);
        let waits = vec![(WaitEvent::Number(0), Statistic::of_time(1, 100))];
        let heard = ProcessTimes { commands: 3, handled, waits, ..process(1, 0, 0, Statistic::default()) };
        let counted = Reading { counts_commands: true, ..reading(accounting.at_ns + 100, vec![heard]) };
        accounting.add(counted, |_| Who { kind: kind.into(), ..Who::default() });
        let shares = accounting.seconds.pop().map(|second| second.shares).unwrap_or_default();
        accounting.before.clear();
        (shares.commands, shares.handled, shares.idle_ns, shares.no_event_ns)
    };
    assert_eq!(told("stats collector"), (Some(0), Some(0), 100, 0));
    assert_eq!(told("logger"), (Some(0), Some(0), 100, 0));
    assert_eq!(told("walreceiver"), (Some(0), Some(0), 0, 100));
    assert_eq!(told("walsender"), (Some(3), Some(3), 0, 100));
}

#[test]
fn a_command_that_lasts_is_counted_in_the_end() {
    let mut accounting = Accounting::begin(reading(0, Vec::new()), By::Kind, WaitNames::of_version(180_000));
    let handled = Statistic::of_time(0, SECOND);
    let lasting = ProcessTimes { handled, handling_ns: Some(SECOND), ..process(1, 0, SECOND, Statistic::default()) };
    accounting.add(reading(SECOND, vec![lasting]), backend);
    assert_eq!(accounting.handled[CLIENT_BACKEND].count, 0);
    accounting.finish();
    let handled = &accounting.handled[CLIENT_BACKEND];
    assert_eq!((handled.count, handled.average_ns(), handled.max_ns), (1, Some(SECOND), Some(SECOND)));
}

#[test]
fn what_is_looked_at_now_and_then_is_not_called_explained_nor_its_commands_none() {
    let mut accounting = Accounting::begin(reading(0, Vec::new()), By::Kind, WaitNames::of_version(180_000));
    let seen = ProcessTimes { ready_ns: None, ..process(1, 0, 100, Statistic::default()) };
    accounting.add(Reading { counts_commands: false, ..reading(100, vec![seen]) }, backend);
    assert_eq!((accounting.total.running_ns, accounting.total.explained()), (100, None));
    let TimeShares { commands, handled, handled_ns, switches, .. } = accounting.total;
    assert_eq!((commands, handled, handled_ns, switches), (None, None, None, None));
}

#[test]
fn where_receipts_are_given_up_no_more_are_handled_than_were_received() {
    let mut accounting = Accounting::begin(reading(0, Vec::new()), By::Kind, WaitNames::of_version(180_000));
    let handling = |pid, at_ns, commands, handled| ProcessTimes {
        commands,
        handled: Statistic::of_time(handled, at_ns),
        switches: 3,
        ..process(pid, 0, at_ns, Statistic::default())
    };
    let both = |at_ns, first: (u64, u64), second: (u64, u64)| {
        vec![handling(1, at_ns, first.0, first.1), handling(2, at_ns, second.0, second.1)]
    };
    let counted = Reading { counts_commands: true, ..reading(SECOND, both(SECOND, (5, 4), (1, 0))) };
    accounting.add(counted, backend);
    accounting.add(reading(2 * SECOND, both(2 * SECOND, (9, 9), (1, 1))), backend);
    accounting.add(reading(3 * SECOND, both(3 * SECOND, (9, 9), (1, 1))), backend);
    let told: Vec<_> = accounting.seconds.iter().map(|one| (one.shares.commands, one.shares.handled)).collect();
    assert_eq!(told, [(Some(6), Some(4)), (Some(4), Some(4)), (None, None)]);
    assert_eq!(accounting.seconds[2].shares.switches, Some(0), "the scheduler is still looked at");
    assert_eq!(accounting.handled[CLIENT_BACKEND].count, 10, "the lengths of all are known");
}

#[test]
fn what_nobody_knows_is_not_explained() {
    let mut accounting = Accounting::begin(reading(0, Vec::new()), By::Kind, WaitNames::of_version(180_000));
    let mut unknown = process(1, 0, 60, Statistic::default());
    unknown.waits = vec![(WaitEvent::Unknown, Statistic::of_time(1, 40))];
    accounting.add(reading(100, vec![unknown]), |_| Who { kind: POSTMASTER.into(), ..Who::default() });
    assert_eq!((accounting.total.unknown_ns, accounting.total.explained()), (40, Some(0.6)));
}

const MS: u64 = 1_000_000;

fn waits(lengths: &[u64], lasting_ns: u64) -> Statistic {
    let mut waits = Statistic::of_time(0, lengths.iter().sum::<u64>() + lasting_ns);
    lengths.iter().for_each(|length| waits.count(*length));
    waits
}

fn lasting(lengths: &[u64], length_ns: u64) -> ProcessTimes {
    let open = Some(OpenWait { event: LOCK, length_ns });
    ProcessTimes { open, ..process(1, 0, 0, waits(lengths, length_ns)) }
}

fn total_of(readings: Vec<(u64, ProcessTimes)>) -> Statistic {
    let mut readings = readings.into_iter().map(|(at_ns, one)| reading(at_ns, vec![one]));
    let mut accounting = Accounting::begin(readings.next().unwrap(), By::Kind, WaitNames::of_version(150_000));
    readings.for_each(|reading| accounting.add(reading, backend));
    accounting.finish();
    assert_eq!(accounting.span.statistics.len(), 1);
    accounting.span.statistics.into_values().next().unwrap()
}

#[test]
fn a_wait_that_had_begun_before_the_look_begins_with_it() {
    let alone = total_of(vec![(20 * MS, lasting(&[], 10 * MS)), (26 * MS, process(1, 0, 0, waits(&[13_600_000], 0)))]);
    assert_eq!((alone.count, alone.total_ns, alone.max_ns), (1, 3_600_000, Some(3_600_000)));
    let before = lasting(&[50 * MS], 10 * MS);
    let others = process(1, 0, 0, waits(&[50 * MS, 10_100_000, 200_000, 300_000], 0));
    let total = total_of(vec![(100 * MS, before), (106 * MS, others)]);
    assert_eq!((total.count, total.total_ns), (3, 600_000));
    assert!(
        (300_000..=600_000).contains(&total.max_ns.unwrap()) && total.quantile_ns(0.99) <= total.max_ns,
        "{total:?}"
    );
    let lasts = [10, 13, 16].map(|ms| ((10 + ms) * MS, lasting(&[], ms * MS)));
    let total = total_of(lasts.to_vec());
    assert_eq!((total.count, total.total_ns, total.max_ns), (1, 6 * MS, Some(6 * MS)));
}

#[test]
fn no_bucket_makes_a_total_longer_than_it_is() {
    // A longer wait before the observation hides which one of the bucket (4.2 to 8.4 ms) this was.
    let before = process(1, 0, 0, waits(&[50 * MS], 0));
    let total = total_of(vec![(100 * MS, before), (106 * MS, process(1, 0, 0, waits(&[50 * MS, 5 * MS], 0)))]);
    assert_eq!((total.count, total.total_ns, total.max_ns), (1, 5 * MS, Some(5 * MS)));
}

#[test]
fn a_command_that_had_been_received_before_the_look_begins_with_it() {
    let handling =
        |handled, handling_ns| ProcessTimes { handled, handling_ns, ..process(1, 0, 0, Statistic::default()) };
    let handled_of = |last: ProcessTimes| {
        let first = reading(20 * MS, vec![handling(waits(&[], 10 * MS), Some(10 * MS))]);
        let mut accounting = Accounting::begin(first, By::Kind, WaitNames::of_version(150_000));
        accounting.add(Reading { counts_commands: true, ..reading(26 * MS, vec![last]) }, backend);
        accounting.finish();
        accounting.handled[CLIENT_BACKEND]
    };
    let ended = handled_of(handling(waits(&[12 * MS], 0), None));
    assert_eq!((ended.count, ended.total_ns, ended.max_ns), (1, 2 * MS, Some(2 * MS)));
    let lasts = handled_of(handling(waits(&[], 16 * MS), Some(16 * MS)));
    assert_eq!((lasts.count, lasts.total_ns, lasts.max_ns), (1, 6 * MS, Some(6 * MS)));
}

fn asks(query: &'static str) -> impl Fn(&ProcessTimes) -> Who {
    move |_| Who { kind: CLIENT_BACKEND.into(), query: Some(query.into()), ..Who::default() }
}

fn by_query(accounting: Accounting) -> Vec<(String, u64, u64, Option<u64>)> {
    let told = accounting.span.statistics.into_iter();
    told.map(|(name, one)| (name.place, one.count, one.total_ns, one.max_ns)).collect()
}

#[test]
fn a_wait_has_the_query_that_it_began_in() {
    let begin = || {
        let begin = reading(0, vec![process(1, 0, 0, Statistic::default())]);
        let mut accounting = Accounting::begin(begin, By::Query, WaitNames::of_version(150_000));
        accounting.add(reading(SECOND, vec![lasting(&[], SECOND)]), asks("first"));
        accounting
    };
    let mut accounting = begin();
    accounting.add(reading(2 * SECOND, vec![process(1, 0, 0, waits(&[SECOND + 5 * MS], 0))]), asks("second"));
    accounting.finish();
    assert_eq!(by_query(accounting), [("first".to_owned(), 1, SECOND + 5 * MS, Some(SECOND + 5 * MS))]);
    let mut accounting = begin();
    let ended = SECOND + 5 * MS;
    let next =
        |lasting_ns| ProcessTimes { waits: vec![(LOCK, waits(&[ended], lasting_ns))], ..lasting(&[], lasting_ns) };
    accounting.add(reading(2 * SECOND, vec![next(300 * MS)]), asks("second"));
    assert_eq!(accounting.open[0].0.place, "first");
    accounting.add(reading(3 * SECOND, vec![next(1300 * MS)]), asks("third"));
    accounting.finish();
    let expected =
        [("first".to_owned(), 1, ended + 300 * MS, Some(ended)), ("second".to_owned(), 1, SECOND, Some(SECOND))];
    assert_eq!(by_query(accounting), expected);
}

#[test]
fn what_lasts_at_the_begin_has_the_query_of_then() {
    let handling = |count, handling_ns: Option<u64>, wait: ProcessTimes| {
        let handled = waits(&vec![11 * MS; count], handling_ns.unwrap_or(0));
        ProcessTimes { handled, handling_ns, ..wait }
    };
    let begin = reading(SECOND, vec![handling(0, Some(MS), lasting(&[], MS))]);
    let mut accounting = Accounting::begin(begin, By::Query, WaitNames::of_version(150_000));
    accounting.name_first(asks("first"));
    let ended = handling(1, None, process(1, 0, 0, waits(&[11 * MS], 0)));
    accounting.add(Reading { counts_commands: true, ..reading(2 * SECOND, vec![ended]) }, asks("second"));
    accounting.finish();
    let handled = accounting.handled.clone();
    assert_eq!((handled.len(), handled["first"].count, handled["first"].max_ns), (1, 1, Some(10 * MS)));
    assert_eq!((accounting.begun_before, accounting.lasting), (1, 0));
    assert_eq!(by_query(accounting), [("first".to_owned(), 1, 10 * MS, Some(10 * MS))]);
}

#[test]
fn pgthaws_own_sessions_are_in_no_figure() {
    let who = |process: &ProcessTimes| match process.pid {
        1 => Who { kind: PGTHAW.into(), ..Who::default() },
        _ => backend(process),
    };
    for by in [By::Kind, By::User, By::Query, By::Backend] {
        let both = |at_ns| vec![process(1, 0, at_ns, waits(&[], at_ns)), process(2, 0, at_ns, Statistic::default())];
        let mut accounting = Accounting::begin(reading(0, both(0)), by, WaitNames::of_version(180_000));
        accounting.name_first(who);
        accounting.add(reading(SECOND, both(SECOND)), who);
        let second = accounting.seconds[0];
        assert_eq!((accounting.processes, second.processes, second.shares.lived_ns), (1, 1, SECOND));
        assert_eq!((second.shares.waiting_ns, second.explained), (0, Some(1.0)));
        accounting.finish();
        assert_eq!((accounting.span.statistics.len(), accounting.span.lived.0.len(), accounting.open.len()), (1, 1, 0));
    }
}

#[test]
fn who_ended_while_it_was_read_lived_as_long_as_he_was_charged() {
    let begin = reading(0, vec![process(1, 0, 0, Statistic::default())]);
    let mut accounting = Accounting::begin(begin, By::Kind, WaitNames::of_version(150_000));
    let ended =
        ProcessTimes { ended_ns: Some(SECOND + 9 * MS), ..process(1, 0, SECOND + 9 * MS, Statistic::default()) };
    accounting.add(reading(SECOND, vec![ended]), backend);
    assert_eq!((accounting.total.lived_ns, accounting.total.explained()), (SECOND + 9 * MS, Some(1.0)));
}
