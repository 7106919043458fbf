//! Are the laws of the shipped samplers the stated ones? Goodness-of-fit tests against exact references, each with its
//! false-alarm rate and its measured power against a classical mistake.
//!
//! Kolmogorov–Smirnov for continuous laws in one dimension, Pearson's chi-square for finite ones, the energy distance for
//! vectors (where a wrong dependence hides behind right margins). False alarm of one test of correct code: 1e-6.

use super::Tier;
use super::catalogue::Code;
use super::kept::Kept;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::laws::{chi_square_p_value, energy_p_value, ks_p_value};
use dpopt_draws::{
    DiscreteGaussian, ExponentialChoice, LazyIterate, LazyOptions, NoisyMax, Phase, Repetitions, StepRule,
};
use dpopt_mechanism::progress::Progress;
use dpopt_noise::correlated::{CorrelatedNoise, Factor};
use dpopt_noise::{DiscreteLaplace, Grid, PoissonSkips, RoundedGaussian, RoundedLaplace};
use dpopt_privacy::special::normal_cdf;
use dpopt_process::in_threads;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// False alarm of one test of correct code.
const ALPHA: f64 = 1e-6;

/// One sampler, its law, a test, and a mistake that the test must see.
pub struct LawTest {
    /// Name of the sampler that is tested.
    pub sampler: &'static str,
    /// The exact law.
    pub law: &'static str,
    /// Which test, on how many draws.
    pub test: &'static str,
    /// The injected fault in words.
    pub mistake: &'static str,
    /// p-value of fresh draws; an error if a sampler refuses its parameters.
    p_value: fn(Code, &mut Draws) -> Result<f64, String>,
}

impl LawTest {
    /// What no other test is called: two mistakes of one sampler are two tests.
    pub(crate) fn name(&self) -> String {
        format!("{}: {}", self.sampler, self.mistake)
    }
}

/// What became of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LawOutcome {
    /// Name of the sampler that is tested.
    pub sampler: String,
    /// The exact law.
    pub law: String,
    /// Which test, on how many draws.
    pub test: String,
    /// The injected fault in words.
    pub mistake: String,
    /// Independent tests of the correct sampler, and of the mistake.
    pub seeds: u64,
    /// Smallest p-value of the correct sampler.
    pub smallest_p: f64,
    /// How many tests of the mistake had p < 1e-6.
    pub rejected: u64,
    /// A correct sampler had p < 1e-6.
    pub violation: bool,
    /// The mistake was seen in at least 99 % of the tests.
    pub caught: bool,
    /// Why a test could not be made, if so.
    pub failure: Option<String>,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Runs all tests; one tick of progress each.
pub fn run(tier: Tier, seed: u64, progress: &dyn Progress) -> Vec<LawOutcome> {
    run_some(tier, seed, |_| true, &Kept::nothing(), progress)
}

/// Runs the tests of the given samplers as [`run`] does, with the same outcomes; those that are kept are not run again.
pub fn run_some(
    tier: Tier,
    seed: u64,
    wanted: impl Fn(&str) -> bool,
    kept: &Kept,
    progress: &dyn Progress,
) -> Vec<LawOutcome> {
    let tests = all();
    progress.start("laws of the samplers", tests.iter().filter(|t| wanted(t.sampler)).count() as u64);
    let outcomes = tests
        .iter()
        .enumerate()
        .filter(|(_, test)| wanted(test.sampler))
        .map(|(i, test)| {
            let seed = seed.wrapping_mul(104_729).wrapping_add(i as u64);
            let outcome = kept.or_run("law", &test.name(), || run_one(test, tier, seed));
            progress.tick();
            outcome
        })
        .collect();
    progress.finish();
    outcomes
}

fn run_one(test: &LawTest, tier: Tier, seed: u64) -> LawOutcome {
    let started = Instant::now();
    let seeds = if tier == Tier::Long { 100 } else { 1 };
    let p_values = |code: Code, first: u64| -> Result<Vec<f64>, String> {
        let of = |stream| (test.p_value)(code, &mut Draws::new(seed, stream));
        in_threads(|| (first..first + seeds).into_par_iter().map(of).collect())
    };
    let both = p_values(Code::Correct, 0).and_then(|c| p_values(Code::Injected, 1 << 32).map(|p| (c, p)));
    let (correct, injected, failure) = match both {
        Ok((correct, injected)) => (correct, injected, None),
        Err(reason) => (Vec::new(), Vec::new(), Some(reason)),
    };
    let rejected = injected.iter().filter(|p| **p < ALPHA).count() as u64;
    LawOutcome {
        sampler: test.sampler.into(),
        law: test.law.into(),
        test: test.test.into(),
        mistake: test.mistake.into(),
        seeds,
        smallest_p: correct.iter().copied().fold(1.0, f64::min),
        rejected,
        violation: correct.iter().any(|p| *p < ALPHA),
        caught: failure.is_none() && rejected * 100 >= seeds * 99,
        failure,
        seconds: started.elapsed().as_secs_f64(),
    }
}

