//! A progress bar of planned steps on stderr: only on a terminal, only for work longer than a second.

use dpopt::progress::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Work that ends sooner shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state of the running phase.
struct Phase {
    name: String,
    steps: u64,
    done: u64,
    started: Instant,
    bar: Option<ProgressBar>,
}

/// Shows planned steps. Nothing in it depends on records.
pub(crate) struct Bar(Mutex<Option<Phase>>);

impl Bar {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn with(&self, change: impl FnOnce(&mut Option<Phase>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Progress for Bar {
    fn start(&self, phase: &str, steps: u64) {
        if std::io::stderr().is_terminal() {
            let phase = Phase { name: phase.into(), steps, done: 0, started: Instant::now(), bar: None };
            self.with(|p| *p = Some(phase));
        }
    }

    fn tick(&self) {
        self.with(|phase| {
            let Some(phase) = phase else { return };
            phase.done += 1;
            if phase.bar.is_none() && phase.started.elapsed() >= PATIENCE {
                let bar = ProgressBar::with_draw_target(Some(phase.steps), ProgressDrawTarget::stderr());
                if let Ok(style) = ProgressStyle::with_template("{msg} {bar:32} {pos}/{len} steps, about {eta} left") {
                    bar.set_style(style);
                }
                bar.set_message(phase.name.clone());
                phase.bar = Some(bar);
            }
            if let Some(bar) = &phase.bar {
                bar.set_position(phase.done);
            }
        });
    }

    fn finish(&self) {
        self.with(|phase| {
            if let Some(bar) = phase.take().and_then(|p| p.bar) {
                bar.finish_and_clear();
            }
        });
    }
}
