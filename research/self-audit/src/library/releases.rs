//! Noisy sums: the Gaussian mechanism, matrices, Laplace noise, and noise that is correlated over steps or deferred.
//!
//! Covers: thesis algorithm 20
//! Covers: sparse-v1 algorithm 1
//! Covers: sparse-v2 algorithm 1

use super::{LibraryAudit, Reach};
use crate::worst_cases::noise::{Correlated, at, lazy, tree};
use crate::worst_cases::sums::{CLIP, GradientSums, canaries};
use dpopt_audit::draws::Draws;
use dpopt_mechanism::{
    Blocks, Clipped, ClippedVectors, Counts, CuratorError, DiscreteGaussianNoise, DiscreteLaplaceNoise, Gaussian,
    GridSum, Interactive, L1Sum, Laplace, Mechanism, ProjectedGaussian, ProjectedLaplace, Projection, SecondMoment,
    SparseClip, SparseSum, SparseSummer, TargetMoment,
};
use dpopt_mechanism::{Sensitive, past_the_curator};
use dpopt_noise::correlated::{Factor, FactorError, Participation};
use dpopt_noise::{Grid, NoiseSource, Norm};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::{Event, Relation};

/// Where the Gaussian rows report: the truth at μ = 1 is 4.377.
const DELTA: f64 = 1e-5;
/// Runs per world after which a Gaussian row of that size reaches 0.9 of ε at 1 − 1e-6.
pub(super) const TIGHT_RUNS: u64 = 64_000;

/// `steps` gradient sums with noise multiplier √`steps`, of which the coordinate of the canary is seen.
fn gradient_sums(
    (name, pair): (&'static str, &'static str),
    steps: u32,
    noise_multiplier: f64,
    targets: [f32; 2],
) -> LibraryAudit {
    let worlds = targets.map(|t| canaries(3, 1, &[t]));
    let event = Event::gaussian(noise_multiplier).self_composed(u64::from(steps));
    let sums = GradientSums::new(event.clone(), 3, noise_multiplier);
    LibraryAudit::new(name, pair, Ok(event), (DELTA, TIGHT_RUNS), move |with, draws| {
        sums.release(&worlds[usize::from(with)], None, u64::from(steps), draws).map_or(f64::NAN, |g| g.iter().sum())
    })
    .gaussian()
}

/// Two blocks of two records, a noisy gradient sum of each; the canary is in the first.
fn blocks() -> LibraryAudit {
    let worlds = [0.0, 1.0].map(|t| canaries(4, 1, &[t]));
    let grid = Grid::new(-20);
    let mechanism = Gaussian::new(1.0, CLIP, grid, 1, "gradient sum");
    let plan = Blocks::new(4, vec![mechanism.event(); 2]).map_err(|e| e.to_string());
    let event = plan.as_ref().map(Interactive::event).map_err(Clone::clone);
    let release = move |with: bool, draws: &mut Draws| -> Result<f64, CuratorError> {
        let Ok(plan) = &plan else { return Err(CuratorError::Shape) };
        let gradient = Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), CLIP, grid)?;
        let mut curator = past_the_curator::uncharged(&plan.event(), NoiseSource::insecure(draws.word()));
        let mut sums = Vec::new();
        for mut block in curator.open(plan)? {
            let batch = block.all_of(4)?;
            let sum = gradient.sum_batch(&worlds[usize::from(with)], batch, &[0.0]);
            sums.push(block.release(&mechanism, &sum)?.into_inner()[0]);
        }
        Ok(sums[0])
    };
    LibraryAudit::new(
        "one of two blocks of records",
        "clipped gradient, canary in the first block or zeroed; coordinate of that block's sum",
        event,
        (DELTA, TIGHT_RUNS),
        move |with, draws| release(with, draws).unwrap_or(f64::NAN),
    )
    .gaussian()
}

