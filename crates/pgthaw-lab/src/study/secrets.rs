//! Records are kept without what may be secret in them: as they are made, and once more as they are read.

use super::record::StrategyOutcome;
use super::sweep::{SweepRun, SweepTrial};
use postgres::{keep_document, keep_setting, keep_text};

/// What is recorded.
pub trait Record {
    /// Leaves out what may be secret ([`keep_text`]).
    fn hide_secrets(&mut self);
}

impl Record for StrategyOutcome {
    fn hide_secrets(&mut self) {
        hide_texts([&mut self.command, &mut self.output].into_iter().chain(&mut self.failure));
    }
}

impl Record for SweepRun {
    fn hide_secrets(&mut self) {
        for setting in &mut self.configuration {
            setting.value = setting.value.take().map(|value| keep_setting(&setting.name, value));
        }
        keep_document(&mut self.study);
        hide_texts(self.warnings.iter_mut().chain([&mut self.question]).chain(&mut self.source));
    }
}

impl Record for SweepTrial {
    fn hide_secrets(&mut self) {
        for settings in [&mut self.settings, &mut self.point.settings, &mut self.point.variables] {
            hide_settings(settings);
        }
        hide_texts([&mut self.command].into_iter().chain(&mut self.failure).chain(&mut self.warnings));
        hide_texts(self.file_system.iter_mut().flat_map(|own| &mut own.commands));
        hide_texts(self.devices.iter_mut().flat_map(|one| &mut one.file_system).flat_map(|own| &mut own.commands));
        self.strategy_outcome.iter_mut().for_each(Record::hide_secrets);
    }
}

fn hide_settings(settings: &mut [(String, String)]) {
    for (name, value) in settings {
        *value = keep_setting(name, std::mem::take(value));
    }
}

fn hide_texts<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    for text in texts {
        *text = keep_text(std::mem::take(text));
    }
}
