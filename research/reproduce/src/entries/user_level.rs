//! Users with many rows each: one clipped mean, clips that shrink around released centres, groups that agree, and the guarantee of a row taken for a group.
//!
//! Covers: thesis algorithm 28, algorithm 31

mod filter;

use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::Sensitive;
use dpopt::estimate::{AgreedPlan, AgreedProblem, CentredPlan, CentredProblem};
use dpopt::mechanism::{Answers, Curator};
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::privacy::special::gaussian_mu;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::report::chart::{Axis, Chart, Panel, Series, log_log_slope};
use filter::Session;
use serde::{Deserialize, Serialize};

/// Distance from the mean against users, rows of each, and dimension.
pub const ENTRY: Entry = Entry {
    name: "user-level",
    source: "user-level mean and convex optimisation, Algorithms 28 and 31; the chapters have no experiments",
    shows: "error of four private means of users with m rows each, against users n, rows m and dimension d, and the noise of the friendly filter beside that of clips around released centres",
    fidelity: Fidelity::Theory,
    revision: 2,
    run,
};

const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;
const RELATION: Relation = Relation::ReplaceOne;
/// ‖μ‖, all coordinates alike but for signs.
const LENGTH: f64 = 0.3;
/// Public guess of how far users are from the mean, times √m: the distance is 1 ± .16 at d = 20.
const SPREAD: f64 = 1.5;
/// Public guess of how far the means of two groups are apart, whose users vary in number, times the root of the rows of a group.
const APART: f64 = 2.0;
/// Groups that may be far from the others.
const OUTLIERS: f64 = 0.02;
/// Users in a group, on average: with fewer, sizes vary so much that the smallest groups are far from the others.
const FEWEST_IN_A_GROUP: u64 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Method {
    OneClip,
    ShrinkingClips,
    Groups,
}

use Method::{Groups, OneClip, ShrinkingClips};

