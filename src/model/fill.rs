//! How long a device needs to read a table once, row by row.

use super::Error;

/// Seconds until `rows` have been read by a device that seeks for each page, from its `megabytes_per_second` of random
/// reads and the `rows_per_megabyte` of the table. The estimate that Greg Smith's pgbench slides make for scale 100:
/// 10 million rows, 8064 rows in a megabyte, 1.1 MB/s.
pub fn compute_fill_seconds(rows: f64, rows_per_megabyte: f64, megabytes_per_second: f64) -> Result<f64, Error> {
    let rows = Error::check_positive("the number of rows", rows)?;
    let rows_per_second = Error::check_positive("the number of rows in a megabyte", rows_per_megabyte)?
        * Error::check_positive("the rate of random reads in MB/s", megabytes_per_second)?;
    Ok(rows / rows_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fill_time_of_the_slides() {
        assert_eq!(compute_fill_seconds(10e6, 8064.0, 1.1).unwrap().round(), 1127.0);
        assert!(compute_fill_seconds(10e6, 0.0, 1.1).is_err());
        assert!(compute_fill_seconds(f64::NAN, 8064.0, 1.1).is_err());
    }
}
