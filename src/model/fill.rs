//! How densely rows lie in a table, and how long a device needs to read them one by one.

use serde::Serialize;

use super::{Error, WarmUp};

/// Bytes of what the slides call a megabyte.
const MEGABYTE: f64 = 1_048_576.0;

/// The figures of Greg Smith's pgbench slides for a table: at scale 100, 10 million rows in 1240 MB are 8064 rows in a megabyte.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RowDensity {
    pub bytes_per_row: f64,
    pub rows_per_page: f64,
    /// Of 2²⁰ bytes.
    pub rows_per_mb: f64,
}

impl RowDensity {
    /// Of so many rows in so many bytes, both above 0.
    pub fn new(rows: f64, bytes: f64, page_bytes: f64) -> Result<RowDensity, Error> {
        let rows = Error::check_positive("the number of rows", rows)?;
        let bytes_per_row = Error::check_positive("the size of a table in bytes", bytes)? / rows;
        Ok(RowDensity {
            bytes_per_row,
            rows_per_page: page_bytes / bytes_per_row,
            rows_per_mb: MEGABYTE / bytes_per_row,
        })
    }
}

/// Until a table has been read row by row, each row a random read of the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FillTime {
    pub rows_per_second: f64,
    /// By the slides, which let each megabyte of random reads bring all of its rows: 1.1 MB/s × 8064 rows bring 10 million rows
    /// in 1127 s.
    pub fill_seconds: f64,
    /// By the model of one client that asks for rows at random, through the index where there is one, until fewer than 1 % of its
    /// transactions read.
    pub warm_after_seconds: f64,
}

impl FillTime {
    /// Of `pages` of a table, and of the index that finds a row. A warm transaction takes `hit_seconds`; all numbers are above 0.
    pub fn new(
        rows: f64,
        density: RowDensity,
        pages: &[f64],
        page_bytes: f64,
        reads_per_second: f64,
        hit_seconds: f64,
    ) -> Result<FillTime, Error> {
        let reads_per_second = Error::check_positive("the number of random reads in a second", reads_per_second)?;
        let rows_per_second = density.rows_per_mb * reads_per_second * page_bytes / MEGABYTE;
        let curve = WarmUp::parallel(pages, hit_seconds + reads_per_second.recip(), hit_seconds)?;
        Ok(FillTime {
            rows_per_second,
            fill_seconds: rows / rows_per_second,
            warm_after_seconds: curve.seconds_to_warm(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scale 100 on the server of the slides: 1240 MB of accounts, 171 MB of their index, 1.1 MB/s of seeks.
    const ROWS: f64 = 10e6;
    const PAGE: f64 = 8192.0;

    fn fill(rows: f64, reads_per_second: f64) -> Result<FillTime, Error> {
        let density = RowDensity::new(ROWS, 1240.0 * MEGABYTE, PAGE)?;
        FillTime::new(rows, density, &[1240.0 * 128.0, 171.0 * 128.0], PAGE, reads_per_second, 0.238e-3)
    }

    #[test]
    fn the_row_query_and_the_fill_time_of_the_slides() {
        let density = RowDensity::new(ROWS, 1240.0 * MEGABYTE, PAGE).unwrap();
        assert_eq!((density.bytes_per_row.round(), density.rows_per_page.round()), (130.0, 63.0));
        assert_eq!(density.rows_per_mb.round(), 8065.0);
        let fill = fill(ROWS, 1.1 * 128.0).unwrap();
        assert_eq!((fill.rows_per_second.round(), fill.fill_seconds.round()), (8871.0, 1127.0));
        // The slides measured 1408 s; random rows ask for pages again that are there, and for the index.
        assert!((1300.0..1600.0).contains(&fill.warm_after_seconds), "{fill:?}");
    }

    #[test]
    fn what_no_table_can_have_is_refused() {
        assert!(RowDensity::new(0.0, 1.0, PAGE).is_err() && RowDensity::new(f64::NAN, 1.0, PAGE).is_err());
        assert!(RowDensity::new(1.0, 0.0, PAGE).is_err());
        assert!(fill(ROWS, 0.0).is_err());
    }
}
