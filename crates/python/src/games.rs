//! Games of points and of arms, played from Python: the library's own behind a lock.

use crate::accounting::json;
use crate::errors::invalid;
use crate::kept::Kept;
use crate::online::failed;
use crate::session::Charging;
use crate::stop::interruptible;
use dpopt::RunOptions;
use dpopt::online::{Bandit, BanditOptions, Convex, ConvexOptions, explain_bandit, explain_convex};
use dpopt::optimize::online::{ArmPlan, ArmPlayer, BanditPlan, BanditProblem, ConvexPlan, Losses, PlayRegion, Rewards};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, ToPyArray};
use pyo3::prelude::*;
use serde_json::json as value;
use std::path::PathBuf;

/// (lower, upper) of a box, or (centre, radius) of a ball; L, rounds, ε, δ, relation, "linear" or "convex", rounds per user.
#[derive(FromPyObject)]
pub(crate) struct ConvexFacts(Vec<f64>, Vec<f64>, Option<f64>, f64, u64, f64, Option<f64>, String, String, u64);

impl ConvexFacts {
    fn region(&self) -> PlayRegion {
        match self.2 {
            Some(radius) => PlayRegion::Ball { centre: self.0.clone(), radius },
            None => PlayRegion::Box { lower: self.0.clone(), upper: self.1.clone() },
        }
    }

    fn run(&self, charge: Option<Py<PyAny>>, insecure_seed: Option<u64>) -> PyResult<RunOptions> {
        Charging::run((self.5, self.6, &self.7), charge, insecure_seed)
    }

    fn options(&self) -> PyResult<ConvexOptions> {
        let losses = match self.8.as_str() {
            "linear" => Losses::Linear,
            "convex" => Losses::Convex,
            _ => return Err(invalid("losses are linear or convex")),
        };
        Ok(ConvexOptions::default().losses(losses).rounds_per_user(self.9))
    }
}

fn of_convex(plan: &ConvexPlan) -> serde_json::Value {
    value!({
        "player": "leader", "regret_bound": plan.regret_bound, "without_privacy": plan.problem.without_privacy(),
        "strength": plan.strength, "noise_std": plan.noise_std, "last_noise_std": plan.last_noise_std,
        "epsilon": plan.certificate.bound().upper, "delta": plan.certificate.budget().delta(),
    })
}

/// What is planned for a game of points, as JSON.
#[pyfunction]
pub(crate) fn convex_plan(py: Python<'_>, facts: ConvexFacts) -> PyResult<String> {
    let (run, options) = (facts.run(None, None)?, facts.options()?);
    interruptible(py, || {
        let plan = explain_convex(facts.region(), facts.3, facts.4, &run, &options).map_err(failed)?;
        json(&of_convex(&plan))
    })?
}

/// A game of points that is under way; one thread at a time.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct ConvexGame(Kept<Convex>);

#[pymethods]
impl ConvexGame {
    /// Plans and opens a game, charged to `charge`.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        facts: ConvexFacts,
        charge: Option<Py<PyAny>>,
        insecure_seed: Option<u64>,
    ) -> PyResult<Self> {
        let (run, options) = (facts.run(charge, insecure_seed)?, facts.options()?);
        interruptible(py, || {
            let game = Convex::open(facts.region(), facts.3, facts.4, run, &options).map_err(failed)?;
            Ok(Self(Kept::new("game", game)))
        })?
    }

    /// The point of the coming round.
    fn play<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<f64>>>> {
        let point = py.detach(|| Ok::<_, PyErr>(self.0.own()?.play().map(<[f64]>::to_vec)))?;
        Ok(point.map(|point| point.into_pyarray(py)))
    }

    /// The gradient of the round that was played for.
    fn observe(&self, py: Python<'_>, gradient: PyReadonlyArray1<'_, f64>) -> PyResult<()> {
        let gradient = gradient.as_array().to_vec();
        py.detach(|| self.0.own()?.observe(&gradient).map_err(failed))
    }

    /// A round that tells nothing.
    fn observe_nothing(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.own()?.observe_nothing().map_err(failed))
    }

    /// Rounds observed so far.
    fn observed(&self) -> PyResult<u64> {
        Ok(self.0.shown()?.observed())
    }

    /// What was planned, as JSON.
    fn plan(&self) -> PyResult<String> {
        json(&of_convex(self.0.shown()?.plan()))
    }

    /// What is promised, as JSON.
    fn guarantee(&self) -> PyResult<String> {
        json(self.0.shown()?.guarantee())
    }
}

/// Arms, rounds, ε, δ, relation, rounds per user, player, "any" or "independent", switches.
#[derive(FromPyObject)]
pub(crate) struct BanditFacts(usize, u64, f64, Option<f64>, String, u64, Option<String>, String, u64);

impl BanditFacts {
    fn run(&self, charge: Option<Py<PyAny>>, insecure_seed: Option<u64>) -> PyResult<RunOptions> {
        Charging::run((self.2, self.3, &self.4), charge, insecure_seed)
    }

