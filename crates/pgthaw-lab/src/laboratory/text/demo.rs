//! What `demo` shows beside its studies: what it is about, and where the memory was cold and got warm.

use std::fmt::Write as _;

use super::warmers::render_count;
use crate::study::{Disk, RelationResidency, ResidencyStrip, SweepTrial};
use crate::verdict::{Metric, PointSummary};
use host::units::Bytes;
use terminal::stdout_width;

/// Eighths of a character, from empty to full.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Characters of a strip, where there is room for as many, and of what else stands in its line.
const STRIP_CHARACTERS: usize = 32;
const BESIDE_STRIPS: usize = "    shared_buffers  []  []".len();

/// Relations that are shown: the largest.
const RELATIONS: usize = 4;

/// What is going to happen, in a few lines.
pub fn render_demo_plan(scale: u32, database: Bytes, disk: &Disk) -> String {
    let disk = super::sweep::render_disk(disk);
    format!(
        "A scratch PostgreSQL gets a database of scale {scale} ({database}) on the disk {disk}.\n\
         Each strategy starts from the same proven cold state, while pgbench runs against the server: in the first act \
         everything is needed, in the second one 99 % of the transactions need the newest tenth.\n\
         Ctrl-C ends it tidily at any time."
    )
}

/// What users got in an act, who served most first: `served in all, everything is needed: cat 898 k, pgthaw 861 k, …`.
pub fn render_served(title: &str, points: &[PointSummary]) -> String {
    let mut served: Vec<(&str, f64)> =
        points.iter().filter_map(|one| Some((one.label.as_str(), one.median(Metric::Served)?))).collect();
    served.sort_by(|one, other| other.1.total_cmp(&one.1));
    let served: Vec<String> = served.iter().map(|(name, count)| format!("{name} {}", render_count(*count))).collect();
    format!("served in all, {title}: {}", served.join(", "))
}

/// The largest relations before a trial and after it, each as a strip from its first block to its last.
pub fn render_before_and_after(trial: &SweepTrial) -> String {
    let room = stdout_width().map_or(STRIP_CHARACTERS, |width| width.saturating_sub(BESIDE_STRIPS) / 2);
    let mut text = format!("in memory before and after {}:", trial.point.strategy);
    for one in trial.warming.iter().flat_map(|warming| &warming.residency).take(RELATIONS) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}", render_relation(one, room.clamp(1, STRIP_CHARACTERS)));
    }
    text
}

fn render_relation(one: &RelationResidency, characters: usize) -> String {
    let tier = |name: &str, of: fn(&ResidencyStrip) -> &Vec<f32>| {
        let [before, after] = [&one.before, &one.after].map(|strip| render_strip(of(strip), characters));
        format!("    {name:14}  [{before}]  [{after}]")
    };
    let os = tier("page cache", |strip| &strip.os);
    let buffers = tier("shared_buffers", |strip| &strip.buffers);
    format!("  {}, {}\n{os}\n{buffers}", one.relation, one.total_bytes)
}

/// Shares 0 to 1 as levels; a piece that is not quite empty is never drawn as empty, nor one not quite full as full.
fn render_strip(shares: &[f32], characters: usize) -> String {
    let each = shares.len().div_ceil(characters).max(1);
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
        assert_eq!(render_strip(&[0.0, 0.0, 1.0, 1.0], 32), "  ██");
        assert_eq!(render_strip(&[0.001, 0.99], 32), "▁▇");
        assert_eq!(render_strip(&[0.5; 64], 32), "▄".repeat(32));
        assert_eq!(render_strip(&[], 32), "");
    }

    #[test]
    fn relations_have_a_strip_per_tier() {
        let strip = |share: f32| ResidencyStrip { os: vec![share; 64], buffers: vec![0.0; 64] };
        let relation = RelationResidency {
            course: None,
            relation: "public.pgbench_accounts".into(),
            kind: "table".into(),
            total_bytes: Bytes(640 << 20),
            before: strip(0.0),
            after: strip(1.0),
        };
        let size = relation.total_bytes;
        let (cold, warm) = (" ".repeat(32), "█".repeat(32));
        assert_eq!(
            render_relation(&relation, 32),
            format!(
                "  public.pgbench_accounts, {size}\n    page cache      [{cold}]  [{warm}]\n    shared_buffers  [{cold}]  [{cold}]"
            )
        );
        let narrow = render_relation(&relation, (80 - BESIDE_STRIPS) / 2);
        assert!(narrow.lines().all(|line| console::measure_text_width(line) <= 80), "{narrow}");
    }
}
