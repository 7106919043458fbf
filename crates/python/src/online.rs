//! Games of many rounds, played from Python: the library's own game behind a lock.

use crate::accounting::json;
use crate::errors::{invalid, refused};
use crate::face::in_python;
use crate::kept::Kept;
use crate::session::{Charging, session_error};
use crate::stop::interruptible;
use dpopt::RunOptions;
use dpopt::online::{Experts, ExpertsOptions, OnlineError, explain_experts};
use dpopt::optimize::online::{ExpertLosses, PLAYERS, Player};
use pyo3::prelude::*;
use std::path::PathBuf;

/// experts, rounds, ε, δ, relation, rounds per user, player, "any" or "independent".
#[derive(FromPyObject)]
pub(crate) struct ExpertsFacts(usize, u64, f64, Option<f64>, String, u64, Option<String>, Option<String>);

impl ExpertsFacts {
    fn run(&self, charge: Option<Py<PyAny>>, insecure_seed: Option<u64>) -> PyResult<RunOptions> {
        Charging::run((self.2, self.3, &self.4), charge, insecure_seed)
    }

    fn options(&self) -> PyResult<ExpertsOptions> {
        let player = self.6.as_deref().map(named).transpose()?;
        let losses = match self.7.as_deref() {
            None => None,
            Some("any") => Some(ExpertLosses::Any),
            Some("independent") => Some(ExpertLosses::Independent),
            Some(_) => return Err(invalid("losses are any or independent")),
        };
        Ok(ExpertsOptions::default().rounds_per_user(self.5).player(player).losses(losses))
    }
}

fn named(name: &str) -> PyResult<Player> {
    let found = PLAYERS.iter().find(|player| player.name() == name);
    found.copied().ok_or_else(|| invalid(format!("there is no player `{name}`; choose lean, fresh, leader or blocks")))
}

pub(crate) fn failed(error: OnlineError) -> PyErr {
    match error {
        OnlineError::Session(why) => session_error(why),
        OnlineError::Option(why) => invalid(why),
        other => refused(other),
    }
}

/// What every player is proved to lose at most, as JSON.
#[pyfunction]
pub(crate) fn experts_plans(py: Python<'_>, facts: ExpertsFacts) -> PyResult<String> {
    let (run, options) = (facts.run(None, None)?, facts.options()?);
    interruptible(py, || {
        let plans = explain_experts(facts.0, facts.1, &run, &options).map_err(failed)?;
        let rows: Vec<serde_json::Value> = plans
            .iter()
            .map(|(player, plan)| match plan {
                Ok(plan) => serde_json::json!({
                    "player": player.name(), "regret_bound": plan.regret_bound, "losses": player.bounded_for().name(),
                    "batch": plan.batch, "block_ends": plan.block_ends,
                    "learning_rate": plan.learning_rate, "resampling": plan.resampling, "noise_std": plan.noise_std,
                    "epsilon": plan.certificate.bound().upper, "delta": plan.certificate.budget().delta(),
                }),
                Err(why) => serde_json::json!({
                    "player": player.name(), "losses": player.bounded_for().name(), "not_applicable": in_python(why),
                }),
            })
            .collect();
        json(&rows)
    })?
}

/// A game that is under way; one thread at a time.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct ExpertsGame(Kept<State>);

struct State {
    game: Experts,
    saved: bool,
    /// Rounds were observed since the last save.
    unsaved: bool,
}

impl ExpertsGame {
    fn of(game: Experts, saved: bool) -> Self {
        Self(Kept::new("game", State { game, saved, unsaved: false }))
    }
}

#[pymethods]
impl ExpertsGame {
    /// Plans and opens a game, charged to `charge`; with a path, one that can be resumed.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        facts: ExpertsFacts,
        session: Option<PathBuf>,
        charge: Option<Py<PyAny>>,
        insecure_seed: Option<u64>,
    ) -> PyResult<Self> {
        let (run, options) = (facts.run(charge, insecure_seed)?, facts.options()?);
        interruptible(py, || {
            let game = match &session {
                Some(path) => Experts::open_at(path, facts.0, facts.1, run, &options),
                None => Experts::open(facts.0, facts.1, run, &options),
            };
            Ok(Self::of(game.map_err(failed)?, session.is_some()))
        })?
    }

    /// Goes on with a game that was saved.
    #[staticmethod]
    fn resume(py: Python<'_>, session: PathBuf, moved: bool) -> PyResult<Self> {
        interruptible(py, || {
            let game = if moved { Experts::resume_moved(&session) } else { Experts::resume(&session) };
            Ok(Self::of(game.map_err(failed)?, true))
        })?
    }

    /// The expert of the coming round, written down before it is told; `None` after the last.
    fn play(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        interruptible(py, || {
            let mut state = self.0.own()?;
            if state.saved && state.unsaved {
                state.game.save().map_err(failed)?;
                state.unsaved = false;
            }
            Ok(state.game.play())
        })?
    }

    /// Losses of the round that was played for.
    fn observe(&self, py: Python<'_>, losses: Vec<f64>) -> PyResult<()> {
        py.detach(|| {
            let mut state = self.0.own()?;
            state.game.observe(&losses).map_err(failed)?;
            state.unsaved = true;
            Ok(())
        })
    }

    /// A round that tells nothing.
    fn observe_nothing(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut state = self.0.own()?;
            state.game.observe_nothing().map_err(failed)?;
            state.unsaved = true;
            Ok(())
        })
    }

    /// (experts, rounds, rounds per user, relation, ε, δ) that it was opened for.
    fn facts(&self) -> PyResult<(usize, u64, u64, String, f64, f64)> {
        let state = self.0.shown()?;
        let (problem, promised) = (state.game.problem(), state.game.guarantee());
        let relation = problem.neighbours.relation.name().to_owned();
        Ok((problem.experts, problem.rounds, problem.rounds_per_user, relation, promised.epsilon, promised.delta))
    }

    /// (rounds observed, who plays, proved regret, for which losses).
    fn standing(&self) -> PyResult<(u64, &'static str, f64, &'static str)> {
        let state = self.0.shown()?;
        let player = state.game.player();
        Ok((state.game.observed(), player.name(), state.game.regret_bound(), player.bounded_for().name()))
    }

    /// What is promised, as JSON.
    fn guarantee(&self) -> PyResult<String> {
        json(self.0.shown()?.game.guarantee())
    }
}
