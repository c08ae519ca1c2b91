//! Which snapshot a restore takes, in words: what receipts, forecasts, lists and takes say of it.

use cache::{Holding, Reason, Selected};
use terminal::{printable, render_age};

/// Name and age, what it holds, why it was chosen, and a warmer one where there is one. Only the first line is not indented.
pub fn render_selected(selected: &Selected) -> Vec<String> {
    let Selected { holding, warmer, .. } = selected;
    let head = format!("snapshot {}, {}", printable(&holding.name), render_when(holding));
    let mut lines = vec![head, format!("  {}", render_held(holding)), format!("  why: {}", render_reason(selected))];
    if !selected.dropped_databases.is_empty() {
        let names: Vec<String> = selected.dropped_databases.iter().map(|name| printable(name).into()).collect();
        lines.push(format!("    not counted, as dropped since: {}", names.join(", ")));
    }
    if let Some(warmer) = warmer {
        let name = printable(&warmer.name);
        lines.push(format!("  a warmer one: {name}, {}", render_when(warmer)));
        lines.push(format!("    {}", render_held(warmer)));
        lines.push(format!("    `pgthaw restore {name}`"));
    }
    lines
}

/// Why it was chosen.
pub fn render_reason(selected: &Selected) -> String {
    let start = selected.server_started_at.map(|at| format!(" of {} UTC", at.strftime("%F %H:%M"))).unwrap_or_default();
    match selected.reason {
        Reason::Named => "it was named".to_owned(),
        Reason::NewestReadable => "the newest that can be read: the newest was asked for".to_owned(),
        Reason::WarmestBeforeStart => format!("the warmest from before the server's start{start}"),
        Reason::AsWarmSinceStart => format!("the newest as warm as those before the start{start}"),
        Reason::NewestSinceStart => {
            "the newest that holds something; none is from before the server's start".to_owned()
        }
        Reason::WarmestOfAll => "the warmest; no server runs, so all are from before its start".to_owned(),
        Reason::WarmestStartUnknown => {
            "the warmest; no server answers, so all count as from before its start".to_owned()
        }
    }
}

fn render_when(holding: &Holding) -> String {
    match holding.age_seconds {
        ..0 => format!("dated {} UTC, still to come", holding.taken_at.strftime("%F %T")),
        _ => format!("taken {}", render_age(holding.taken_at)),
    }
}

fn render_held(holding: &Holding) -> String {
    match (holding.os_bytes, holding.buffers_bytes) {
        (Some(os), Some(buffers)) => format!("holds {os} of the page cache and {buffers} of shared_buffers"),
        (Some(os), None) => format!("holds {os} of the page cache; shared_buffers were not seen"),
        (None, Some(buffers)) => format!("holds {buffers} of shared_buffers; the page cache was not seen"),
        (None, None) => "holds nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use host::units::Bytes;

    #[test]
    fn every_line_fits_a_terminal() {
        let holding = Holding {
            name: "20261122-213005.123-before-the-upgrade".into(),
            path: "x.parquet".into(),
            taken_at: Timestamp::UNIX_EPOCH,
            age_seconds: 1,
            os_bytes: Some(Bytes(12_345_678_901)),
            buffers_bytes: None,
        };
        let over_sql = Holding { os_bytes: None, buffers_bytes: Some(Bytes(999_900_000_000)), ..holding.clone() };
        let to_come = Holding { name: "20261122-213005.123".into(), age_seconds: -1, ..holding.clone() };
        for reason in [
            Reason::Named,
            Reason::NewestReadable,
            Reason::WarmestBeforeStart,
            Reason::AsWarmSinceStart,
            Reason::NewestSinceStart,
            Reason::WarmestOfAll,
            Reason::WarmestStartUnknown,
        ] {
            for holding in [&holding, &over_sql, &to_come] {
                let selected = Selected {
                    holding: holding.clone(),
                    reason,
                    server_started_at: Some(Timestamp::UNIX_EPOCH),
                    warmer: Some(over_sql.clone()),
                    dropped_databases: vec!["shop".into(), "archive_2025".into()],
                };
                let lines = render_selected(&selected);
                assert!(lines.iter().all(|line| line.len() < 80), "{lines:#?}");
            }
        }
    }
}
