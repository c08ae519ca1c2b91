//! A ratio as people read it, with what is not known of it.

use super::statistics::{Limits, Ratio};

/// The median, and where there is one its interval: `0.43` and `0.40–0.47`. What is only limited is told as that:
/// `< 0.30`, `> 1.25`; `?` is anything.
pub fn render_ratio(ratio: &Ratio) -> (String, Option<String>) {
    (render_limits(ratio.median), ratio.interval.map(render_limits))
}

fn render_limits(limits: Limits) -> String {
    let low = render_number(limits.at_least);
    match limits.at_most.map(render_number) {
        Some(high) if high == low => low,
        Some(high) if limits.at_least == 0.0 => format!("< {high}"),
        Some(high) => format!("{low}–{high}"),
        None if limits.at_least == 0.0 => "?".to_owned(),
        None => format!("> {low}"),
    }
}

/// Two digits behind the point as far as they matter.
fn render_number(ratio: f64) -> String {
    match ratio {
        0.0 => "0".to_owned(),
        ..0.095 => format!("{ratio:.3}"),
        ..9.995 => format!("{ratio:.2}"),
        ..99.95 => format!("{ratio:.1}"),
        _ => format!("{ratio:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::compute_ratio;
    use super::*;

    #[test]
    fn what_is_only_limited_is_told_as_that() {
        let (two, beyond) = (Limits::exactly(2.0), Limits::reached(None, 10.0));
        let text = |pair| render_ratio(&compute_ratio(&[pair; 3]).unwrap()).0;
        assert_eq!(text((two, Limits::exactly(3.0))), "0.67");
        assert_eq!(text((two, beyond)), "< 0.20");
        assert_eq!(text((beyond, two)), "> 5.00");
        assert_eq!(text((beyond, beyond)), "?");
    }

    #[test]
    fn the_interval_stands_beside_the_median() {
        let pair = |value| (Limits::exactly(value), Limits::exactly(10.0));
        let ratio = compute_ratio(&[pair(0.5), pair(12.0), pair(300.0)]).unwrap();
        assert_eq!(render_ratio(&ratio), ("1.20".into(), Some("0.050–30.0".into())));
        assert_eq!(render_ratio(&compute_ratio(&[pair(5.0)]).unwrap()), ("0.50".into(), None));
    }
}