/// One noisy sum of some query, of sensitivity 1 and noise 1, along the canary's `direction`.
fn query(
    (name, pair): (&'static str, &'static str),
    (grid, direction): (Grid, Vec<f64>),
    sum: impl Fn(bool, Grid) -> Result<Sensitive<GridSum>, CuratorError> + Send + Sync + 'static,
) -> LibraryAudit {
    let mechanism = Gaussian::new(1.0, 1.0, grid, direction.len(), "sum");
    let event = mechanism.event();
    let opened = event.clone();
    LibraryAudit::new(name, pair, Ok(event), (DELTA, TIGHT_RUNS), move |with, draws| {
        let mut curator = past_the_curator::uncharged(&opened, NoiseSource::insecure(draws.word()));
        let released = sum(with, grid).and_then(|s| curator.release(&mechanism, &s));
        released.map_or(f64::NAN, |r| r.get().iter().zip(&direction).map(|(y, d)| y * d).sum())
    })
    .gaussian()
}

/// One noisy sum of the vectors of a Poisson batch, as a training loop outside the library makes it: q = 1/2, σ = 1.
fn batch_of_vectors() -> LibraryAudit {
    let (grid, records, q) = (Grid::new(-20), 3, 0.5);
    let mechanism = Gaussian::new(1.0, 1.0, grid, 2, "sum of vectors");
    let event = mechanism.event().poisson_sampled(q);
    let opened = event.clone();
    let release = move |with: bool, draws: &mut Draws| -> Result<f64, CuratorError> {
        let mut curator = past_the_curator::uncharged(&opened, NoiseSource::insecure(draws.word()));
        let (batch, chosen) = curator.sample_for_loader(records, q)?;
        let sum = ClippedVectors::new(1.0, grid)?.sum_batch(batch, chosen.len(), 2, |i, out| {
            out.extend(if with && chosen[i] == 0 { [3.0, 4.0] } else { [0.0, 0.0] });
        })?;
        Ok(curator.release(&mechanism, &sum)?.get().iter().zip([0.6, 0.8]).map(|(y, d)| y * d).sum())
    };
    LibraryAudit::new(
        "sum of the vectors of a batch",
        "vector (3, 4) clipped to 1, in or zeroed, q = .5; its direction",
        Ok(event),
        (1e-2, 100_000),
        move |with, draws| release(with, draws).unwrap_or(f64::NAN),
    )
    .counting(0.5)
}

/// A row of norm 1 in two columns, or of zeros.
fn diagonal_row(with: bool) -> Sensitive<Examples> {
    let mut rows = Rows::new(2);
    let half = std::f32::consts::FRAC_1_SQRT_2;
    if with {
        rows.push_clipped(&mut [(0, half), (1, half)], 1.0)
    } else {
        rows.push_zero()
    }
    Sensitive::new(Examples { rows, targets: vec![1.0] })
}

/// Noise σ·C⁻¹z with σ = the factor's sensitivity to the participation: one Gaussian of multiplier 1.
fn correlated(
    (name, pair): (&'static str, &'static str),
    factor: Result<Factor, FactorError>,
    steps: usize,
    (chosen, participation): (&[usize], Participation),
) -> LibraryAudit {
    let run = factor.map(|factor| {
        let noise_std = factor.sensitivity(steps, participation);
        (Correlated::new(factor, noise_std, steps), at(steps, chosen), vec![false; steps])
    });
    let event = run.as_ref().map(|_| Event::gaussian(1.0)).map_err(ToString::to_string);
    LibraryAudit::new(name, pair, event, (DELTA, TIGHT_RUNS), move |with, draws| {
        let Ok((run, expected, never)) = &run else { return f64::NAN };
        run.matched(if with { expected } else { never }, expected, draws)
    })
    .gaussian()
}

/// The sum of one vector C·e₁, or of none, in three coordinates; the projection is too wide to bind.
fn sparse_sums(clip: SparseClip) -> [Result<Sensitive<SparseSum>, CuratorError>; 2] {
    [false, true].map(|with| {
        SparseSummer::new(clip).map(|mut summer| {
            summer.add(&mut if with { vec![(0, 3.0)] } else { Vec::new() });
            summer.finish()
        })
    })
}

/// What is released of the first coordinate.
#[allow(clippy::ptr_arg, reason = "a mechanism's output is this type")]
fn first(released: &Vec<(u64, f64)>) -> f64 {
    released.iter().find(|entry| entry.0 == 0).map_or(0.0, |entry| entry.1)
}

