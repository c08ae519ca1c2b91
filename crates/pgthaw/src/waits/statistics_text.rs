//! Statistics of times as columns: how often, how long in all, in the mean, at most.

use observe::time::NamedStatistic;
use terminal::{Column, printable, render_ns};

/// What each of some statistics is of, under this title, and their figures.
pub fn statistic_columns(title: &str, shown: &[&NamedStatistic], name: fn(&NamedStatistic) -> &str) -> Vec<Column> {
    let cells = |cell: &dyn Fn(&NamedStatistic) -> String| shown.iter().map(|one| cell(one)).collect::<Vec<String>>();
    let optional = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), render_ns);
    vec![
        Column::text(title, 34, cells(&|one| printable(name(one)).into_owned())),
        Column::number("COUNT", 1, cells(&|one| one.statistic.count.to_string())),
        Column::number("TOTAL", 0, cells(&|one| render_ns(one.statistic.total_ns))),
        Column::number("AVERAGE", 3, cells(&|one| optional(one.average_ns))),
        Column::number("MAX", 2, cells(&|one| optional(one.statistic.longest_ns()))),
        Column::number("P99", 3, cells(&|one| optional(one.p99_ns))),
    ]
}
