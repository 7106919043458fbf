//! Faults around clipped sums, made on the library's own clip, grid, curator and noise (docs/proofs/gaussian-sum.md).

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::sums::SumMechanism;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::{Gaussian, HistogramShape, Histograms, past_the_curator};
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, RoundedGaussian};
use dpopt_privacy::Event;
use dpopt_privacy::special::{gaussian_mu, gaussian_noise_multiplier};

/// What leaves on the two worlds: sums without and with the record, through one mechanism.
struct Sums {
    mechanism: SumMechanism,
    units: [Vec<i64>; 2],
}

impl Sums {
    /// The record's `contribution` is in the sum or not; all others are 0.
    fn canary(mechanism: SumMechanism, contribution: impl FnOnce(&SumMechanism) -> Vec<i64>) -> Self {
        let with = contribution(&mechanism);
        Self { units: [vec![0; with.len()], with], mechanism }
    }

    /// Σ of the noisy coordinates.
    fn release(&self, with: bool, draws: &mut Draws) -> f64 {
        let noisy = self.mechanism.release(&self.units[usize::from(with)], draws);
        if noisy.is_empty() { f64::NAN } else { noisy.iter().sum() }
    }
}

/// A row whose two variants differ in the mechanism or in what goes through it.
fn sums(
    text: (&'static str, super::Source, &'static str, &'static str),
    mu: f64,
    runs: u64,
    (correct, injected): (Sums, Sums),
) -> InjectedFault {
    InjectedFault::counting(text, Claim::gaussian(mu), (runs, 2_500), move |code, with, draws| {
        code.pick(&correct, &injected).release(with, draws)
    })
}

/// Noise for one count, where a record is in one cell of each of three columns on three scales.
pub(super) fn histograms() -> InjectedFault {
    let shape = HistogramShape { columns: 3, branching: 2, scales: 3 };
    let clip = shape.clip_norm();
    InjectedFault::counting(
        (
            "21.histograms",
            Shipped,
            "noise of a histogram of one column on one scale on those of three columns on three (three times too little)",
            "a record in the first cells or absent; sum of their counts",
        ),
        Claim::gaussian(1.0),
        (300, 3_000),
        move |code, with, draws| {
            let mut histograms = Histograms::new(shape);
            if with {
                histograms.count([Some(0); 3]);
            }
            let noise = code.pick(1.0, 1.0 / clip);
            let mechanism = Gaussian::new(noise, clip, shape.grid(), shape.dimension(), "histograms");
            let mut curator = past_the_curator::uncharged(&Event::gaussian(noise), NoiseSource::insecure(draws.word()));
            let released = curator.release(&mechanism, &histograms.finish());
            released.map_or(f64::NAN, |counts| {
                counts.get().chunks_exact(shape.counts_of_a_column()).map(|c| c[0] + c[2] + c[6]).sum()
            })
        },
    )
}

fn contributions() -> Vec<InjectedFault> {
    // noise 2 on a sum of sensitivity 1: μ = 1/2
    let half = |contribution: fn(&SumMechanism) -> Vec<i64>| {
        let d = contribution(&SumMechanism::new(2.0, 1)).len();
        Sums::canary(SumMechanism::new(2.0, d), contribution)
    };
    let replaced = |noise| {
        let mechanism = SumMechanism::new(noise, 1);
        Sums { units: [mechanism.clipped(&[-1.0]), mechanism.clipped(&[1.0])], mechanism }
    };
    let noisy = |noise| Sums::canary(SumMechanism::new(noise, 1), |mechanism| mechanism.clipped(&[1.0]));
    let root = 0.5f64.sqrt();
    let (epsilon, delta) = (20.0f64, 1e-5f64);
    let classical = (2.0 * (1.25 / delta).ln()).sqrt() / epsilon;
    vec![
        sums(
            (
                "20.1",
                Shipped,
                "noise for sensitivity C where the relation is replace-one (2C)",
                "record +C against record -C, coordinate",
            ),
            1.0,
            211,
            (replaced(2.0), replaced(1.0)),
        ),
        sums(
            ("20.2", Altered, "clip skipped (row of norm 4C)", "canary of norm 4C, coordinate"),
            0.5,
            92,
            (half(|mechanism| mechanism.clipped(&[4.0])), half(|mechanism| mechanism.unclipped(&[4.0]))),
        ),
        sums(
            ("20.3", Shipped, "variance passed as standard deviation (2 becomes sqrt 2)", "canary C, coordinate"),
            0.5,
            3_700,
            (noisy(2.0), noisy(2f64.sqrt())),
        ),
        sums(
            (
                "20.4",
                Shipped,
                "classical formula sqrt(2 ln(1.25/delta))/epsilon used at epsilon = 20 (true epsilon 25.44)",
                "canary C, coordinate",
            ),
            gaussian_mu(epsilon, delta),
            1_600,
            (noisy(gaussian_noise_multiplier(epsilon, delta)), noisy(classical)),
        ),
        sums(
            (
                "20.6",
                Shipped,
                "l-infinity clip where the noise is for l2 (d = 4)",
                "canary (C, C, C, C), sum of coordinates",
            ),
            0.5,
            664,
            (
                Sums::canary(SumMechanism::new(2.0, 4), |mechanism| mechanism.clipped(&[1.0; 4])),
                Sums::canary(SumMechanism::clipping(Norm::LInfinity, 2.0, 4), |mechanism| mechanism.clipped(&[1.0; 4])),
            ),
        ),
        sums(
            (
                "20.7",
                Shipped,
                "clip C per layer (9 layers), accounted as C for the whole gradient",
                "all layers at C, sum of coordinates",
            ),
            0.5,
            183,
            (
                half(|mechanism| mechanism.clipped(&[1.0; 9])),
                half(|mechanism| (0..9).flat_map(|_| mechanism.clipped(&[1.0])).collect()),
            ),
        ),
        sums(
            (
                "20.9",
                Shipped,
                "clip per record where the unit is the user (4 records)",
                "user with 4 aligned records, coordinate",
            ),
            0.5,
            92,
            (
                half(|mechanism| mechanism.clipped(&[4.0])),
                half(|mechanism| vec![(0..4).map(|_| mechanism.clipped(&[1.0])[0]).sum()]),
            ),
        ),
        sums(
            (
                "20.17",
                Altered,
                "gradient of the intercept added after the clip",
                "row of norm C and intercept C, sum of coordinates",
            ),
            1.0,
            1_050,
            (
                Sums::canary(SumMechanism::new(1.0, 2), |mechanism| mechanism.clipped(&[1.0, 1.0])),
                Sums::canary(SumMechanism::new(1.0, 2), |mechanism| {
                    [mechanism.clipped(&[1.0]), mechanism.unclipped(&[1.0])].concat()
                }),
            ),
        ),
        sums(
            (
                "19.repeated-index",
                Shipped,
                "a sparse row repeats an index and is clipped entry by entry",
                "two entries C/sqrt 2 at one index, coordinate",
            ),
            0.5,
            3_700,
            (
                Sums::canary(SumMechanism::new(2.0, 1), |mechanism| {
                    vec![mechanism.clipped_sparse(&[(7, root), (7, root)])]
                }),
                // the norm of the list of entries is C: the check passes, the coordinate moves by sqrt 2·C
                Sums::canary(SumMechanism::new(2.0, 1), |mechanism| {
                    vec![mechanism.clipped(&[root, root]).iter().sum()]
                }),
            ),
        ),
    ]
}

/// Noise of standard deviation `scale` on the grid of the mechanisms.
fn rounded(scale: f64, grid: Grid) -> RoundedGaussian {
    match RoundedGaussian::new(scale, grid) {
        Ok(noise) => noise,
        Err(_) => unreachable!("constants of this file fit the grid 2^-20"),
    }
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = contributions();
    let mechanism = SumMechanism::new(1.0, 1);
    let (one, grid) = (mechanism.clipped(&[1.0])[0], mechanism.grid());
    let record = move |with: bool| if with { one } else { 0 };

    let noise = rounded(1.0, grid);
    bugs.push(InjectedFault::counting(
        (
            "20.20",
            Altered,
            "the same noise seed in two steps",
            "record in the second step only; 1{difference of the releases is exactly C}",
        ),
        Claim::gaussian(1.0),
        (40, 3_000),
        move |code, with, draws| {
            let seed = draws.word();
            let mut source = NoiseSource::insecure(seed);
            let first = noise.sample(&mut source.stream(Purpose::Noise, 1));
            // the injected step opens the source again instead of moving on
            let mut again = NoiseSource::insecure(seed);
            let second = match code {
                Code::Correct => noise.sample(&mut source.stream(Purpose::Noise, 1)),
                Code::Injected => noise.sample(&mut again.stream(Purpose::Noise, 1)),
            };
            indicator(record(with) + second - first == one)
        },
    ));

    let noise = rounded(1.0, grid);
    bugs.push(InjectedFault::counting(
        (
            "20.21",
            Altered,
            "one noise draw shared by all coordinates",
            "canary in the first coordinate; 1{the two coordinates differ}",
        ),
        Claim::gaussian(1.0),
        (40, 100),
        move |code, with, draws| {
            let first = noise.sample(draws.noise());
            let second = code.pick(noise.sample(draws.noise()), first);
            // fresh noises on this grid collide with probability below 1e-6
            indicator(record(with) + first != second)
        },
    ));

    bugs.push(InjectedFault::counting(
        ("20.22", Altered, "a NaN gradient passes the clip", "canary NaN; 1{output is NaN}"),
        Claim::gaussian(1.0),
        (40, 2_500),
        move |code, with, draws| {
            let gradient = if with { f64::NAN } else { 0.0 };
            let output = match code {
                Code::Correct => {
                    mechanism.release(&mechanism.clipped(&[gradient]), draws).first().copied().unwrap_or(f64::NAN)
                }
                // min(1, C/norm)·g in floating point
                Code::Injected => gradient * (1.0 / gradient.abs()).min(1.0) + draws.gaussian(),
            };
            indicator(output.is_nan())
        },
    ));

    let noise = rounded(1.0, grid);
    bugs.push(InjectedFault::counting(
        ("20.23", Altered, "noise clamped at 4 standard deviations", "canary C, coordinate"),
        Claim::gaussian(1.0),
        (580_000, 60),
        move |code, with, draws| {
            let z = noise.sample(draws.noise());
            grid.to_f64(record(with) + code.pick(z, z.clamp(-4 << 20, 4 << 20)))
        },
    ));

    let (fine, coarse) = (rounded(4.0, grid), rounded(4.0, Grid::new(grid.exponent() + 1)));
    bugs.push(InjectedFault::counting(
        (
            "19.coarse-noise",
            Shipped,
            "noise on a grid twice as coarse as the sum's",
            "canary of one grid step; parity of the output",
        ),
        Claim::gaussian(0.25),
        (40, 100),
        move |code, with, draws| {
            let noise = match code {
                Code::Correct => fine.sample(draws.noise()),
                Code::Injected => 2 * coarse.sample(draws.noise()),
            };
            indicator((i64::from(with) + noise).rem_euclid(2) == 1)
        },
    ));
    bugs
}