fn laplace(
    (name, pair): (&'static str, &'static str),
    (event, run): (Event, impl Fn(bool, &mut Draws) -> f64 + Send + Sync + 'static),
) -> LibraryAudit {
    LibraryAudit::new(name, pair, Ok(event), (0.0, 200_000), run).counting(0.9).costly()
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let four_times = Participation::Separated { separation: 4, count: 4 };
    let mut rows = vec![
        gradient_sums(
            ("Gaussian sum through the curator", "clipped gradient, canary in or zeroed; coordinate"),
            1,
            1.0,
            [0.0, 1.0],
        ),
        gradient_sums(("Gaussian sum, replace-one", "record +C or -C; coordinate"), 1, 2.0, [-1.0, 1.0])
            .under(Relation::ReplaceOne),
        gradient_sums(("Gaussian sum, 4 in a row", "canary in 4 sums; sum of its coordinate"), 4, 2.0, [0.0, 1.0]),
        blocks(),
        query(
            ("second moment", "row (1, 1)/sqrt 2 in or zeroed; its isometric coordinates"),
            (Grid::for_products(1.0, 1.0, 4), vec![0.5, std::f64::consts::FRAC_1_SQRT_2, 0.5]),
            |with, grid| {
                let Ok(sum) = SecondMoment::new(1.0, 1.0, grid)?.sum(&diagonal_row(with));
                Ok(sum)
            },
        ),
        query(
            ("features times target", "row (1, 1)/sqrt 2, target 1, in or zeroed; its direction"),
            (Grid::for_sum(1.0, 1.0, 4, 2), vec![1.0, 1.0]),
            |with, grid| {
                let Ok(sum) = TargetMoment::new(1.0, 1.0, grid)?.sum(&diagonal_row(with));
                Ok(sum)
            },
        ),
        query(
            ("sum of vectors", "vector (3, 4) clipped to 1, in or zeroed; its direction"),
            (Grid::for_sum(1.0, 1.0, 4, 2), vec![0.6, 0.8]),
            |with, grid| {
                let vector = if with { [3.0, 4.0] } else { [0.0, 0.0] };
                ClippedVectors::new(1.0, grid).map(|clip| clip.sum(1, 2, |_, out| out.extend(vector)))
            },
        ),
        batch_of_vectors(),
        LibraryAudit::new(
            "tree of prefix sums",
            "canary in the first of 16 steps; the five nodes that hold it, from the prefixes",
            Ok(Event::gaussian(1.0)),
            (DELTA, TIGHT_RUNS),
            |with, draws| tree(5, 5f64.sqrt(), with, draws),
        )
        .gaussian(),
        correlated(
            ("banded square root", "canary 4 times, 4 steps apart, 16 steps, 4 bands; matched filter"),
            Factor::square_root(4),
            16,
            (&[0, 4, 8, 12], four_times),
        ),
        correlated(
            ("square root of the prefix sums", "canary 4 times, 4 steps apart, 16 steps; matched filter"),
            Factor::square_root(16),
            16,
            (&[0, 4, 8, 12], four_times),
        ),
        correlated(
            ("banded inverse square root", "canary once, in the first of 16 steps; matched filter"),
            Factor::inverse_square_root(4),
            16,
            (&[0], Participation::Single),
        ),
        correlated(
            ("buffered linear Toeplitz, 2 buffers", "canary once, in the first of 16 steps; matched filter"),
            Factor::blt_default(2),
            16,
            (&[0], Participation::Single),
        ),
        LibraryAudit::new(
            "lazily aggregated noise",
            "canary in 4 of 16 steps, untouched between; weight at the end",
            Ok(Event::gaussian(1.0)),
            (DELTA, TIGHT_RUNS),
            // 4 contributions against 16 noises of 1
            |with, draws| lazy(16, 1.0, &[0, 5, 6, 12], with, draws),
        )
        .gaussian(),
    ];

    // weight decay a: a contribution i steps before the end is a^i, the noise Σ a^2i
    let (decay, steps) = (0.9f64, 8);
    let moved = 1.0 + decay.powi(2) + decay.powi(4);
    let spread: f64 = (0..steps).map(|i| decay.powi(2 * i)).sum();
    rows.push(
        LibraryAudit::new(
            "lazily aggregated noise with weight decay",
            "canary in 3 of 8 steps, decay .9; weight at the end",
            Ok(Event::gaussian(spread.sqrt() / moved)),
            (DELTA, TIGHT_RUNS),
            move |with, draws| lazy(steps as u32, decay, &[3, 5, 7], with, draws),
        )
        .gaussian(),
    );

    let grid = Grid::new(-20);
    let present = |with: bool| if with { 5.0 } else { 0.0 };
    rows.push(laplace(
        ("rounded Laplace", "l1 canary C; output"),
        mechanism(
            Laplace::new(1.0, 1.0, grid, 1),
            [false, true].map(|with| L1Sum::of(1, 1, 1.0, grid, |_, out| out.push(present(with)))),
            |out| out[0],
        ),
    ));
    let projection = Projection { radius: 1e6, sparsity: 3.0 };
    let clip = SparseClip { dimension: 3, norm: 1.0, l1_norm: 1.0, calibrated: Norm::L2, grid, dense: true };
    let gaussian = ProjectedGaussian { noise_multiplier: 1.0, clip_norm: 1.0, grid, dimension: 3, projection };
    for (name, dense) in
        [("projected Gaussian, all coordinates", true), ("projected Gaussian, drawn from the top", false)]
    {
        let (event, run) = mechanism(gaussian.clone(), sparse_sums(SparseClip { dense, ..clip }), first);
        rows.push(
            LibraryAudit::new(
                name,
                "vector clipped to C, in or zeroed; its entry",
                Ok(event),
                (DELTA, TIGHT_RUNS),
                run,
            )
            .gaussian(),
        );
    }
    let l1 = SparseClip { calibrated: Norm::L1, ..clip };
    rows.push(laplace(
        ("projected Laplace", "vector clipped to l1 norm C, in or zeroed; its entry"),
        mechanism(
            ProjectedLaplace { noise_multiplier: 1.0, clip_norm: 1.0, grid, dimension: 3, projection },
            sparse_sums(l1),
            first,
        ),
    ));
    let cell = |with: bool| [with.then_some(0)].into_iter();
    rows.push(laplace(
        ("discrete Laplace", "a record in the cell or in none, scale 1; its count"),
        mechanism(
            DiscreteLaplaceNoise::new(1.0, 1),
            [false, true].map(|with| Ok(Counts::histogram(cell(with), 1))),
            |out| out[0] as f64,
        ),
    ));
    let (event, run) = mechanism(
        DiscreteGaussianNoise::new(1.0, 1.0),
        [false, true].map(|with| Ok(Counts::histogram(cell(with), 1))),
        |out| out[0] as f64,
    );
    rows.push(
        LibraryAudit::new(
            "discrete Gaussian",
            "a record in the cell or in none, sigma 1; its count",
            Ok(event),
            (1e-2, 200_000),
            run,
        )
        .counting(0.8)
        .reaching(Reach::Epsilon(discrete_gaussian_epsilon(1e-2))),
    );
    rows
}

/// A mechanism through the curator on two worlds, and its event.
fn mechanism<M: Mechanism + Send + Sync + 'static>(
    mechanism: M,
    worlds: [Result<Sensitive<M::Input>, CuratorError>; 2],
    statistic: fn(&M::Output) -> f64,
) -> (Event, impl Fn(bool, &mut Draws) -> f64 + Send + Sync + 'static)
where
    M::Input: Send + Sync + 'static,
{
    let event = mechanism.event();
    let opened = event.clone();
    let run = move |with: bool, draws: &mut Draws| {
        let Ok(world) = &worlds[usize::from(with)] else { return f64::NAN };
        let mut curator = past_the_curator::uncharged(&opened, NoiseSource::insecure(draws.word()));
        curator.release(&mechanism, world).map_or(f64::NAN, |out| statistic(out.get()))
    };
    (event, run)
}

/// ε at δ of the discrete Gaussian with σ = 1 on a count that moves by 1: Σ max(0, P(x) − e^ε·P(x + 1)) = δ.
fn discrete_gaussian_epsilon(delta: f64) -> f64 {
    let weight = |x: i32| (-0.5 * f64::from(x * x)).exp();
    let total: f64 = (-40..=40).map(weight).sum();
    let excess = |e: f64| (-40..40).map(|x| (weight(x) - e.exp() * weight(x + 1)).max(0.0)).sum::<f64>() / total;
    let (mut low, mut high) = (0.0, 20.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if excess(middle) > delta { low = middle } else { high = middle }
    }
    low
}
