//! A progress bar of planned steps on stderr, on a terminal only.
#![forbid(unsafe_code)]

use dpopt_mechanism::progress::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shows how many steps are done, and how long the rest will take.
#[derive(Default)]
pub struct Bar(Mutex<Option<ProgressBar>>);

impl Bar {
    fn current(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Bar {
    fn start(&self, phase: &str, steps: u64) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:32} {pos}/{len} steps, about {eta} left") {
            bar.set_style(style);
        }
        bar.set_message(phase.to_string());
        *self.current() = Some(bar);
    }

    fn tick(&self) {
        if let Some(bar) = self.current().as_ref() {
            bar.inc(1);
        }
    }

    fn finish(&self) {
        if let Some(bar) = self.current().take() {
            bar.finish_and_clear();
        }
    }
}
