//! What `run` did for a job, in one paragraph.

use super::printable;
use crate::trace::{PutBack, RunReceipt};
use crate::units::{Bytes, counted};

/// The receipt as a paragraph.
pub fn render_run(receipt: &RunReceipt) -> String {
    let mut said = vec![format!("pgthaw: the job took {:.1} s", receipt.seconds)];
    let reason = printable(&receipt.decision.reason);
    match &receipt.preloaded {
        Some(done) => {
            let order = receipt.decision.way.name();
            let stopped = done.stopped.as_ref().map(|why| format!(", and stopped, for {}", printable(why)));
            said.push(format!(
                "{} in {} ({order}) were brought meanwhile, in {:.1} s{}, because {reason} (film {})",
                done.bytes,
                counted(done.reads, "read"),
                done.seconds,
                stopped.unwrap_or_default(),
                printable(receipt.film.as_deref().unwrap_or_default())
            ));
        }
        None => said.push(format!("nothing was preloaded, because {reason}")),
    }
    if let Some(kept) = &receipt.kept {
        let all = Bytes(kept.preloaded_bytes.0 + kept.fetched_bytes.0);
        let preloaded = match kept.preloaded_bytes {
            Bytes(0) => String::new(),
            bytes => format!(", {bytes} of it preloaded"),
        };
        let device = kept.device_reads.map(|reads| format!(" (the device served {})", counted(reads, "read")));
        said.push(format!("its new film has {all}{preloaded}{}", device.unwrap_or_default()));
    }
    if receipt.is_left_to_another {
        said.push("another run goes on, and puts back when it ends what was cached before".to_owned());
    }
    said.extend(receipt.put_back.as_ref().map(render_put_back));
    let mut text = format!("{}.", said.join("; "));
    for remark in receipt.remarks.iter().chain(receipt.put_back.iter().flat_map(|done| &done.remarks)) {
        text.push_str(&format!("\nnote: {}", printable(remark)));
    }
    text
}

/// What was put back.
pub fn render_put_back(done: &PutBack) -> String {
    let PutBack { brought_bytes, stayed_bytes, gone_bytes, back_bytes, .. } = done;
    let dropped = Bytes(brought_bytes.0.saturating_sub(stayed_bytes.0));
    let others = if done.runs > 1 { format!(" for {} runs", done.runs) } else { String::new() };
    let mut said = match *brought_bytes {
        Bytes(0) => format!("nothing that the job brought in had to go{others}"),
        _ => format!("{dropped} of the {brought_bytes} that the job brought in were dropped{others}"),
    };
    said.push_str(&match *gone_bytes {
        Bytes(0) => ", nothing was pushed out".to_owned(),
        _ => format!(", {back_bytes} of the {gone_bytes} that were pushed out are back"),
    });
    if let Some((gone, back)) = done.buffers_gone_bytes.zip(done.buffers_back_bytes).filter(|(gone, _)| gone.0 > 0) {
        said.push_str(&format!(", of shared_buffers {back} of {gone}"));
    }
    format!("{said}, measured after {:.1} s", done.seconds)
}
