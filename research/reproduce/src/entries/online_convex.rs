//! Regret of a regularised leader behind noise that cancels over time, against T and d, beside the same without privacy (Agarwal and Singh
//! 2017; docs/proofs/online-convex.md).

use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose, Stream};
use dpopt::optimize::online::{ConvexPlays, ConvexProblem, Losses, PlayRegion, plan_convex};
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use serde::{Deserialize, Serialize};

/// The entry of regret curves for linear and convex losses.
pub const ENTRY: Entry = Entry {
    name: "online-convex",
    source: "the price of differential privacy for online learning, linear losses: regret √T + √d log²T/ε",
    shows: "regret of the leader behind noise against T and d, planned for linear and for convex losses, with proved bounds, beside the leader without privacy",
    fidelity: Fidelity::Corrected(
        "a buffered linear Toeplitz factor in place of a tree, calibrated by the accountant; explicit constants",
    ),
    revision: 1,
    run,
};

const DELTA: f64 = 1e-6;
const EPSILON: f64 = 1.0;
/// Rounds of a block whose losses are alike.
const BLOCK: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum LossSequence {
    /// ±e_j, j and the sign thrown once for 32 rounds.
    Blocks,
    /// Any direction, thrown in every round.
    Directions,
    /// The direction e_1 in every round.
    Steady,
}

impl LossSequence {
    const ALL: [Self; 3] = [Self::Blocks, Self::Directions, Self::Steady];

    fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks of 32",
            Self::Directions => "any directions",
            Self::Steady => "one direction",
        }
    }

    /// The gradient of round `t`, in place of that of the round before: of l2 norm 1.
    fn next(self, t: u64, gradient: &mut [f64], random: &mut Stream) {
        match self {
            Self::Blocks if t.is_multiple_of(BLOCK) => {
                gradient.fill(0.0);
                let place = random.below(gradient.len() as u64) as usize;
                gradient[place] = if random.coin() { 1.0 } else { -1.0 };
            }
            Self::Blocks => {}
            Self::Directions => {
                // normal coordinates have any direction
                gradient.iter_mut().for_each(|g| {
                    let (size, angle) = (random.uniform().max(1e-300), std::f64::consts::TAU * random.uniform());
                    *g = (-2.0 * size.ln()).sqrt() * angle.cos();
                });
                let size = length(gradient);
                gradient.iter_mut().for_each(|g| *g /= size);
            }
            Self::Steady => {
                gradient.fill(0.0);
                gradient[0] = 1.0;
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// Planned for losses that are fixed before.
    Linear,
    /// Planned for losses that know the plays: DP-FTRL.
    Convex,
    /// λ = √T, no noise.
    WithoutPrivacy,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Linear, "leader, planned for linear losses"),
    (Way::Convex, "leader, planned for convex losses"),
    (Way::WithoutPrivacy, "leader, no privacy"),
];

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Setting {
    #[serde(rename = "told")]
    losses: LossSequence,
    way: Way,
    rounds: u64,
    dimension: usize,
}

#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    regret: f64,
    /// Proved bound on the regret: the plan's, and R·L·√T without privacy.
    bound: f64,
}

