//! The law of the Gaussian sampler against cell probabilities computed to 40 digits (mpmath), 10^8 samples each.
//!
//! Every test is Pearson's with the limit of Laurent and Massart: false alarm below e^-17 = 4e-8 each. Power: a wrong
//! standard deviation by 0.1% adds 2·10^8·10^-6 = 200 to the statistic, 6.2% less mass beyond r = 3.6557 adds 98; the limit
//! lies 70 above the mean.
use dpopt_noise::{Grid, NoiseSource, Purpose, RoundedGaussian};

/// P(|K| = k) for s = 0.7 and k = 0, 1, …; the last entry holds the rest.
const S_0_7: [f64; 7] = [
    0.52494947594604703,
    0.44292595284629636,
    0.031769531826909676,
    0.00035446607760318326,
    5.7317433503488421e-7,
    1.2880479355712729e-10,
    3.9299455459118425e-15,
];

/// P(|K| = k) for s = 3.3 and k = 0, 1, …; the last entry holds the rest.
const S_3_3: [f64; 23] = [
    0.12043064036533188,
    0.23013307590791353,
    0.20073128621311929,
    0.15983603038967017,
    0.11618692570521674,
    0.077101336873118991,
    0.046707594048360948,
    0.025830490409506604,
    0.013040545565265754,
    0.0060100070653795827,
    0.0025285308123313286,
    0.00097112085724475613,
    0.00034047684919921137,
    0.00010897038329022363,
    3.1837068959793136e-5,
    8.490990017785132e-6,
    2.0671929296535439e-6,
    4.5940713769742087e-7,
    9.3197655040650823e-8,
    1.7258342691330568e-8,
    2.9172675535645712e-9,
    4.5012445330804138e-10,
    7.2616322112153288e-11,
];

/// Edges of cells of |x|, in standard deviations, and their probabilities; the last cell is open.
const EDGES: [f64; 19] =
    [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.65570068359375, 4.0, 4.5, 5.0, 5.5];
const CELLS: [f64; 20] = [
    0.19741265136584745,
    0.18551227118217876,
    0.16382037269823739,
    0.1359441968908223,
    0.10601096052920359,
    0.077685144795994383,
    0.053496088810081951,
    0.034618049831275766,
    0.021051318586269008,
    0.012029614658537136,
    0.0064598041814431568,
    0.0032597304068489245,
    0.001545745978478655,
    0.00068879192671048401,
    0.00020877768479544194,
    0.00019313798960936829,
    5.6547137416779722e-5,
    6.222043105701733e-6,
    5.3532401882661238e-7,
    3.7979124931775439e-8,
];

/// Pearson's statistic of `counts` against `probabilities`, rare cells pooled, minus its limit: negative is good.
fn excess(counts: &[u64], probabilities: &[f64]) -> f64 {
    let n = counts.iter().sum::<u64>() as f64;
    let (mut chi2, mut cells, mut pool, mut pool_expected) = (0.0, 0.0, 0.0, 0.0);
    for (&count, p) in counts.iter().zip(probabilities) {
        if n * p < 15.0 {
            pool += count as f64;
            pool_expected += n * p;
        } else {
            chi2 += (count as f64 - n * p).powi(2) / (n * p);
            cells += 1.0;
        }
    }
    if pool_expected >= 1.0 {
        chi2 += (pool - pool_expected).powi(2) / pool_expected;
        cells += 1.0;
    } else {
        assert!(pool <= 12.0, "{pool} samples where {pool_expected} were expected"); // Poisson(1): P(> 12) < 1e-10
    }
    let freedom: f64 = cells - 1.0;
    chi2 - (freedom + 2.0 * (17.0 * freedom).sqrt() + 34.0)
}

/// Counts of cells of `n` samples.
fn counts(noise: &RoundedGaussian, seed: u64, n: usize, cells: usize, cell: impl Fn(u64) -> usize) -> Vec<u64> {
    let mut stream = NoiseSource::insecure(seed).stream(Purpose::Audit, 0);
    let mut counts = vec![0; cells];
    let mut buffer = vec![0i64; 1 << 16];
    for _ in 0..n.div_ceil(buffer.len()) {
        buffer.fill(0);
        noise.add_to(&mut buffer, &mut stream);
        for z in &buffer {
            counts[cell(z.unsigned_abs())] += 1;
        }
    }
    counts
}

#[test]
fn small_scales() {
    for (seed, s, probabilities) in [(1, 0.7, &S_0_7[..]), (2, 3.3, &S_3_3[..])] {
        let noise = RoundedGaussian::new(s, Grid::new(0)).unwrap();
        let last = probabilities.len() - 1;
        let counts = counts(&noise, seed, 100_000_000, last + 1, |k| (k as usize).min(last));
        let excess = excess(&counts, probabilities);
        assert!(excess < 0.0, "s = {s}: {excess} {counts:?}");
    }
}

fn by_edges(noise_std: f64, exponent: i32, seed: u64, n: usize) -> f64 {
    let noise = RoundedGaussian::new(noise_std, Grid::new(exponent)).unwrap();
    let s = noise_std / Grid::new(exponent).step();
    let edges = EDGES.map(|e| (e * s) as u64);
    let counts = counts(&noise, seed, n, CELLS.len(), |k| edges.iter().filter(|&&e| k >= e).count());
    excess(&counts, &CELLS)
}

#[test]
fn a_usual_scale_into_the_tail() {
    // s = 1363148.8: an edge falls within one grid step of its place, less than 1e-6 of a cell
    let excess = by_edges(1.3, -20, 3, 100_000_000);
    assert!(excess < 0.0, "{excess}");
}

#[test]
fn a_scale_where_every_rounding_takes_the_slow_path() {
    let excess = by_edges(1.0, -56, 4, 3_000_000);
    assert!(excess < 0.0, "{excess}");
}

#[test]
fn the_test_has_power() {
    // a standard deviation wrong by 0.1%, and 6.2% less mass beyond r, are seen
    let noise = RoundedGaussian::new(1.3013, Grid::new(-20)).unwrap();
    let edges = EDGES.map(|e| (e * 1.3 * 1048576.0) as u64);
    let cell = |k: u64| edges.iter().filter(|&&e| k >= e).count();
    assert!(excess(&counts(&noise, 5, 100_000_000, 20, cell), &CELLS) > 0.0);
    let noise = RoundedGaussian::new(1.3, Grid::new(-20)).unwrap();
    let mut seen = counts(&noise, 6, 100_000_000, 20, cell);
    assert!(excess(&seen, &CELLS) < 0.0);
    for tail in &mut seen[15..] {
        *tail = *tail * 938 / 1000; // the published bug: a rejected tail pair starts the whole sampler again
    }
    assert!(excess(&seen, &CELLS) > 0.0);
}
