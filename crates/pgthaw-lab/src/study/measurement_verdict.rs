//! A finding, as it was told when the trial ended.

use serde::{Deserialize, Serialize};

use super::finding::Finding;

/// A finding, as it was told when the trial ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(type = "{ kind: string, sentence: string, remedy: string }"))]
pub struct MeasurementVerdict {
    #[serde(flatten)]
    pub finding: Finding,
    pub sentence: String,
    pub remedy: String,
}

impl From<Finding> for MeasurementVerdict {
    fn from(finding: Finding) -> MeasurementVerdict {
        MeasurementVerdict { sentence: finding.sentence(), remedy: finding.remedy(), finding }
    }
}

impl MeasurementVerdict {
    /// Of what was imported, where a study's remedies are none.
    pub fn of_import(finding: Finding) -> MeasurementVerdict {
        MeasurementVerdict { sentence: finding.sentence(), remedy: finding.import_remedy(), finding }
    }

    /// In one line.
    pub fn text(&self) -> String {
        format!("{}: {}", self.sentence, self.remedy)
    }
}

/// Verdicts as texts, for those who read no further.
pub fn texts_of(verdicts: &[MeasurementVerdict]) -> Vec<String> {
    verdicts.iter().map(MeasurementVerdict::text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Saturation, SaturationSign};
    use host::units::Bytes;

    #[test]
    fn a_verdict_comes_back_as_it_was_kept() {
        let saturation = Saturation {
            sign: SaturationSign::NeverIdle,
            threads: 1,
            cpu_ratio: 0.75,
            run_delay_ratio: 0.2,
            idle_backends_ratio: Some(0.8),
            lag_ratio: None,
            empty_tps: Some(40_000.4),
            unseen_hosts: vec!["bench1".into()],
        };
        for finding in [
            Finding::GeneratorSaturated(saturation),
            Finding::FsyncOff,
            Finding::GeneratorsApart { spread_ms: 120.5, uncertainty_ms: 2.5 },
            Finding::GeneratorsUnseen { hosts: vec!["bench1".into()] },
            Finding::FitsCache { cache: "memory".into(), database_bytes: Bytes(5), cache_bytes: Bytes(10) },
            Finding::Autovacuum { runs: 2, tables: vec!["pgbench_accounts".into()] },
            Finding::StrategyLeftOut { strategy: "vmtouch".into(), how: "apt-get install vmtouch".into() },
            Finding::StrategyFailed { strategy: "cat".into(), reason: "no".into() },
            Finding::NotInForce { what: "the limit".into(), reason: "no".into() },
        ] {
            let verdict = MeasurementVerdict::from(finding);
            let text = serde_json::to_string(&verdict).unwrap();
            for field in ["\"kind\"", "\"sentence\"", "\"remedy\""] {
                assert_eq!(text.matches(field).count(), 1, "{text}");
            }
            assert!(!verdict.remedy.is_empty() && verdict.text().contains(&verdict.sentence));
            assert_eq!(serde_json::from_str::<MeasurementVerdict>(&text).unwrap(), verdict);
        }
    }
}