/// All tests of laws.
pub fn all() -> Vec<LawTest> {
    let test = |sampler, law, test, mistake, p_value| LawTest { sampler, law, test, mistake, p_value };
    vec![
        test("rounded Gaussian", "N(0, 1)", "Kolmogorov-Smirnov, 40 000 draws", "standard deviation 1.1", gaussian),
        test("rounded Laplace", "Laplace, scale 1", "Kolmogorov-Smirnov, 80 000 draws", "scale 1.1", laplace),
        test(
            "discrete Laplace",
            "P(x) ~ e^(-|x|/3)",
            "chi-square, 21 cells, 20 000 draws",
            "-0 counts as a second 0",
            discrete_laplace,
        ),
        test(
            "discrete Gaussian",
            "P(x) ~ e^(-x²/2)",
            "chi-square, 7 cells, 100 000 draws",
            "a rounded continuous Gaussian",
            discrete_gaussian,
        ),
        test(
            "exponential mechanism",
            "P(i) ~ e^(u_i/2), u = (2, 1, 0, 0, 0)",
            "chi-square, 5 cells, 20 000 draws",
            "permute-and-flip",
            |code, draws| choice(code, [ChoiceOf::Exponential, ChoiceOf::Flip], &softmax(), draws),
        ),
        test(
            "permute-and-flip",
            "visits in random order, u = (2, 1, 0, 0, 0), scale 2",
            "chi-square, 5 cells, 20 000 draws",
            "the exponential mechanism",
            |code, draws| choice(code, [ChoiceOf::Flip, ChoiceOf::Exponential], &flipped(), draws),
        ),
        test(
            "number of runs of a search",
            "geometric, mean 5",
            "chi-square, 20 cells, 20 000 draws",
            "mean 5.5",
            repetitions,
        ),
        test(
            "size of a Poisson batch",
            "binomial(50, .3)",
            "chi-square, 15 cells, 10 000 draws",
            "q = .31",
            batch_size,
        ),
        test(
            "shuffle",
            "uniform over 24 orders",
            "chi-square, 24 cells, 20 000 draws",
            "each item swapped with any other",
            shuffle,
        ),
        test(
            "noise drawn lazily, two weights",
            "two independent N(0, 16)",
            "energy distance, 800 pairs",
            "one draw for both weights",
            lazy_weights,
        ),
        test(
            "banded noise, three steps",
            "C⁻¹z with C = (1, .75) on the diagonals",
            "energy distance, 1600 triples",
            "independent noise of the same variances",
            banded,
        ),
    ]
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

const GRID: i32 = -20;

fn gaussian(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let grid = Grid::new(GRID);
    let noise = RoundedGaussian::new(code.pick(1.0, 1.1), grid).map_err(text)?;
    let mut sample: Vec<f64> = (0..40_000).map(|_| grid.to_f64(noise.sample(draws.noise()))).collect();
    Ok(ks_p_value(&mut sample, normal_cdf))
}

fn laplace(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let grid = Grid::new(GRID);
    let noise = RoundedLaplace::new(code.pick(1.0, 1.1), grid).map_err(text)?;
    let mut sample: Vec<f64> = (0..80_000).map(|_| grid.to_f64(noise.sample(draws.noise()))).collect();
    Ok(ks_p_value(&mut sample, |x| if x < 0.0 { 0.5 * x.exp() } else { 1.0 - 0.5 * (-x).exp() }))
}

/// p-value of integers around 0 against a symmetric law; what lies beyond ±`reach` is one cell on either side.
fn integers(reach: i64, weight: impl Fn(i64) -> f64, sample: impl Iterator<Item = i64>) -> Result<f64, String> {
    let far = 60 * reach;
    let total: f64 = (-far..=far).map(&weight).sum();
    let cells = (2 * reach + 1) as usize;
    let place = |x: i64| (x.clamp(-reach, reach) + reach) as usize;
    let (mut probabilities, mut observed) = (vec![0.0; cells], vec![0u64; cells]);
    (-far..=far).for_each(|x| probabilities[place(x)] += weight(x) / total);
    sample.for_each(|x| observed[place(x)] += 1);
    chi_square_p_value(&observed, &probabilities)
}

fn discrete_laplace(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let noise = DiscreteLaplace::new(3).map_err(text)?;
    // the mistake: a sign for each size, and nobody asks about −0
    let mistaken = |draws: &mut Draws| {
        let size = (draws.exponential() * 3.0).floor() as i64;
        if draws.coin(0.5) { size } else { -size }
    };
    let sample = (0..20_000).map(|_| match code {
        Code::Correct => noise.sample(draws.noise()),
        Code::Injected => mistaken(draws),
    });
    integers(10, |x| (-(x.abs() as f64) / 3.0).exp(), sample)
}

fn discrete_gaussian(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let discrete = DiscreteGaussian::new(1.0).map_err(text)?;
    let sample = (0..100_000).map(|_| match code {
        Code::Correct => discrete.sample(draws.noise()),
        Code::Injected => draws.gaussian().round() as i64,
    });
    integers(3, |x| (-0.5 * (x * x) as f64).exp(), sample)
}

#[derive(Clone, Copy)]
enum ChoiceOf {
    Exponential,
    Flip,
}

const SCORES: [i64; 5] = [2, 1, 0, 0, 0];

fn softmax() -> [f64; 5] {
    let weights = SCORES.map(|u| (0.5 * u as f64).exp());
    weights.map(|w| w / weights.iter().sum::<f64>())
}

/// Candidates are visited in a random order and kept with probability e^(−gap/2): the sum over all orders.
fn flipped() -> [f64; 5] {
    fn visit(left: &[usize], reached: f64, out: &mut [f64; 5]) {
        for &i in left {
            let kept = (0.5 * (SCORES[i] - SCORES[0]) as f64).exp();
            let here = reached / left.len() as f64;
            out[i] += here * kept;
            let rest: Vec<usize> = left.iter().copied().filter(|&j| j != i).collect();
            if kept < 1.0 {
                visit(&rest, here * (1.0 - kept), out);
            }
        }
    }
    let mut out = [0.0; 5];
    visit(&[0, 1, 2, 3, 4], 1.0, &mut out);
    out
}

fn choice(code: Code, which: [ChoiceOf; 2], exact: &[f64; 5], draws: &mut Draws) -> Result<f64, String> {
    let (exponential, flip) =
        (ExponentialChoice::new(1.0, 1, false).map_err(text)?, NoisyMax::new(1.0, 1, false).map_err(text)?);
    let mut observed = [0u64; 5];
    for _ in 0..20_000 {
        let chosen = match code.pick(which[0], which[1]) {
            ChoiceOf::Exponential => exponential.choose(&SCORES, draws.noise()),
            ChoiceOf::Flip => flip.choose(SCORES, draws.noise()),
        };
        observed[chosen.ok_or("nothing was chosen")?] += 1;
    }
    chi_square_p_value(&observed, exact)
}

fn repetitions(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let law = Repetitions::negative_binomial(1.0, code.pick(5.0, 5.5)).map_err(text)?;
    // P(k) = .2·.8^(k−1); 20 and more are one cell
    let mut probabilities: Vec<f64> = (0..19).map(|k| 0.2 * 0.8f64.powi(k)).collect();
    probabilities.push(0.8f64.powi(19));
    let mut observed = vec![0u64; 20];
    (0..20_000).for_each(|_| observed[(law.sample(draws.noise()).clamp(1, 20) - 1) as usize] += 1);
    chi_square_p_value(&observed, &probabilities)
}

fn batch_size(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let (n, q) = (50u64, 0.3f64);
    let skips = PoissonSkips::new(code.pick(q, 0.31)).map_err(text)?;
    // sizes up to 8, 9, …, 21, 22 and more
    let place = |size: u64| (size.clamp(8, 22) - 8) as usize;
    let (mut probabilities, mut observed) = (vec![0.0; 15], vec![0u64; 15]);
    let mut mass = (n as f64 * (-q).ln_1p()).exp();
    for size in 0..=n {
        probabilities[place(size)] += mass;
        mass *= (n - size) as f64 / (size + 1) as f64 * q / (1.0 - q);
    }
    let mut batch = Vec::new();
    for _ in 0..10_000 {
        batch.clear();
        skips.subset(n, draws.noise(), &mut batch);
        observed[place(batch.len() as u64)] += 1;
    }
    chi_square_p_value(&observed, &probabilities)
}

fn shuffle(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let mut observed = [0u64; 24];
    for _ in 0..20_000 {
        let mut items = [0usize, 1, 2, 3];
        match code {
            Code::Correct => draws.noise().shuffle(&mut items),
            Code::Injected => (0..4).for_each(|i| items.swap(i, draws.below(4))),
        }
        // the order's number in the factorial system
        let rank = (0..4).fold(0, |r, i| r * (4 - i) + items[i + 1..].iter().filter(|&&x| x < items[i]).count());
        observed[rank] += 1;
    }
    chi_square_p_value(&observed, &[1.0 / 24.0; 24])
}

fn lazy_weights(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let rule = StepRule { learning_rate: 1.0, decay: 1.0, momentum: 0.0, average_weight: 0.0 };
    let options = LazyOptions {
        dimension: 2,
        runs: vec![Phase { steps: 16, rule }],
        noise_std: 1.0,
        max_gradient: 1.0,
        grid: Grid::new(-20),
        max_reads: 32,
    };
    let mut pair = |code: Code| -> Result<Vec<f64>, String> {
        let mut iterate = LazyIterate::new(&options).map_err(text)?;
        for step in 0..16 {
            if step == 5 {
                // one of the two is read on the way
                iterate.read(0, draws.noise());
            }
            if !iterate.end_step(draws.noise()) {
                return Err("the run is over".into());
            }
        }
        let weights = iterate.finish(draws.noise());
        Ok(vec![weights[0], weights[code.pick(1, 0)]])
    };
    let seen: Vec<Vec<f64>> = (0..800).map(|_| pair(code)).collect::<Result<_, _>>()?;
    let exact: Vec<Vec<f64>> = (0..800).map(|_| vec![4.0 * draws.gaussian(), 4.0 * draws.gaussian()]).collect();
    Ok(energy_p_value(&seen, &exact, 8, draws))
}

fn banded(code: Code, draws: &mut Draws) -> Result<f64, String> {
    let (band, grid) = (0.75f64, Grid::new(-20));
    let factor = Factor::banded(&[1.0, band]).map_err(text)?;
    // n_t = z_t − .75·n_(t−1)
    let dense = |draws: &mut Draws| {
        let mut last = 0.0;
        (0..3)
            .map(|_| {
                last = draws.gaussian() - band * last;
                last
            })
            .collect::<Vec<f64>>()
    };
    let spread: Vec<f64> = (0..3).map(|t| (0..=t).map(|i| band.powi(2 * i)).sum::<f64>().sqrt()).collect();
    let shipped = |draws: &mut Draws| -> Result<Vec<f64>, String> {
        let mut noise = CorrelatedNoise::new(factor.clone(), 1.0, grid, 1, 3).map_err(text)?;
        (0..3)
            .map(|_| {
                let mut sum = [0i64];
                if noise.add_next(&mut sum, draws.noise()) {
                    Ok(grid.to_f64(sum[0]))
                } else {
                    Err("the run is over".into())
                }
            })
            .collect()
    };
    let one = |draws: &mut Draws| match code {
        Code::Correct => shipped(draws),
        Code::Injected => Ok(spread.iter().map(|s| s * draws.gaussian()).collect()),
    };
    let seen: Vec<Vec<f64>> = (0..1600).map(|_| one(draws)).collect::<Result<_, _>>()?;
    let exact: Vec<Vec<f64>> = (0..1600).map(|_| dense(draws)).collect();
    Ok(energy_p_value(&seen, &exact, 8, draws))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_mechanism::progress::Silent;

    #[test]
    fn exact_probabilities() {
        // permute-and-flip for scores 2, 1, 0, 0, 0 and λ = 1/2
        let flipped = flipped();
        assert!((flipped[0] - 0.43541).abs() < 1e-5 && (flipped[1] - 0.21071).abs() < 1e-5);
        assert!(
            (flipped.iter().sum::<f64>() - 1.0).abs() < 1e-12 && (softmax().iter().sum::<f64>() - 1.0).abs() < 1e-12
        );
    }

    #[test]
    fn laws_hold_and_each_mistake_is_seen() {
        // eleven tests, false alarm at most 1.1e-5 over all
        for outcome in run(Tier::Short, 1, &Silent) {
            assert!(outcome.failure.is_none() && !outcome.violation && outcome.caught, "{outcome:?}");
        }
    }
}
