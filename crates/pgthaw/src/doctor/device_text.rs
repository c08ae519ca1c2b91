use std::path::Path;

use cache::warm::DeviceProfile;
use cache::warm::probe::{DepthPoint, DeviceRecord};
use host::linux::cgroup::ReadLimit;
use host::units::{Bytes, counted};
use terminal::{Column, render_age, render_columns};

pub fn render_device(record: &DeviceRecord, path: &Path) -> String {
    let measurement = &record.measurement;
    let DeviceProfile { reads_per_second, bandwidth, largest_read, depth, overlap, .. } = measurement.profile;
    let depths = &measurement.by_depth;
    let sizes = &measurement.by_size;
    let mut lines = vec![
        format!("{} ({}), limit: {}", record.device.name, record.device.major_minor, render_limit(record.limit)),
        format!(
            "  {}, {} (sequential {})",
            render_rate(depths, reads_per_second, depth),
            bandwidth.per_second(),
            measurement.sequential_bandwidth.per_second()
        ),
        format!(
            "  a single read takes {} (99th percentile {})",
            micros(measurement.latency_us_p50),
            micros(measurement.latency_us_p99)
        ),
        format!("  reads larger than {largest_read} gain little"),
        format!(
            "  time of reads in seconds = max(reads ÷ {reads_per_second:.0}, bytes ÷ {bandwidth}) + {:.0} % of the smaller term: error at most {:.0} %",
            (1.0 - overlap) * 100.0,
            measurement.profile_error_ratio_max * 100.0
        ),
        format!(
            "  time of reads in seconds = reads ÷ {:.0} + bytes ÷ {}: error at most {:.0} %",
            measurement.fit.reads_per_second,
            measurement.fit.bandwidth,
            measurement.fit.error_ratio_max * 100.0
        ),
        String::new(),
    ];
    lines.extend(render_columns(
        vec![
            Column::number("at a time", 0, depths.iter().map(|point| point.depth.to_string()).collect()),
            Column::number("reads/s", 0, depths.iter().map(|point| format!("{:.0}", point.reads_per_second)).collect()),
            Column::number("median", 0, depths.iter().map(|point| micros(point.latency_us_p50)).collect()),
            Column::number("99 %", 0, depths.iter().map(|point| micros(point.latency_us_p99)).collect()),
        ],
        None,
        "…",
    ));
    lines.push(String::new());
    lines.extend(render_columns(
        vec![
            Column::number("read size", 0, sizes.iter().map(|point| point.read_bytes.to_string()).collect()),
            Column::number("reads/s", 0, sizes.iter().map(|point| format!("{:.0}", point.reads_per_second)).collect()),
            Column::number("bandwidth", 0, sizes.iter().map(|point| point.bandwidth().per_second()).collect()),
        ],
        None,
        "…",
    ));
    lines.push(String::new());
    lines.extend(record.remarks.iter().map(|remark| format!("note: {remark}")));
    lines.push(format!(
        "the probe read {} with {} within {:.1} s; profile stored in {}",
        measurement.read_bytes,
        counted(measurement.reads, "read"),
        measurement.seconds,
        path.display()
    ));
    lines.join("\n")
}

pub fn render_profile(record: &DeviceRecord) -> String {
    let DeviceProfile { reads_per_second, bandwidth, largest_read, depth, .. } = record.measurement.profile;
    format!(
        "{reads_per_second:.0} reads/s, {}, largest useful read {largest_read}, useful queue depth {depth}, single read {}; limit: {}; measured {}",
        bandwidth.per_second(),
        micros(record.measurement.latency_us_p50),
        render_limit(record.limit),
        render_age(record.measured_at)
    )
}

pub fn render_limit(limit: ReadLimit) -> String {
    let reads = limit.reads_per_second.map(|riops| format!("{riops} reads/s"));
    let bytes = limit.read_bytes_per_second.map(Bytes::per_second);
    let parts: Vec<String> = reads.into_iter().chain(bytes).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// Random reads per second with `depth` reads at a time, and the maximum if another depth was faster.
fn render_rate(by_depth: &[DepthPoint], most: f64, depth: u32) -> String {
    let there = by_depth.iter().find(|point| point.depth == depth).map_or(most, |point| point.reads_per_second);
    let beyond = (there.round() < most.round()).then(|| format!(" (at most {most:.0})"));
    format!("{there:.0} random reads/s with {depth} at a time{}", beyond.unwrap_or_default())
}

fn micros(micros: f64) -> String {
    if micros < 999.5 { format!("{micros:.0} µs") } else { format!("{:.1} ms", micros / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::units::Bytes;

    #[test]
    fn limits_read_well() {
        assert_eq!(render_limit(ReadLimit::default()), "none");
        let limit = ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: Some(Bytes(125_000_000)) };
        assert_eq!(render_limit(limit), "3000 reads/s, 125 MB/s");
        let point =
            |depth, reads_per_second| DepthPoint { depth, reads_per_second, latency_us_p50: 1.0, latency_us_p99: 2.0 };
        let depths = [point(8, 62_586.0), point(16, 63_179.0)];
        assert_eq!(render_rate(&depths, 63_179.0, 8), "62586 random reads/s with 8 at a time (at most 63179)");
        assert_eq!(render_rate(&depths, 63_179.0, 16), "63179 random reads/s with 16 at a time");
        assert_eq!([micros(96.4), micros(1234.0)], ["96 µs", "1.2 ms"]);
    }
}
