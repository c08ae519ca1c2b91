//! A span of seconds as one figure.

/// A value for each span; `None` where there is none.
pub type Column = Vec<Option<f64>>;

pub fn mean_of<T>(span: &[T], of: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    let (sum, count) = span.iter().filter_map(of).fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

pub fn most_of<T>(span: &[T], of: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    span.iter().filter_map(of).reduce(f64::max)
}

/// To three decimals: a page holds many of them.
pub fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { round(sum / count) } else { 0.0 }
}
