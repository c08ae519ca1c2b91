//! The median, for whoever summarises.

/// The median of numbers that are all finite; `None` of an empty list.
pub fn compute_median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = if is_odd { *upper } else { below.iter().copied().fold(f64::NEG_INFINITY, f64::max) };
    Some(f64::midpoint(lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_odd_even_and_no_numbers() {
        assert_eq!(compute_median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(compute_median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(compute_median(vec![]), None);
    }
}
