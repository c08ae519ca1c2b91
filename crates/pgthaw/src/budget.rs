//! What looking at a server may cost.

use clap::Args;

use observe::time::ACCOUNT_DEAR;

/// The flag of every command that looks on.
#[derive(Clone, Copy, Debug, Args)]
pub struct BudgetArguments {
    /// Look at less when looking costs more of all processors than so many percent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value_t = 100.0 * ACCOUNT_DEAR)]
    budget: f64,
}

impl BudgetArguments {
    /// Of all processors, 0 to 1.
    pub fn share(self) -> f64 {
        self.budget / 100.0
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "a number from 0 to 100 is wanted".to_owned())
}
