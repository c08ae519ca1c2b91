//! Time and rate in columns: with a header that names them, or the first two.

use super::super::Error;
use super::time::parse_time;
use crate::pgbench::parse_number;

/// Where the columns are, and what separates them.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    separator: char,
    count: usize,
    time: usize,
    rate: usize,
    /// Is the column transactions in the interval, and not in a second?
    is_count: bool,
    reads: Option<usize>,
}

/// Figures of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    pub time: f64,
    /// Transactions per second; NaN where the cell is empty.
    pub rate: f64,
    /// Instead of a rate, when the column was one of counts.
    pub is_count: bool,
    /// Reads in the same unit as `rate`.
    pub reads: Option<f64>,
}

const TIMES: [&str; 10] =
    ["time", "t", "second", "seconds", "elapsed", "timestamp", "ts", "time_s", "seconds_elapsed", "elapsed_seconds"];
const RATES: [&str; 6] = ["rate", "tps", "throughput", "qps", "transactions_per_second", "rate_per_second"];
const COUNTS: [&str; 2] = ["transactions", "count"];
const READS: [&str; 4] = ["reads", "device_reads", "reads_per_second", "foreground_reads"];

impl Columns {
    /// What the first line that has figures or their names says; `None` when it is neither.
    pub fn detect(line: &str) -> Option<Columns> {
        let separator = [';', '\t', ','].into_iter().find(|separator| line.contains(*separator))?;
        let cells: Vec<String> = line.split(separator).map(normalise).collect();
        let place = |names: &[&str]| cells.iter().position(|cell| names.contains(&cell.as_str()));
        let count = cells.len();
        if let (Some(time), Some(rate)) = (place(&TIMES), place(&RATES).or_else(|| place(&COUNTS))) {
            let is_count = place(&RATES).is_none();
            return Some(Columns { separator, count, time, rate, is_count, reads: place(&READS) });
        }
        // Four numbers between commas may be two with decimal commas: that needs a header.
        let is_plain = count == 2 || (count == 3 && separator != ',');
        let are_numbers = is_plain && parse_time(&cells[0]).is_some() && parse_number(&cells[1]).is_some();
        are_numbers.then_some(Columns { separator, count, time: 0, rate: 1, is_count: false, reads: None })
    }

    /// Is this the line that names the columns?
    pub fn is_header(&self, line: &str) -> bool {
        line.split(self.separator).nth(self.time).is_some_and(|cell| TIMES.contains(&normalise(cell).as_str()))
    }

    /// The figures of line `number` of the file.
    pub fn parse(&self, line: &str, number: u64) -> Result<Figures, Error> {
        let cells: Vec<&str> = line.split(self.separator).map(|cell| cell.trim().trim_matches('"')).collect();
        if cells.len() == 2 * self.count && self.separator == ',' {
            return Err(Error::DecimalCommas { line: number });
        }
        if cells.len() != self.count {
            return Err(Error::BadLine { line: number, text: line.to_owned() });
        }
        let bad = |text: &str| Error::BadNumber { line: number, text: text.to_owned() };
        let cell_number = |text: &str| match text {
            "" => Ok(f64::NAN),
            text => parse_number(text).ok_or_else(|| bad(text)),
        };
        Ok(Figures {
            time: parse_time(cells[self.time]).ok_or_else(|| bad(cells[self.time]))?,
            rate: cell_number(cells[self.rate])?,
            is_count: self.is_count,
            reads: self.reads.map(|place| cell_number(cells[place])).transpose()?,
        })
    }
}

fn normalise(cell: &str) -> String {
    cell.trim().trim_start_matches('\u{feff}').trim_matches('"').to_ascii_lowercase().replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str, line: &str) -> Result<(f64, f64), Error> {
        Columns::detect(header).unwrap().parse(line, 2).map(|figures| (figures.time, figures.rate))
    }

    #[test]
    fn a_header_names_the_columns() {
        assert_eq!(read("time,latency,tps", "1,0.2,4711.5"), Ok((1.0, 4711.5)));
        assert_eq!(read("\u{feff}\"Seconds\";\"TPS\"", "1,5;4711,5"), Ok((1.5, 4711.5)));
        assert_eq!(read("timestamp\trate", "1970-01-01T00:00:10Z\t7"), Ok((10.0, 7.0)));
        let counts = Columns::detect("second,transactions,device_reads").unwrap();
        let figures = counts.parse("3,500,12", 4).unwrap();
        assert!(figures.is_count && figures.reads == Some(12.0));
    }

    #[test]
    fn without_a_header_there_are_two_columns() {
        assert_eq!(read("1,4711.5", "2,4712.5"), Ok((2.0, 4712.5)));
        for line in ["1,0,4711,3", "pgbench (18.1, server 15.3)", "starting vacuum...end.", "a;b"] {
            assert_eq!(Columns::detect(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(read("time,tps", "1,0,4711,3"), Err(Error::DecimalCommas { line: 2 }));
        assert!(matches!(read("time,tps", "1"), Err(Error::BadLine { .. })));
        assert!(matches!(read("time,tps", "1,many"), Err(Error::BadNumber { .. })));
        assert!(read("time,tps", "1,").unwrap().1.is_nan());
    }
}
