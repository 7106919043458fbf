//! Bugs around clipped sums, planted on the library's own quantizer, grid and rounded noise (spec 19 §1; spec 20 §1.5).

use super::{Code, PlantedBug, indicator};
use crate::audit::draws::Draws;
use crate::audit::statistics::Claim;
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, Quantizer, RoundedGaussian};

/// Grid of these sums: fine against C = 1.
const GRID_EXPONENT: i32 = -20;

/// A sum release as the library makes it: clip to 1, integers on the grid, rounded Gaussian noise.
struct Door {
    quantizer: Quantizer,
    noise: RoundedGaussian,
    grid: Grid,
}

impl Door {
    fn new(norm: Norm, clip_norm: f64, noise_std: f64) -> Self {
        let grid = Grid::new(GRID_EXPONENT);
        match (Quantizer::new(norm, clip_norm, grid), RoundedGaussian::new(noise_std, grid)) {
            (Ok(quantizer), Ok(noise)) => Self { quantizer, noise, grid },
            // constants of this file
            _ => unreachable!("clip norm and noise fit the grid 2^-20"),
        }
    }

    /// What a record may contribute.
    fn clipped(&self, record: &[f64]) -> Vec<i64> {
        let (mut values, mut out) = (record.to_vec(), Vec::new());
        self.quantizer.quantize(&mut values, &mut out);
        out
    }

    /// The record on the grid without the clip: what a forgotten clip would add.
    fn unclipped(&self, record: &[f64]) -> Vec<i64> {
        record.iter().map(|v| (v / self.grid.step()) as i64).collect()
    }

    /// The noisy sum, in units of C.
    fn release(&self, sum: &[i64], draws: &mut Draws) -> Vec<f64> {
        let mut noisy = sum.to_vec();
        self.noise.add_to(&mut noisy, draws.noise());
        noisy.iter().map(|&z| self.grid.to_f64(z)).collect()
    }
}

fn total(values: &[f64]) -> f64 {
    values.iter().sum()
}

/// Σ of the noisy coordinates when the canary `record` is in the sum or not; all other contributions are 0.
fn canary(door: &Door, contribution: Vec<i64>, with: bool, draws: &mut Draws) -> f64 {
    let sum = if with { contribution } else { vec![0; contribution.len()] };
    total(&door.release(&sum, draws))
}

