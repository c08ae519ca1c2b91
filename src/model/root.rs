//! Where a function of one variable passes a value.

/// Halvings after which an interval of doubles cannot shrink further in practice.
const HALVINGS: usize = 200;

/// The largest argument that is tried.
const LARGEST: f64 = 1e300;

/// The least x ≥ 0 with `f(x) >= target`, where `f` never falls; `None` when there is none. `guess` is a first scale of x,
/// above 0.
pub fn find_rise(f: impl Fn(f64) -> f64, target: f64, guess: f64) -> Option<f64> {
    if f(0.0) >= target {
        return Some(0.0);
    }
    let (mut low, mut high) = (0.0, guess);
    while f(high) < target {
        low = high;
        high *= 2.0;
        if high > LARGEST {
            return None;
        }
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) >= target { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_where_a_function_passes() {
        assert!((find_rise(|x| x * x, 2.0, 1e-3).unwrap() - 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(find_rise(|x| x + 5.0, 5.0, 1.0), Some(0.0));
        assert_eq!(find_rise(|x| 1.0 - (-x).exp(), 2.0, 1.0), None);
    }
}
