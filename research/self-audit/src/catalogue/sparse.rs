//! Faults of methods for sparse gradients (Ghazi et al. 2024): the constants of both versions of the source, and what its listings leave
//! open.
//!
//! Covers: sparse-v1 algorithm 1 (15.sqrt-s)
//! Covers: sparse-v2 algorithm 1 (15.sqrt-s)
//! Covers: sparse-v1 algorithm 2 (15.sketch, 15.sketch-scale)
//! Covers: sparse-v2 algorithm 2 (15.sketch, 15.sketch-scale)
//! Covers: sparse-v1 algorithm 3 (15.l1)
//! Covers: sparse-v2 algorithm 6 (15.l1)
//! Covers: sparse-v1 algorithm 4 (15.exponent)
//! Covers: sparse-v2 algorithm 7 (15.exponent)
//! Covers: sparse-v1 algorithm 5 (15.telescope)
//! Covers: sparse-v2 algorithm 3 (15.telescope)
//! Covers: sparse-v1 algorithm 7 (15.noisy-min)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::methods::{Subject, problem};
use crate::worst_cases::sparse::{Halves, Sketches, four_entries, halves_log_ratio};
use dpopt_audit::statistics::Claim;
use dpopt_draws::ExponentialChoice;
use dpopt_linear::{SparseOutputPerturbation, SparseOutputSchedule};
use dpopt_mechanism::{Choice, ChoiceLaw, Counts, Mechanism, past_the_curator};
use dpopt_noise::{Grid, NoiseSource, RoundedGaussian};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;
use dpopt_objective::solver::{Accuracy, RegularizedSum, minimise};
use dpopt_privacy::Relation;