fn length(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// A ball of radius 1 and gradients of length 1.
fn problem(setting: &Setting) -> ConvexProblem {
    ConvexProblem {
        region: PlayRegion::Ball { centre: vec![0.0; setting.dimension], radius: 1.0 },
        lipschitz: 1.0,
        rounds: setting.rounds,
        losses: if setting.way == Way::Convex { Losses::Convex } else { Losses::Linear },
        rounds_per_user: 1,
        neighbours: Neighbours::of_rounds(Relation::ReplaceOne),
    }
}

fn opened(setting: &Setting, trial: Trial) -> Result<ConvexPlays, Failure> {
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    let plan = plan_convex(&problem(setting), budget).map_err(Failure::of)?;
    plan.open(&mut Curator::new(&plan.certificate, trial.source())).map_err(Failure::of)
}

fn measure(setting: &Setting, trial: Trial) -> Result<Measured, Failure> {
    // the same gradients for all ways
    let mut random = NoiseSource::insecure(trial.shared_seed).stream(Purpose::Other(0), 0);
    let mut game = match setting.way {
        Way::WithoutPrivacy => None,
        _ => Some(opened(setting, trial)?),
    };
    let strength = (setting.rounds as f64).sqrt();
    let (mut gradient, mut sum) = (vec![0.0; setting.dimension], vec![0.0; setting.dimension]);
    let mut lost = 0.0;
    for t in 0..setting.rounds {
        setting.losses.next(t, &mut gradient, &mut random);
        match &mut game {
            Some(game) => {
                let point = game.play().ok_or_else(|| Failure::of("the game ended early"))?;
                lost += point.iter().zip(&gradient).map(|(x, g)| x * g).sum::<f64>();
                game.observe(Some(gradient.clone())).map_err(Failure::of)?;
            }
            None => {
                let shrink = 1.0 / strength.max(length(&sum));
                lost -= sum.iter().zip(&gradient).map(|(s, g)| s * g * shrink).sum::<f64>();
            }
        }
        sum.iter_mut().zip(&gradient).for_each(|(s, g)| *s += g);
    }
    let bound = game.map_or(strength, |game| game.plan().regret_bound);
    Ok(Measured { regret: lost + length(&sum), bound })
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let rounds = lab.pick(vec![500.0, 2e3], vec![1e3, 1e4, 1e5]);
    let dimensions = lab.pick(vec![2.0, 32.0], vec![2.0, 16.0, 128.0]);
    let (fixed_rounds, fixed_dimension) = lab.pick((1000, 10), (20_000, 20));
    // games are quick, and three or six of them may lie closer together than they should: a first short run of three had one mean of 36 above its
    // bound (90.6 ± 1.8 over 84.4; 400 games of it have 70.3 ± 0.5)
    let repeats = 20;
    lab.setting("epsilon", EPSILON)?;
    lab.setting("delta (replace-one)", DELTA)?;
    lab.setting("d of the curves in T", fixed_dimension)?;
    lab.setting("T of the curves in d", fixed_rounds)?;
    lab.setting("repeats", repeats)?;
    let sweeps = [("rounds T", &rounds), ("dimension d", &dimensions)];
    let setting = |axis: &str, losses, way, at: f64| match axis {
        "rounds T" => Setting { losses, way, rounds: at as u64, dimension: fixed_dimension },
        _ => Setting { losses, way, rounds: fixed_rounds, dimension: at as usize },
    };
    let mut settings = Vec::new();
    for (axis, at) in sweeps {
        for losses in LossSequence::ALL {
            for (way, _) in WAYS {
                settings.extend(at.iter().map(|at| setting(axis, losses, way, *at)));
            }
        }
    }
    let results = lab.trials("games", &settings, repeats, measure)?;
    let mut table = Table::new("regret", ["losses", "player", "T", "d", "mean regret", "sd", "proved bound"]);
    let mut above = 0;
    for (setting, trials) in settings.iter().zip(&results) {
        let regret = Summary::of(trials.iter().map(|t| t.regret));
        let bound = trials.first().map_or(f64::INFINITY, |t| t.bound);
        above += usize::from(regret.mean - 3.0 * regret.standard_error() > bound);
        let name = WAYS.iter().find(|(way, _)| *way == setting.way).map_or("", |(_, name)| *name);
        table.row([
            setting.losses.name().into(),
            name.into(),
            setting.rounds.to_string(),
            setting.dimension.to_string(),
            cell(regret.mean),
            cell(regret.sd),
            cell(bound),
        ]);
    }
    let what = format!("of {} games' mean regrets those above their bound by three standard errors", settings.len());
    let mut compared = vec![Compared::within(what, 0.0..=0.0, above as f64)];
    let mut charts = Vec::new();
    let mut from = 0;
    for (axis, at) in sweeps {
        let mut panels = Vec::new();
        for losses in LossSequence::ALL {
            let mut panel = Panel::new(losses.name(), Axis::log(axis), Axis::log("regret"));
            for (way, name) in WAYS {
                let own = || results[from..from + at.len()].iter().zip(at);
                let means = own().map(|(trials, at)| (*at, Summary::of(trials.iter().map(|t| t.regret)).mean.max(1.0)));
                let bounds = || own().filter_map(|(trials, at)| Some((*at, trials.first()?.bound)));
                panel = panel.with(Series::curve(name, means).fitted(0.0..=1e12));
                panel = panel.with(Series::theory(format!("{name}, proved"), bounds()));
                let slope = Series::curve("bound", bounds()).fitted(0.0..=1e12).slope();
                // √(T + d·σ²) with σ growing as log T: between 0 and 1/2 in either; for convex losses between 1/4 and 1/2 in T
                if let (Some(fit), LossSequence::Blocks, true) = (slope, losses, way != Way::WithoutPrivacy) {
                    let range = if way == Way::Linear { 0.02..=0.5 } else { 0.2..=0.6 };
                    compared.push(Compared::within(
                        format!("slope in {axis} of the bound of the {name}"),
                        range,
                        fit.slope,
                    ));
                }
                from += at.len();
            }
            panels.push(panel);
        }
        charts.push((if axis == "rounds T" { "rounds" } else { "dimension" }.into(), Chart::of(panels)));
    }
    let sentence = format!("{above} of {} mean regrets lie above their proved bound.", settings.len());
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables: vec![table],
        charts,
        compared,
        notes: vec!["Regret is against the best point of the ball in hindsight; curves below 1 are drawn at 1.".into()],
    })
}