const METHODS: [(Method, &str); 3] =
    [(OneClip, "one clipped mean"), (ShrinkingClips, "clips around released centres"), (Groups, "groups that agree")];

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Place {
    users: u64,
    rows: u64,
    dimension: usize,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Setting {
    method: Method,
    place: Place,
    groups: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    /// l2 distance from the mean of the users' means: what privacy costs.
    noise: f64,
    /// From the mean that rows are drawn around.
    error: f64,
}

enum Plan {
    Centred(CentredProblem, CentredPlan),
    Agreed(AgreedProblem, AgreedPlan),
}

fn budget() -> Result<Budget, Failure> {
    Budget::new(EPSILON, DELTA).map_err(Failure::of)
}

fn agreed(groups: u64, place: Place) -> Result<(AgreedProblem, AgreedPlan), Failure> {
    let Place { users, rows, dimension } = place;
    // coordinates of ±1/√d are ±1
    let radius = APART * (groups as f64 / (users * rows) as f64).sqrt() * (dimension as f64).sqrt();
    let neighbours = Neighbours::of_users(RELATION);
    let problem = AgreedProblem { groups, dimension, outliers: OUTLIERS, radius: Some(radius), neighbours };
    let plan = AgreedPlan::new(&problem, budget()?).map_err(Failure::of)?;
    Ok((problem, plan))
}

fn planned(s: &Setting) -> Result<Plan, Failure> {
    let Place { users, rows, dimension } = s.place;
    let spread = match s.method {
        OneClip => 1.0,
        ShrinkingClips => (SPREAD / (rows as f64).sqrt()).min(1.0),
        Groups => {
            let (problem, plan) = agreed(s.groups, s.place)?;
            return Ok(Plan::Agreed(problem, plan));
        }
    };
    let problem = CentredProblem { records: users, dimension, spread, neighbours: Neighbours::of_users(RELATION) };
    let plan = CentredPlan::new(&problem, budget()?).map_err(Failure::of)?;
    Ok(Plan::Centred(problem, plan))
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn measure(s: &Setting, plan: &Plan, trial: Trial) -> Result<Measured, Failure> {
    let Place { users, rows, dimension } = s.place;
    // users are the same for all methods of a place
    let address = users.wrapping_mul(1_000_003) ^ rows.wrapping_mul(8191) ^ dimension as u64;
    let mut random = NoiseSource::insecure(trial.shared_seed).stream(Purpose::Other(1), address);
    let side = 1.0 / (dimension as f64).sqrt();
    let truth: Vec<f64> =
        (0..dimension).map(|_| LENGTH * side * if random.uniform() < 0.5 { 1.0 } else { -1.0 }).collect();
    // the mean of m rows N(μ, I/d)
    let each = side / (rows as f64).sqrt();
    let mut means: Vec<f64> = Vec::with_capacity(users as usize * dimension);
    for _ in 0..users {
        means.extend(truth.iter().map(|t| t + each * random.standard_normal()));
    }
    let own = |i: usize| &means[i * dimension..][..dimension];
    let mut mean = vec![0.0; dimension];
    (0..users as usize).for_each(|i| mean.iter_mut().zip(own(i)).for_each(|(m, v)| *m += v / users as f64));
    let answer = match plan {
        Plan::Centred(problem, plan) => {
            let mut curator = Curator::new(&plan.certificate, trial.source());
            let vector = |i: usize, out: &mut Vec<f64>| out.extend_from_slice(own(i));
            plan.run(problem, users as usize, vector, &mut curator).map_err(Failure::of)?.into_inner()
        }
        Plan::Agreed(problem, plan) => {
            let mut coins = trial.source().stream(Purpose::Split, 0);
            let mut sums = vec![vec![0.0; dimension]; s.groups as usize];
            let mut counts = vec![0.0; s.groups as usize];
            for i in 0..users as usize {
                let group = coins.below(s.groups) as usize;
                counts[group] += 1.0;
                sums[group].iter_mut().zip(own(i)).for_each(|(sum, v)| *sum += v / side);
            }
            sums.iter_mut().zip(&counts).for_each(|(sum, count)| sum.iter_mut().for_each(|v| *v /= count));
            // a group without users has no answer: 0/0
            let answers = Answers::new(dimension, sums.iter().map(|sum| Some(sum.as_slice()))).map_err(Failure::of)?;
            let mut curator = Curator::new(&plan.certificate, trial.source());
            let found = plan.run(problem, &Sensitive::new(answers), &mut curator).map_err(Failure::of)?.into_inner();
            // where too few agree, the middle of the range is all there is to say
            found.mean.unwrap_or_else(|| vec![0.0; dimension]).iter().map(|v| v * side).collect()
        }
    };
    Ok(Measured { noise: distance(&answer, &mean), error: distance(&answer, &truth) })
}

/// Noise of a mean of all rows whose guarantee for a row is so strong that it holds for m of them: (ε/m, δ(e^(ε/m) − 1)/(e^ε − 1)).
fn by_group_privacy(place: Place) -> f64 {
    let (n, m) = (place.users as f64, place.rows as f64);
    let mu = gaussian_mu(EPSILON / m, DELTA * (EPSILON / m).exp_m1() / EPSILON.exp_m1());
    (place.dimension as f64).sqrt() * RELATION.sum_sensitivity() / (n * m * mu)
}

/// Noise of the friendly mean of users in one round, if it is certified for so few: pairs of users are at most √2·SPREAD/√m apart, about.
fn by_filter(place: Place) -> Option<f64> {
    let apart = 2f64.sqrt() * SPREAD / (place.rows as f64).sqrt();
    let noise = Session::best(place.users as f64, 1.0, EPSILON, DELTA)?.noise;
    Some((place.dimension as f64).sqrt() * noise * apart)
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let base = Place { users: 5000, rows: 100, dimension: 50 };
    let many = |short: &[u64], full: &[u64]| lab.pick(short.to_vec(), full.to_vec());
    let repeats = lab.pick(2, 20);
    let along: [(&str, Vec<Place>); 3] = [
        (
            "users n",
            many(&[5000, 10_000], &[1000, 2000, 5000, 10_000, 20_000, 50_000])
                .into_iter()
                .map(|users| Place { users, ..base })
                .collect(),
        ),
        (
            "rows m of each",
            many(&[16, 256], &[4, 16, 64, 256, 1024, 4096]).into_iter().map(|rows| Place { rows, ..base }).collect(),
        ),
        (
            "dimension d",
            many(&[20, 80], &[20, 50, 100, 200, 500])
                .into_iter()
                .map(|d| Place { dimension: d as usize, ..base })
                .collect(),
        ),
    ];
    lab.setting("epsilon", EPSILON)?;
    lab.setting("delta (replace-one user)", DELTA)?;
    lab.setting("users, rows, dimension where they do not vary", (base.users, base.rows, base.dimension))?;
    lab.setting("repeats", repeats)?;
    // the radius goes like the root of groups
    let tried = lab.pick(vec![400], vec![300, 350, 400]);
    let mut plans = Vec::new();
    for groups in tried {
        plans.push((groups, agreed(groups, base)?.1.schedule.noise_over_radius * (groups as f64).sqrt()));
    }
    let groups = plans.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(400, |best| best.0);
    lab.setting("groups that agree", groups)?;
    let places: Vec<Place> = along.iter().flat_map(|(_, places)| places.clone()).collect();
    let mut settings: Vec<(usize, Setting)> = Vec::new();
    for place in &places {
        for (method, _) in METHODS {
            if method != Groups || place.users >= FEWEST_IN_A_GROUP * groups {
                settings.push((settings.len(), Setting { method, place: *place, groups }));
            }
        }
    }
    let plans: Vec<Plan> = settings.iter().map(|(_, s)| planned(s)).collect::<Result<_, _>>()?;
    let results = lab.trials("means", &settings, repeats, |(at, s), trial| measure(s, &plans[*at], trial))?;
    let of = |method: Method, place: Place, what: fn(&Measured) -> f64| -> Option<Summary> {
        let at = settings.iter().position(|(_, s)| s.method == method && s.place == place)?;
        Some(Summary::of(results[at].iter().map(what)))
    };
    let noise = |method: Method, place: Place| of(method, place, |m| m.noise);
    let error = |method: Method, place: Place| of(method, place, |m| m.error);

    let mut table = Table::new(
        "errors",
        ["users", "rows", "dimension", "method", "distance from the users' mean", "distance from the truth", "sd"],
    );
    for place in &places {
        for (method, name) in METHODS {
            if let (Some(noise), Some(error)) = (noise(method, *place), error(method, *place)) {
                table.row([
                    place.users.to_string(),
                    place.rows.to_string(),
                    place.dimension.to_string(),
                    name.into(),
                    cell(noise.mean),
                    cell(error.mean),
                    cell(error.sd),
                ]);
            }
        }
    }

    let mut panels = Vec::new();
    let mut slopes: Vec<Vec<f64>> = Vec::new();
    let mut of_groups_of_rows = Vec::new();
    let (mut worst, mut against_filter) = (0f64, f64::INFINITY);
    for (name, places) in &along {
        let x = |place: &Place| match *name {
            "users n" => place.users as f64,
            "rows m of each" => place.rows as f64,
            _ => place.dimension as f64,
        };
        let mut panel = Panel::new(*name, Axis::log(*name), Axis::log("l2 distance from the users' mean"));
        let mut own = Vec::new();
        for (method, title) in METHODS {
            let points: Vec<(f64, Summary)> =
                places.iter().filter_map(|place| Some((x(place), noise(method, *place)?))).collect();
            own.push(log_log_slope(points.iter().map(|(x, s)| (*x, s.mean))).map_or(f64::NAN, |s| s.slope));
            panel = panel.with(Series::band(title, points.iter().map(|(x, s)| s.at(*x))));
        }
        slopes.push(own);
        let rival: Vec<(f64, f64)> = places.iter().map(|place| (x(place), by_group_privacy(*place))).collect();
        of_groups_of_rows.push(log_log_slope(rival.iter().copied()).map_or(f64::NAN, |s| s.slope));
        panel = panel.with(Series::theory("guarantee of a row, for m rows", rival));
        let filtered: Vec<(f64, f64)> = places.iter().filter_map(|p| Some((x(p), by_filter(*p)?))).collect();
        panel = panel.with(Series::theory("friendly filter of users (not run)", filtered));
        for place in places {
            let Some(best) = noise(ShrinkingClips, *place) else { continue };
            let others = [
                noise(OneClip, *place).map(|s| s.mean),
                noise(Groups, *place).map(|s| s.mean),
                Some(by_group_privacy(*place)),
            ];
            others.iter().flatten().for_each(|other| worst = worst.max(best.mean / other));
            if let Some(filter) = by_filter(*place) {
                against_filter = against_filter.min(filter / best.mean);
            }
        }
        panels.push(panel);
    }

    let mut sessions = Table::new(
        "filter",
        [
            "users",
            "rounds",
            "epsilon",
            "pairs per user that pass by chance",
            "core",
            "users times how far a mean moves, over the diameter",
            "mu",
            "sigma over the diameter",
            "the same of clips around centres, d = 50",
            "ratio",
        ],
    );
    let mut least = f64::INFINITY;
    for (users, rounds, epsilon) in [
        (5e3, 1.0, 1.0),
        (5e3, 100.0, 1.0),
        (1e4, 100.0, 1.0),
        (2e4, 1000.0, 1.0),
        (5e3, 100.0, 4.0),
        (1e5, 1000.0, 1.0),
    ] {
        let Some(filter) = Session::best(users, rounds, epsilon, DELTA) else { continue };
        let clips = filter::around_centres(users, rounds, epsilon, DELTA, 50.0);
        least = least.min(filter.noise / clips);
        let numbers = [filter.margin, filter.core, filter.moved, filter.mu, filter.noise, clips, filter.noise / clips];
        sessions.row([users, rounds, epsilon].map(|x| x.to_string()).into_iter().chain(numbers.map(cell)));
    }

    let [by_users, by_rows, by_dimension] = [&slopes[0], &slopes[1], &slopes[2]];
    let compared = vec![
        Compared::within("clips around released centres: slope in users", -1.15..=-0.95, by_users[1]),
        Compared::within("the same in rows of each", -0.55..=-0.45, by_rows[1]),
        Compared::within("the same in dimension", 0.4..=0.65, by_dimension[1]),
        Compared::within("one clipped mean: slope in users", -1.05..=-0.95, by_users[0]),
        Compared::within("the same in rows of each", -0.05..=0.05, by_rows[0]),
        Compared::within("groups that agree: slope in users", -0.6..=-0.4, by_users[2]),
        Compared::within("the same in rows of each", -0.6..=-0.4, by_rows[2]),
        Compared::within("guarantee of a row, for m rows: slope in rows of each", -0.05..=0.2, of_groups_of_rows[1]),
        Compared::within("largest ratio of clips around centres to any other, over all places", 0.0..=1.05, worst),
        Compared::within(
            "least ratio of the filter of users, of one round, to clips around centres",
            1.0..=1e9,
            against_filter,
        ),
        Compared::within("least ratio of their noise in sessions of rounds", 1.0..=1e9, least),
    ];
    let at_base =
        |method| noise(method, if lab.pick(true, false) { along[0].1[1] } else { base }).map_or(f64::NAN, |s| s.mean);
    let sentence = format!(
        "Clips around released centres: {:.4} of the noise of one clipped mean and {:.4} of that of groups that agree (5,000 users, 100 rows each, 50 dimensions). The filter of users would \
         have at least {against_filter:.1} times their noise in one round, and {least:.1} times in sessions of rounds.",
        at_base(ShrinkingClips) / at_base(OneClip),
        at_base(ShrinkingClips) / at_base(Groups),
    );
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        charts: vec![("figure".into(), Chart::of(panels))],
        tables: vec![table, sessions],
        compared,
        notes: vec![
            "Rows are N(μ, I/d), ‖μ‖ = .3, and a user's mean is drawn as such. Public are n, m, d and that users are within 1.5/√m of the mean, groups within 2 over the root of their rows of each other. Runs go through the curator with their certified plans.".into(),
            "The guarantee of a row for m rows is by (ε/m, δ(e^(ε/m) − 1)/(e^ε − 1)), computed and not run; so is the filter of users, with the better of one and two radii and the best of eight shares of ε for its test. It needs about 1,600 users at ε = 1.".into(),
            "A first run took up to 800 groups, of 6 users each: sizes vary so much then that too few agreed and nothing was released. Groups of 12 users on average at least are taken since; nothing else was changed.".into(),
            "Groups are few hundreds, the same everywhere: their answers are as good as the rows of a group make them, which is why their noise falls like the root of n only. Their strength is not the mean but estimators that have none.".into(),
        ],
    })
}