/// The exact minimiser, to which noise is added.
fn exact_minimiser(world: &Examples, s: &SparseOutputSchedule) -> Vec<f64> {
    let d = world.rows.columns();
    let objective = Linear::new(s.loss, d, world.rows.norm_bound());
    let zero = vec![0.0; d];
    let sum = RegularizedSum::of(world, &objective, (s.regularization, &zero), 1.0);
    minimise(&sum, Accuracy { tolerance: s.tolerance, steps: s.most_solver_steps }).theta.rounded()
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = Vec::new();

    // λ = 5: the minimiser moves by 1/10 in each of four weights, 2/5 in l1 and 1/5 in l2 norm
    let subject = || {
        let algorithm = SparseOutputPerturbation {
            regularization: Some(5.0),
            radius: Some(1e6),
            shift: Some(20.0),
            ..SparseOutputPerturbation::default()
        };
        Subject::new(algorithm, problem(4, 4, Loss::Logistic { shift: 0.0 }), (1.0, 0.0), four_entries(4))
    };
    let right = subject();
    let minimisers = [false, true].map(|with| right.schedule().map(|s| exact_minimiser(right.world(with), s)));
    bugs.push(InjectedFault::counting(
        (
            "15.l1",
            Altered,
            "pure output perturbation with the l2 sensitivity of the minimiser, without sqrt(s)",
            "record (1/2, 1/2, 1/2, 1/2), log-likelihood ratio of the weights",
        ),
        Claim::pure(1.0),
        (3_000, 20_000),
        move |code, with, draws| {
            let ratio = |weights: &[f64], regularization: f64, scale: f64| {
                let shift = 0.5 / regularization;
                weights.iter().map(|w| (w.abs() - (w - shift).abs()) / scale).sum()
            };
            match code {
                Code::Correct => {
                    right.run(with, draws, |_, s, view| ratio(view.weights, s.regularization, s.noise_scale))
                }
                Code::Injected => {
                    let (Some(s), Some(exact)) = (right.schedule(), &minimisers[usize::from(with)]) else {
                        return f64::NAN;
                    };
                    let scale = 0.5 * s.noise_scale;
                    let noisy: Vec<f64> = exact.iter().map(|w| w + draws.laplace(scale)).collect();
                    ratio(&noisy, s.regularization, scale)
                }
            }
        },
    ));

    // F changes by ±B/n at the two ends of the net: units of B are 2
    let (right, wrong) = (ExponentialChoice::new(1.0, 2, false).ok(), ExponentialChoice::new(2.0, 2, false).ok());
    bugs.push(InjectedFault::counting(
        (
            "15.exponent",
            Shipped,
            "sparse exponential mechanism with exp(-epsilon n F / B) instead of exp(-epsilon n F / (2B)), replace-one",
            "two points of the net, losses moved in opposite directions; which one",
        ),
        Claim::pure(1.0),
        (1_400, 300),
        move |code, with, draws| {
            let scores = if with { [0, 5] } else { [2, 3] };
            let choice = code.pick(&right, &wrong).as_ref();
            choice.and_then(|c| c.choose(&scores, draws.noise())).map_or(f64::NAN, |i| i as f64)
        },
    ));

    let choice = |monotone| Choice::new(ChoiceLaw::NoisyMaximum, 1.0, 200, monotone, Relation::ZeroOut).ok();
    let (right, wrong) = (choice(false), choice(true));
    let worlds = [vec![200, 600], vec![0, 800]].map(|scores| Counts::declared(scores, 200.0));
    bugs.push(InjectedFault::counting(
        (
            "15.noisy-min",
            Shipped,
            "report-noisy-min with Laplace noise of scale Delta/epsilon, as published, instead of 2 Delta/epsilon",
            "two runs whose scores move in opposite directions, gap 4 or 2 Delta; which one",
        ),
        Claim::pure(1.0),
        (8_000, 900),
        move |code, with, draws| {
            let Some(choice) = code.pick(&right, &wrong) else { return f64::NAN };
            let mut curator = past_the_curator::uncharged(&choice.event(), NoiseSource::insecure(draws.word()));
            let chosen = curator.release(choice, &worlds[usize::from(with)]);
            chosen.map_or(f64::NAN, |index| 1.0 - *index.get() as f64)
        },
    ));

    let sketches = Sketches::new(5, 100, 2.0);
    let event = sketches.event();
    bugs.push(InjectedFault::counting(
        (
            "15.sketch",
            Altered,
            "Gaussian l1-recovery uses one random matrix for two queries, the second chosen after seeing it (m = 5)",
            "a record along the longest of 100 columns; log-likelihood ratio of the second query",
        ),
        Claim::of_event(&event, Relation::ZeroOut, 24, 1e-5).map_err(|e| e.to_string()),
        (8_000, 8_000),
        move |code, with, draws| sketches.second(code == Code::Correct, with, draws),
    ));

    // the source's matrix has entries N(0, 1/m), this one N(0, 1): its noise is √m times as large
    let right = Sketches::new(20, 1, 1.0);
    let wrong = Sketches::new(20, 1, 1.0 / 20f64.sqrt());
    let event = right.event();
    bugs.push(InjectedFault::counting(
        (
            "15.sketch-scale",
            Shipped,
            "Gaussian l1-recovery: noise for a matrix with entries N(0, 1/m), entries N(0, 1) (m = 20)",
            "record alone, one entry; log-likelihood ratio, the matrix seen",
        ),
        Claim::of_event(&event, Relation::ZeroOut, 24, 1e-5).map_err(|e| e.to_string()),
        (300, 500),
        move |code, with, draws| code.pick(&right, &wrong).one(with, draws),
    ));

    // noise of the *mean* of half a batch must be twice that of the batch's mean
    let z = 3.0;
    let halves = Halves::new(z);
    let event = halves.mechanism(z).event();
    bugs.push(InjectedFault::counting(
        (
            "15.telescope",
            Altered,
            "halves of a batch get the noise that belongs to the mean of the whole batch",
            "canary in the batch and in one half; log-likelihood ratio",
        ),
        Claim::of_event(&event, Relation::ZeroOut, 24, 1e-5).map_err(|e| e.to_string()),
        (20_000, 25_000),
        move |code, with, draws| {
            let [whole, ..] = halves.sums(with, z, draws);
            let half = code.pick(z, 0.5 * z);
            let [_, first, second] = halves.sums(with, half, draws);
            halves_log_ratio([whole, first, second], z, half)
        },
    ));

    let grid = Grid::new(-20);
    let noise = |std: f64| RoundedGaussian::new(std, grid).ok();
    let (right, wrong) = (noise(1.0), noise(1.0 / 10f64.sqrt()));
    bugs.push(InjectedFault::counting(
        (
            "15.sqrt-s",
            Shipped,
            "Gaussian noise of a mean divided by sqrt(s) because vectors are s-sparse (s = 10)",
            "a record with one entry; its noisy coordinate",
        ),
        Claim::gaussian(1.0),
        (200, 300),
        move |code, with, draws| {
            let Some(noise) = code.pick(&right, &wrong) else { return f64::NAN };
            indicator(with) + grid.to_f64(noise.sample(draws.noise()))
        },
    ));
    bugs
}
