//! Faults of private hard thresholding (Liang, Tong, Ding, Pan, Bi 2022, Algorithms 1 and 2; docs/proofs/hard-thresholding.md).
//!
//! Covers: hard-thresholding algorithm 1 (16.touched)
//! Covers: hard-thresholding algorithm 2 (16.difference)
//! Covers: hard-thresholding theorem 4.1 (16.closed-form)
//! Covers: hard-thresholding theorem 5.1 (16.swapped-variances)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::methods::{Subject, problem};
use crate::worst_cases::sums::canaries;
use dpopt_audit::statistics::Claim;
use dpopt_linear::{
    DpGdHt, HardThresholdSchedule, InnerSteps, SourceProblem, SparseOptions, scsg_ht_noise, sgd_ht_noise,
};
use dpopt_mechanism::{Clipped, Gaussian, Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Difference, Linear};
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::{Event, Relation, accountant};

/// Rényi cost of all inner steps over the ε/2 that the paper's proof spends, where its conditions hold.
fn variances(code: Code) -> Result<(), String> {
    let problem = SourceProblem { records: 1e6, clip_norm: 1.0, epsilon: 10.0, delta: 1e-5 };
    let (batches, epochs) = ((400.0, 200.0), 3e6);
    let (s1, s2) = scsg_ht_noise(problem, batches, epochs, InnerSteps::Fixed).map_err(|e| e.to_string())?;
    let (s1, s2) = code.pick((s1, s2), (s2, s1));
    let inner = epochs * batches.0 / batches.1;
    let spent = problem.order() * inner / problem.records.powi(2) * (20.0 / (s1 * s1) + 80.0 / (s2 * s2));
    let ratio = spent / (problem.epsilon / 2.0);
    if ratio <= 1.0 + 1e-9 { Ok(()) } else { Err(format!("the Rényi cost is {ratio:.3} times the claim")) }
}

/// The closed form at n = 10⁴, b = 100, T = 100, ε = 10, where its second condition fails.
fn closed_form(code: Code) -> Result<(), String> {
    let problem = SourceProblem { records: 1e4, clip_norm: 1.0, epsilon: 10.0, delta: 1e-5 };
    let sigma = match code {
        Code::Correct => match sgd_ht_noise(problem, 100.0, 100.0) {
            Err(_) => return Ok(()),
            Ok(sigma) => sigma,
        },
        Code::Injected => problem.sgd_ht_unchecked(100.0),
    };
    let one = Event::SampledWithoutReplacement {
        source_dataset_size: 10_000,
        sample_size: 100,
        event: Box::new(Event::gaussian(sigma * 100.0)),
    };
    let epsilon =
        accountant::epsilon(&one.self_composed(100), Relation::ReplaceOne, 1e-5).map_err(|e| e.to_string())?;
    if epsilon.upper <= 10.0 {
        Ok(())
    } else {
        Err(format!("the accountant certifies epsilon {:.1}, not 10", epsilon.upper))
    }
}

/// How far one record moves the sum of differences of its gradients at two iterates, for noise made for c.
fn difference(code: Code) -> Result<(), String> {
    let c = 0.25;
    let mut rows = Rows::new(1);
    rows.push_clipped(&mut [(0, 1.0)], 1.0);
    let examples = Sensitive::new(Examples { rows, targets: vec![0.0] });
    let grid = Grid::new(-30);
    let moved = || -> Result<f64, dpopt_mechanism::CuratorError> {
        let squared = Linear::new(Loss::Squared, 1, 1.0);
        let noise = Gaussian::new(1e-6, c, grid, 1, "difference");
        // residuals +5 at the iterate and −5 at the anchor: both gradients are clipped
        let one = Event::gaussian(1e-6);
        let event = Event::composed(vec![one.clone().self_composed(2), one.poisson_sampled(1.0)]);
        let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(1));
        Ok(match code {
            Code::Correct => {
                let batch = curator.poisson_sample(1, 1.0)?;
                let change = Clipped::new(Difference::from(squared, &[-5.0]), c, grid)?;
                curator.release(&noise, &change.sum_batch(&examples, batch, &[5.0]))?.into_inner()[0]
            }
            Code::Injected => {
                let gradient = Clipped::new(squared, c, grid)?;
                let mut at = |w: f64| {
                    Ok::<_, dpopt_mechanism::CuratorError>(
                        curator.release(&noise, &gradient.sum(&examples, &[w]))?.into_inner()[0],
                    )
                };
                at(5.0)? - at(-5.0)?
            }
        })
    };
    let moved = moved().map_err(|e| e.to_string())?.abs();
    if moved <= c * 1.001 {
        Ok(())
    } else {
        Err(format!("one record moves the sum by {:.2} times what the noise is made for", moved / c))
    }
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let d = 1000;
    let sparse = SparseOptions {
        max_features: Some(1),
        steps: Some(1),
        learning_rate: Some(1e-3),
        refit_share: Some(0.0),
        ..SparseOptions::default()
    };
    let worlds = [canaries(4, d, &[0.0]), canaries(4, d, &[1.0])];
    let subject = Subject::new(DpGdHt { sparse }, problem(4, d, Loss::Absolute), (1.0, 1e-5), worlds)
        .altered(HardThresholdSchedule::by_entries);
    let claim = subject
        .event()
        .and_then(|event| Claim::reported(&event, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string()));
    vec![
        InjectedFault::counting(
            (
                "16.touched",
                Altered,
                "noise only on coordinates that data touch, before the largest is chosen (d = 1000, k = 1)",
                "whether the canary's coordinate is chosen",
            ),
            claim,
            (60, 60_000),
            move |code, with, draws| match code {
                Code::Correct => subject.run(with, draws, |_, _, view| indicator(view.weights[0] != 0.0)),
                // with nothing touched nothing is chosen
                Code::Injected => indicator(with),
            },
        ),
        InjectedFault::looking(
            (
                "16.swapped-variances",
                Shipped,
                "snapshots with 160 and inner steps with 40 times the variance, as printed, instead of 40 and 160",
                "Rényi cost of a run against the claim",
            ),
            variances,
        ),
        InjectedFault::looking(
            (
                "16.closed-form",
                Shipped,
                "the closed-form noise outside its conditions (n = 10000, b = 100, T = 100, epsilon = 10)",
                "whether it is refused; the accountant's epsilon of what it gives",
            ),
            closed_form,
        ),
        InjectedFault::looking(
            (
                "16.difference",
                Shipped,
                "two clipped gradients subtracted, noise for one clipped difference",
                "how far one record moves the sum",
            ),
            difference,
        ),
    ]
}