pub(super) fn bugs() -> Vec<PlantedBug> {
    // one door per noise level, built once
    let (one, two, root_two, four) = (
        || Door::new(Norm::L2, 1.0, 1.0),
        || Door::new(Norm::L2, 1.0, 2.0),
        || Door::new(Norm::L2, 1.0, 2f64.sqrt()),
        || Door::new(Norm::L2, 1.0, 4.0),
    );
    let mut bugs = Vec::new();

    let (doubled, plain) = (two(), one());
    bugs.push(PlantedBug::counting(
        "20.1",
        "noise for sensitivity C where the relation is replace-one (2C)",
        "record +C against record -C, coordinate",
        Claim::gaussian(1.0),
        (211, 1),
        move |code, with, draws| {
            let door = code.pick(&doubled, &plain);
            total(&door.release(&door.clipped(&[if with { 1.0 } else { -1.0 }]), draws))
        },
    ));

    let door = two();
    bugs.push(PlantedBug::counting(
        "20.2",
        "clip skipped (row of norm 4C)",
        "canary of norm 4C, coordinate",
        Claim::gaussian(0.5),
        (92, 1),
        move |code, with, draws| {
            let record = [4.0];
            canary(&door, code.pick(door.clipped(&record), door.unclipped(&record)), with, draws)
        },
    ));

    let (right, wrong) = (two(), root_two());
    bugs.push(PlantedBug::counting(
        "20.3",
        "variance passed as standard deviation (2 becomes sqrt 2)",
        "canary C, coordinate",
        Claim::gaussian(0.5),
        (3_700, 1),
        move |code, with, draws| {
            let door = code.pick(&right, &wrong);
            canary(door, door.clipped(&[1.0]), with, draws)
        },
    ));

    let (l2, linf) = (two(), Door::new(Norm::LInfinity, 1.0, 2.0));
    bugs.push(PlantedBug::counting(
        "20.6",
        "l-infinity clip where the noise is for l2 (d = 4)",
        "canary (C, C, C, C), sum of coordinates",
        Claim::gaussian(0.5),
        (664, 4),
        move |code, with, draws| {
            let door = code.pick(&l2, &linf);
            canary(door, door.clipped(&[1.0; 4]), with, draws)
        },
    ));

    let door = two();
    bugs.push(PlantedBug::counting(
        "20.7",
        "clip C per layer (9 layers), accounted as C for the whole gradient",
        "all layers at C, sum of coordinates",
        Claim::gaussian(0.5),
        (183, 9),
        move |code, with, draws| {
            let gradient = [1.0; 9];
            let layers = || gradient.iter().flat_map(|&g| door.clipped(&[g])).collect();
            canary(&door, code.pick(door.clipped(&gradient), layers()), with, draws)
        },
    ));

    let door = two();
    bugs.push(PlantedBug::counting(
        "20.9",
        "clip per record where the unit is the user (4 records)",
        "user with 4 aligned records, coordinate",
        Claim::gaussian(0.5),
        (92, 1),
        move |code, with, draws| {
            let records = [1.0; 4];
            let user = code.pick(door.clipped(&[records.iter().sum()]), vec![records.iter().map(|&r| door.clipped(&[r])[0]).sum()]);
            canary(&door, user, with, draws)
        },
    ));

    let door = one();
    bugs.push(PlantedBug::counting(
        "20.17",
        "gradient of the intercept added after the clip",
        "row of norm C and intercept C, sum of coordinates",
        Claim::gaussian(1.0),
        (1_050, 2),
        move |code, with, draws| {
            let outside = || [door.clipped(&[1.0]), door.unclipped(&[1.0])].concat();
            canary(&door, code.pick(door.clipped(&[1.0, 1.0]), outside()), with, draws)
        },
    ));

    let door = one();
    bugs.push(PlantedBug::counting(
        "20.20",
        "the same noise seed in two steps",
        "record in the second step only; 1{difference of the releases is exactly C}",
        Claim::gaussian(1.0),
        (40, 300),
        move |code, with, draws| {
            let seed = draws.word();
            let mut source = NoiseSource::insecure(seed);
            let first = door.noise.sample(&mut source.stream(Purpose::Noise, 1));
            // the planted step opens the source again instead of moving on
            let mut again = NoiseSource::insecure(seed);
            let second = match code {
                Code::Correct => door.noise.sample(&mut source.stream(Purpose::Noise, 2)),
                Code::Planted => door.noise.sample(&mut again.stream(Purpose::Noise, 1)),
            };
            let record = if with { door.clipped(&[1.0])[0] } else { 0 };
            indicator(record + second - first == door.clipped(&[1.0])[0])
        },
    ));

    let door = one();
    bugs.push(PlantedBug::counting(
        "20.21",
        "one noise draw shared by all coordinates",
        "canary in the first coordinate; 1{the two coordinates differ}",
        Claim::gaussian(1.0),
        (40, 2),
        move |code, with, draws| {
            let record = if with { door.clipped(&[1.0, 0.0]) } else { vec![0, 0] };
            let first = door.noise.sample(draws.noise());
            let second = code.pick(door.noise.sample(draws.noise()), first);
            // fresh noises on this grid collide with probability below 1e-6
            indicator(record[0] + first != record[1] + second)
        },
    ));

    let door = one();
    bugs.push(PlantedBug::counting(
        "20.22",
        "a NaN gradient passes the clip",
        "canary NaN; 1{output is NaN}",
        Claim::gaussian(1.0),
        (40, 1),
        move |code, with, draws| {
            let gradient = if with { f64::NAN } else { 0.0 };
            let output = match code {
                Code::Correct => total(&door.release(&door.clipped(&[gradient]), draws)),
                // min(1, C/norm)·g in floating point
                Code::Planted => gradient * (1.0 / gradient.abs()).min(1.0) + draws.gaussian(),
            };
            indicator(output.is_nan())
        },
    ));

    let (fine, coarse) = (four(), RoundedGaussian::new(4.0, Grid::new(GRID_EXPONENT + 1)));
    bugs.push(PlantedBug::counting(
        "19.coarse-noise",
        "noise on a grid twice as coarse as the sum's",
        "canary of one grid step; parity of the output",
        Claim::gaussian(0.25),
        (40, 1),
        move |code, with, draws| {
            let record = i64::from(with);
            let noise = match (&coarse, code) {
                (Ok(coarse), Code::Planted) => 2 * coarse.sample(draws.noise()),
                _ => fine.noise.sample(draws.noise()),
            };
            f64::from(u8::from((record + noise).rem_euclid(2) == 1))
        },
    ));

    let door = two();
    bugs.push(PlantedBug::counting(
        "19.repeated-index",
        "a sparse row repeats an index and is clipped entry by entry",
        "two entries C/sqrt 2 at one index, coordinate",
        Claim::gaussian(0.5),
        (3_700, 1),
        move |code, with, draws| {
            let half = 0.5f64.sqrt();
            let mut entries = vec![(7u32, half), (7, half)];
            let moved: i64 = match code {
                Code::Correct => {
                    let (mut indices, mut out) = (Vec::new(), Vec::new());
                    door.quantizer.quantize_sparse(&mut entries, &mut indices, &mut out);
                    out.iter().sum()
                }
                // norm of the list of entries is C: the check passes, the coordinate moves by sqrt 2·C
                Code::Planted => door.clipped(&[half, half]).iter().sum(),
            };
            canary(&door, vec![moved], with, draws)
        },
    ));
    bugs
}
