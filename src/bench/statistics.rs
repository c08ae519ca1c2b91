//! The median, which every figure over repeats and seconds is.

/// The median of numbers that are all finite; `None` of an empty list.
pub fn compute_median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
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
