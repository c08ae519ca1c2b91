//! The report as a table; docs/schemas/waits-row.json lists the columns.

use clap::ValueEnum as _;
use command::table::{Cell, ExportColumn, Kind};
use observe::time::{NamedStatistic, TimeReport, TimeSecond};
use observe::{BUCKETS, Statistic};

/// Increased when a column's meaning changes.
const FORMAT_VERSION: u32 = 1;

const COLUMNS: &str = "kind:text second:integer until_ns:integer who:text part:text detail:text name:text \
    count:integer total_ns:integer min_ns:integer max_ns:integer";

const BUCKET_NAMES: &str = "bucket_00 bucket_01 bucket_02 bucket_03 bucket_04 bucket_05 bucket_06 bucket_07 bucket_08 bucket_09 \
    bucket_10 bucket_11 bucket_12 bucket_13 bucket_14 bucket_15 bucket_16 bucket_17 bucket_18 bucket_19 bucket_20 bucket_21 \
    bucket_22 bucket_23 bucket_24 bucket_25 bucket_26 bucket_27 bucket_28 bucket_29 bucket_30 bucket_31";

pub(super) fn columns() -> Vec<ExportColumn> {
    let buckets = BUCKET_NAMES.split(' ').map(|name| ExportColumn { name, kind: Kind::Integer });
    ExportColumn::parse_list(COLUMNS).chain(buckets).collect()
}

pub(super) fn facts(report: &TimeReport) -> [(&'static str, String); 6] {
    [
        ("pgthaw.waits_format_version", FORMAT_VERSION.to_string()),
        ("pgthaw.source", report.source.name().to_owned()),
        ("pgthaw.by", report.by.to_possible_value().map_or_else(String::new, |by| by.get_name().to_owned())),
        ("pgthaw.length_ns", report.length_ns.to_string()),
        ("pgthaw.processes", report.processes.to_string()),
        ("pgthaw.explained", report.explained.map_or_else(String::new, |share| share.to_string())),
    ]
}

/// One row for each statistic of the whole measurement, then one row for each quantity of each second, such as the time
/// `running`.
pub(super) fn rows(report: &TimeReport) -> Vec<Vec<Cell>> {
    let whole = [("statistic", &report.statistics), ("command", &report.handled_by)];
    let named = whole.into_iter().flat_map(|(kind, all)| all.iter().map(move |one| statistic_row(kind, one)));
    let seconds = (1..).zip(&report.seconds).flat_map(|(number, second)| second_rows(number, second));
    named.chain(seconds).collect()
}

fn statistic_row(kind: &str, named: &NamedStatistic) -> Vec<Cell> {
    let Statistic { count, total_ns, min_ns, max_ns, histogram } = named.statistic;
    let head = [
        text(kind),
        Cell::Integer(None),
        Cell::Integer(None),
        text(&named.place),
        text(&named.part),
        text(&named.detail),
        text(&named.name),
        integer(count),
        integer(total_ns),
        Cell::Integer(min_ns.map(signed)),
        Cell::Integer(max_ns.map(signed)),
    ];
    head.into_iter().chain(histogram.map(integer)).collect()
}

fn second_rows(number: u64, second: &TimeSecond) -> Vec<Vec<Cell>> {
    let shares = &second.shares;
    let kinds = [
        ("lived", Some(u64::from(second.processes)), Some(shares.lived_ns)),
        ("running", shares.switches, Some(shares.running_ns)),
        ("ready", None, shares.ready_ns),
        ("client", None, Some(shares.client_ns)),
        ("idle", None, Some(shares.idle_ns)),
        ("waiting", None, Some(shares.waiting_ns)),
        ("no_event", None, Some(shares.no_event_ns)),
        ("unknown", None, Some(shares.unknown_ns)),
        ("commands", shares.commands, None),
        ("handled", shares.handled, shares.handled_ns),
    ];
    let known = kinds.into_iter().filter(|(_, count, ns)| count.is_some() || ns.is_some());
    let row = |(name, count, ns): (&str, Option<u64>, Option<u64>)| {
        let head = [text("second"), integer(number), integer(second.until_ns)];
        let nobody = [Cell::Text(None), Cell::Text(None), Cell::Text(None)];
        let times = [text(name), Cell::Integer(count.map(signed)), Cell::Integer(ns.map(signed))];
        let lengths = std::iter::repeat_n(Cell::Integer(None), 2 + BUCKETS);
        head.into_iter().chain(nobody).chain(times).chain(lengths).collect()
    };
    known.map(row).collect()
}

fn text(text: &str) -> Cell {
    Cell::Text(Some(text.to_owned()))
}

fn integer(number: u64) -> Cell {
    Cell::Integer(Some(signed(number)))
}

/// Saturates; no run lasts 2^63 ns.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
