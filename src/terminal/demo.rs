//! What `demo` shows beside the tournament: what it is about, and where the memory was cold and got warm.

use std::fmt::Write as _;

use super::tournament::render_count;
use crate::bench::{Disk, RelationResidency, ResidencyStrip, Summary, Trial};
use crate::units::Bytes;

/// Eighths of a character, from empty to full.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Characters of a strip.
const STRIP_CHARACTERS: usize = 32;

/// Relations that are shown: the largest.
const RELATIONS: usize = 4;

/// What is going to happen, in a few lines.
pub fn render_demo_plan(scale: u32, database: Bytes, disk: &Disk) -> String {
    let disk = super::render_disk(disk);
    format!(
        "A scratch PostgreSQL gets a database of scale {scale} ({database}) on the disk {disk}.\n\
         Each strategy starts from the same proven cold state, while pgbench runs against the server: in the first act\n\
         everything is needed, in the second one 99 % of the transactions need the newest tenth.\n\
         Ctrl-C ends it tidily at any time."
    )
}

/// What users got in an act, who served most first: `served in all, everything is needed: cat 898 k, pgthaw 861 k, …`.
pub fn render_served(title: &str, summary: &Summary) -> String {
    let mut served: Vec<(&str, f64)> =
        summary.strategies.iter().filter_map(|one| Some((one.strategy.as_str(), one.served.median?))).collect();
    served.sort_by(|one, other| other.1.total_cmp(&one.1));
    let served: Vec<String> = served.iter().map(|(name, count)| format!("{name} {}", render_count(*count))).collect();
    format!("served in all, {title}: {}", served.join(", "))
}

/// The largest relations before a trial and after it, each as a strip from its first block to its last.
pub fn render_before_and_after(trial: &Trial) -> String {
    let mut text = format!("in memory before and after {}:", trial.strategy);
    let shown = &trial.residency[..trial.residency.len().min(RELATIONS)];
    let width = shown.iter().map(|one| one.relation.chars().count()).max().unwrap_or(0);
    for one in shown {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}", render_relation(one, width));
    }
    text
}

fn render_relation(one: &RelationResidency, width: usize) -> String {
    let tier = |name: &str, of: fn(&ResidencyStrip) -> &Vec<f32>| {
        format!("{name}  [{}]  [{}]", render_strip(of(&one.before)), render_strip(of(&one.after)))
    };
    let size = one.total_bytes;
    let os = tier("page cache    ", |strip| &strip.os);
    let buffers = tier("shared_buffers", |strip| &strip.buffers);
    format!("  {:width$} {size:>8}  {os}\n  {:width$} {:8}  {buffers}", one.relation, "", "")
}

/// Shares 0 to 1 as levels; a piece that is not quite empty is never drawn as empty, nor one not quite full as full.
fn render_strip(shares: &[f32]) -> String {
    let each = shares.len().div_ceil(STRIP_CHARACTERS).max(1);
    shares.chunks(each).map(|chunk| LEVELS[level(chunk.iter().sum::<f32>() / chunk.len() as f32)]).collect()
}

fn level(share: f32) -> usize {
    match share {
        empty if empty <= 0.0 => 0,
        full if full >= 0.999 => 8,
        partly => ((partly * 8.0).round() as usize).clamp(1, 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_is_honest_at_its_ends() {
        assert_eq!(render_strip(&[0.0, 0.0, 1.0, 1.0]), "  ██");
        assert_eq!(render_strip(&[0.001, 0.99]), "▁▇");
        assert_eq!(render_strip(&[0.5; 64]), "▄".repeat(32));
        assert_eq!(render_strip(&[]), "");
    }

    #[test]
    fn relations_have_a_strip_per_tier() {
        let strip = |share: f32| ResidencyStrip { os: vec![share; 64], buffers: vec![0.0; 64] };
        let relation = RelationResidency {
            relation: "public.pgbench_accounts".into(),
            kind: "table".into(),
            total_bytes: Bytes(640 << 20),
            before: strip(0.0),
            after: strip(1.0),
        };
        let lines = render_relation(&relation, 23);
        assert!(
            lines.contains(&format!("640 MB  page cache      [{}]  [{}]", " ".repeat(32), "█".repeat(32))),
            "{lines}"
        );
    }
}
