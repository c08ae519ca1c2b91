//! What a hydration did, as text.

use cache::warm::TrafficReceipt;
use cache::warm::hydrate::{FinishedRun, HydrationReceipt};
use cache::warm::traffic::Sharing;
use host::units::{Bytes, counted};
use terminal::{printable, render_age};

/// What was read, what is left, and what failed.
pub fn render_hydration(receipt: &HydrationReceipt) -> String {
    let mut lines = match &receipt.finished_before {
        Some(FinishedRun { at, device }) => vec![format!(
            "nothing read: an earlier run {} ({at:.0}) on {device} touched everything; --again reads it again",
            render_age(*at)
        )],
        None => render_reads(receipt),
    };
    let TrafficReceipt { waiting_seconds, flowing_seconds, .. } = receipt.traffic;
    if receipt.traffic.sharing != Sharing::FullSpeed && waiting_seconds + flowing_seconds >= 1.0 {
        lines.push(format!(
            "the server worked for {:.1} s of it: few reads at a time meanwhile (--full-speed does not yield)",
            waiting_seconds + flowing_seconds
        ));
    }
    if receipt.failed_reads > 0 {
        lines.push(format!("{} failed:", counted(receipt.failed_reads, "read")));
        lines.extend(receipt.failures.iter().map(|failure| format!("  {}", printable(&failure.detail))));
    }
    lines.extend(receipt.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    lines.join("\n")
}

fn render_reads(receipt: &HydrationReceipt) -> Vec<String> {
    let HydrationReceipt { read_bytes, seconds, files, total_bytes, done_before_bytes, left_bytes, .. } = receipt;
    let rate = Bytes((read_bytes.0 as f64 / seconds.max(1e-3)) as u64).per_second();
    let mut lines =
        vec![format!("read {read_bytes} in {seconds:.1} s ({rate}), of {total_bytes} in {}", counted(*files, "file"))];
    lines.extend(
        receipt
            .resumed_from
            .map(|at| format!("{done_before_bytes} were done {} already; --again begins anew", render_age(at))),
    );
    match left_bytes {
        Bytes(0) if receipt.failed_reads > 0 => {
            lines.push("every block that could be listed has been touched".to_owned())
        }
        Bytes(0) => lines.push("every block has been touched".to_owned()),
        left => lines.push(format!("{left} are left: the next run goes on from here")),
    }
    lines
}
