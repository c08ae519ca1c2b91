//! Popularity of rows as it is typed.

use std::str::FromStr;

use model::Popularity;

/// pgbench takes no greater parameter of a zipfian distribution (`MAX_ZIPFIAN_PARAM` in pgbench.c); of the others one that is as great
/// leaves a single row.
const PARAMETER_MAX: f64 = 1000.0;

/// Rows of pgbench_accounts on a page, where rows and pages have to be told apart.
const ROWS_PER_PAGE: f64 = 61.0;

/// How rows are chosen, as pgbench's random functions do.
#[derive(Clone, Debug, PartialEq)]
pub struct PopularityArgument(pub Popularity);

impl PopularityArgument {
    /// Over a relation with so many rows on a page, where that is known.
    pub fn over(&self, rows_per_page: Option<f64>) -> Popularity {
        match (&self.0, rows_per_page) {
            (Popularity::Zipfian { exponent, is_permuted, .. }, Some(rows_per_page)) => {
                Popularity::Zipfian { exponent: *exponent, rows_per_page, is_permuted: *is_permuted }
            }
            (told, _) => told.clone(),
        }
    }
}

impl FromStr for PopularityArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<PopularityArgument, String> {
        let wrong = || {
            "write uniform, zipfian:1.07, permuted:1.07, gaussian:5, exponential:10 or newest:0.1:0.99 (share of the pages, of the accesses)"
                .to_owned()
        };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let numbers: Vec<f64> = parts.map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        if numbers.iter().any(|number| !number.is_finite() || *number <= 0.0 || *number > PARAMETER_MAX) {
            return Err(wrong());
        }
        let zipfian =
            |exponent, is_permuted| Popularity::Zipfian { exponent, rows_per_page: ROWS_PER_PAGE, is_permuted };
        Ok(PopularityArgument(match (name, numbers[..].as_ref()) {
            ("uniform", []) => Popularity::Uniform,
            ("zipfian", [exponent]) => zipfian(*exponent, false),
            ("permuted", [exponent]) => zipfian(*exponent, true),
            ("gaussian", [parameter]) => Popularity::Gaussian { parameter: *parameter },
            ("exponential", [parameter]) => Popularity::Exponential { parameter: *parameter },
            ("newest", &[page_share, access_share]) if page_share < 1.0 && access_share <= 1.0 => {
                Popularity::Hot { page_share, access_share }
            }
            _ => return Err(wrong()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_is_named_as_pgbench_does() {
        let parse = |text: &str| text.parse::<PopularityArgument>();
        assert_eq!(parse("uniform"), Ok(PopularityArgument(Popularity::Uniform)));
        assert!(matches!(parse("permuted:1.07").unwrap().0, Popularity::Zipfian { is_permuted: true, .. }));
        assert!(parse("newest:0.1:0.99").is_ok());
        for text in [
            "zipfian:1e300",
            "gaussian:1001",
            "zipf",
            "zipfian",
            "gaussian:x",
            "newest:1.5:0.9",
            "exponential:-1",
            "uniform:3",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