    fn options(&self) -> PyResult<BanditOptions> {
        let player = match self.6.as_deref() {
            None => None,
            Some("weights") => Some(ArmPlayer::Weights),
            Some("elimination") => Some(ArmPlayer::Elimination),
            Some(_) => return Err(invalid("players are weights and elimination")),
        };
        let rewards = match self.7.as_str() {
            "any" => Rewards::Any,
            "independent" => Rewards::Independent,
            _ => return Err(invalid("rewards are any or independent")),
        };
        Ok(BanditOptions::default().rounds_per_user(self.5).player(player).rewards(rewards).switches(self.8))
    }
}

fn of_bandit(plan: &BanditPlan) -> serde_json::Value {
    let mut told = value!({
        "player": plan.name(), "rewards": plan.name().bounded_for(), "switches": plan.problem.switches,
        "regret_bound": plan.regret_bound, "noise_scale": plan.noise_scale,
        "epsilon": plan.certificate.bound().upper, "delta": plan.certificate.budget().delta(),
    });
    let own = match &plan.player {
        ArmPlan::Elimination { phases } => value!({ "phases": phases }),
        ArmPlan::Weights(weights) => value!(weights),
    };
    if let (Some(told), serde_json::Value::Object(own)) = (told.as_object_mut(), own) {
        told.extend(own);
    }
    told
}

/// What is planned for a game of arms, as JSON.
#[pyfunction]
pub(crate) fn bandit_plan(py: Python<'_>, facts: BanditFacts) -> PyResult<String> {
    let (run, options) = (facts.run(None, None)?, facts.options()?);
    interruptible(py, || json(&of_bandit(&explain_bandit(facts.0, facts.1, &run, &options).map_err(failed)?)))?
}

/// A game of arms that is under way; one thread at a time.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct BanditGame(Kept<Arms>);

struct Arms {
    game: Bandit,
    saved: bool,
    /// Rounds were observed since the last save.
    unsaved: bool,
}

impl Arms {
    /// The game, written down as far as anything was decided: of it may be shown what there is.
    fn written(&mut self) -> PyResult<&Bandit> {
        if self.saved && self.unsaved {
            self.game.save().map_err(failed)?;
            self.unsaved = false;
        }
        Ok(&self.game)
    }
}

impl BanditGame {
    fn of(game: Bandit, saved: bool) -> Self {
        Self(Kept::new("game", Arms { game, saved, unsaved: false }))
    }
}

#[pymethods]
impl BanditGame {
    /// Plans and opens a game, charged to `charge`; with a path, one that can be resumed.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        facts: BanditFacts,
        session: Option<PathBuf>,
        charge: Option<Py<PyAny>>,
        insecure_seed: Option<u64>,
    ) -> PyResult<Self> {
        let (run, options) = (facts.run(charge, insecure_seed)?, facts.options()?);
        interruptible(py, || {
            let game = match &session {
                Some(path) => Bandit::open_at(path, facts.0, facts.1, run, &options),
                None => Bandit::open(facts.0, facts.1, run, &options),
            };
            Ok(Self::of(game.map_err(failed)?, session.is_some()))
        })?
    }

    /// Goes on with a game that was saved.
    #[staticmethod]
    fn resume(py: Python<'_>, session: PathBuf, moved: bool) -> PyResult<Self> {
        interruptible(py, || {
            let game = if moved { Bandit::resume_moved(&session) } else { Bandit::resume(&session) };
            Ok(Self::of(game.map_err(failed)?, true))
        })?
    }

    /// The arm of the coming round, written down before it is told.
    fn play(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        interruptible(py, || Ok(self.0.own()?.written()?.play()))?
    }

    /// The reward of the arm that was played.
    fn observe(&self, py: Python<'_>, reward: f64) -> PyResult<()> {
        py.detach(|| {
            let mut arms = self.0.own()?;
            arms.game.observe(reward).map_err(failed)?;
            arms.unsaved = true;
            Ok(())
        })
    }

    /// Rounds observed so far.
    fn observed(&self) -> PyResult<u64> {
        Ok(self.0.shown()?.game.observed())
    }

    /// How much each arm is trusted, of what may be shown.
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let weights = interruptible(py, || Ok::<_, PyErr>(self.0.own()?.written()?.weights()))??;
        Ok(weights.to_pyarray(py))
    }

    /// (arms, rounds, rounds per user, relation, ε, δ, switches) that it was opened for.
    fn facts(&self) -> PyResult<(usize, u64, u64, String, f64, f64, u64)> {
        let arms = self.0.shown()?;
        let (problem, promised) = (arms.game.plan().problem, arms.game.guarantee());
        let relation = problem.neighbours.relation.name().to_owned();
        let BanditProblem { arms, rounds, rounds_per_user, switches, .. } = problem;
        Ok((arms, rounds, rounds_per_user, relation, promised.epsilon, promised.delta, switches))
    }

    /// What was planned, as JSON.
    fn plan(&self) -> PyResult<String> {
        json(&of_bandit(self.0.shown()?.game.plan()))
    }

    /// What is promised, as JSON.
    fn guarantee(&self) -> PyResult<String> {
        json(self.0.shown()?.game.guarantee())
    }
}
