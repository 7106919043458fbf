//! Noisy descent and Spider on a known mean loss: its gradient, and noise of a certified plan's scale. Where no clip is active nothing else of the records counts.

use crate::Failure;
use dpopt::minimize::{MinimizeSchedule, OnePassSchedule, SpiderSchedule};
use dpopt::noise::correlated::{TreeNoise, tree_depth};
use dpopt::noise::{Grid, RoundedGaussian, Stream};
use dpopt_problems::Valley;

/// Steps along noisy gradients.
#[derive(Clone, Copy)]
pub(super) struct Descent {
    pub(super) learning_rate: f64,
    pub(super) momentum: f64,
    pub(super) steps: u64,
    /// Whether the step falls to 0.
    pub(super) falls: bool,
    /// Standard deviation of the noise in the mean gradient, per coordinate.
    pub(super) noise_std: f64,
}

/// Beyond this a walk is lost.
const LOST: f64 = 1e9;

fn add_noise(to: &mut [f64], std: f64, normal: &mut [f64], stream: &mut Stream) {
    stream.fill_standard_normal(normal);
    to.iter_mut().zip(normal).for_each(|(g, z)| *g += std * *z);
}

impl Descent {
    /// Norm of the gradient at the last point, and at the mean of the last half.
    pub(super) fn run(&self, valley: &Valley, stream: &mut Stream) -> (f64, f64) {
        let d = valley.dimension();
        let (mut z, mut gradient, mut normal) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);
        let (mut pace, mut mean) = (vec![0.0; d], vec![0.0; d]);
        let half = self.steps / 2;
        for t in 0..self.steps {
            valley.gradient(&z, &mut gradient);
            add_noise(&mut gradient, self.noise_std, &mut normal, stream);
            let left = if self.falls { 1.0 - t as f64 / self.steps as f64 } else { 1.0 };
            let rate = self.learning_rate * (1.0 - self.momentum) * left;
            for ((x, v), g) in z.iter_mut().zip(&mut pace).zip(&gradient) {
                *v = self.momentum * *v + g;
                *x -= rate * *v;
            }
            if t >= half {
                mean.iter_mut().zip(&z).for_each(|(m, x)| *m += x / (self.steps - half) as f64);
            }
            if z[0].abs() > LOST {
                return (f64::MAX, f64::MAX);
            }
        }
        (valley.slope(&z), valley.slope(&mean))
    }
}

/// The walk of a Spider plan for `records` records: norm of the gradient where it ends.
pub(super) fn spider(
    valley: &Valley,
    (s, spider): (&MinimizeSchedule, &SpiderSchedule),
    records: f64,
    stream: &mut Stream,
) -> f64 {
    let d = valley.dimension();
    let step_size = 1.0 / valley.smoothness();
    let fresh_std = |z: f64| z * s.clip_norm / records;
    let change_std = |z: f64| z * spider.difference_clip / records;
    let (mut z, mut error, mut gradient, mut normal) = (vec![0.0; d], vec![0.0; d], vec![0.0; d], vec![0.0; d]);
    let mut step = |z: &mut [f64], error: &[f64]| -> f64 {
        valley.gradient(z, &mut gradient);
        let mut squared = 0.0;
        for ((x, g), e) in z.iter_mut().zip(&gradient).zip(error) {
            let way = step_size * (g + e);
            *x -= way;
            squared += way * way;
        }
        squared
    };
    let (mut fresh, mut changes, mut drift, mut way) = (spider.fresh_gradients, s.steps, f64::INFINITY, 0.0f64);
    while changes > 0 {
        if drift >= spider.drift {
            if fresh == 0 {
                break;
            }
            error.fill(0.0);
            add_noise(&mut error, fresh_std(spider.fresh_multiplier), &mut normal, stream);
            (fresh, drift) = (fresh - 1, 0.0);
        } else {
            add_noise(&mut error, change_std(spider.change_multiplier) * way, &mut normal, stream);
            changes -= 1;
        }
        let squared = step(&mut z, &error);
        (way, drift) = (squared.sqrt(), drift + squared);
        if z[0].abs() > LOST {
            return f64::MAX;
        }
    }
    if let Some(last) = spider.second_stage {
        // all fresh gradients that are left, by their precisions
        let precision = last.fresh_multiplier.powi(-2) + fresh as f64 * spider.fresh_multiplier.powi(-2);
        error.fill(0.0);
        add_noise(&mut error, fresh_std(precision.powf(-0.5)), &mut normal, stream);
        drift = 0.0;
        for _ in 0..last.changes {
            let squared = step(&mut z, &error);
            drift += squared;
            if drift >= spider.drift {
                return valley.slope(&z);
            }
            add_noise(&mut error, change_std(last.change_multiplier) * squared.sqrt(), &mut normal, stream);
        }
        step(&mut z, &error);
    }
    valley.slope(&z)
}

/// Noise of sums over batches, each record in one of them.
#[derive(Clone, Copy)]
pub(super) struct OnePass<'a> {
    pub(super) valley: &'a Valley,
    /// The number of records n.
    pub(super) records: u64,
    /// Length of a record's own gradient, and by which share of the mean its change differs from it.
    pub(super) pull: f64,
    pub(super) spread: f64,
    /// z of all sums together, over what a record adds.
    pub(super) noise_multiplier: f64,
    /// C, and L of changes.
    pub(super) clip_norm: f64,
    pub(super) difference_clip: f64,
}

/// A vector in a random direction, of root mean squared norm `norm`.
fn add_isotropic(to: &mut [f64], norm: f64, normal: &mut [f64], stream: &mut Stream) {
    let std = norm / (to.len() as f64).sqrt();
    add_noise(to, std, normal, stream);
}

impl OnePass<'_> {
    /// Per coordinate of the mean gradient of a batch that is the only one its records are in.
    pub(super) fn batch_std(&self, batch: f64) -> f64 {
        let sampling = self.pull / (batch * self.valley.dimension() as f64).sqrt();
        (self.noise_multiplier * self.clip_norm / batch).hypot(sampling)
    }

    fn node(&self, leaf_clip: f64, leaves: u64) -> Result<(Grid, RoundedGaussian), Failure> {
        let std = self.noise_multiplier * leaf_clip * f64::from(tree_depth(leaves)).sqrt();
        let grid = Grid::new(std.log2().floor() as i32 - 20);
        Ok((grid, RoundedGaussian::new(std, grid).map_err(Failure::of)?))
    }

    /// Steps of which each has the noise that one tree over all batches adds to it: what one step has, later ones take back.
    pub(super) fn along_a_tree(
        &self,
        (steps, learning_rate): (u64, f64),
        stream: &mut Stream,
    ) -> Result<(f64, f64), Failure> {
        let d = self.valley.dimension();
        let batch = self.records as f64 / steps as f64;
        let (grid, node) = self.node(self.clip_norm / batch, steps)?;
        let mut tree = TreeNoise::new(node, d, steps);
        let (mut z, mut gradient, mut normal, mut mean) = (vec![0.0; d], vec![0.0; d], vec![0.0; d], vec![0.0; d]);
        let (mut before, mut now) = (vec![0i64; d], vec![0i64; d]);
        for t in 0..steps {
            self.valley.gradient(&z, &mut gradient);
            add_isotropic(&mut gradient, self.pull / batch.sqrt(), &mut normal, stream);
            now.fill(0);
            tree.add_next(&mut now, stream).map_err(Failure::of)?;
            for (((x, g), new), old) in z.iter_mut().zip(&gradient).zip(&now).zip(&before) {
                *x -= learning_rate * (g + grid.step() * (new - old) as f64);
            }
            std::mem::swap(&mut before, &mut now);
            if t >= steps / 2 {
                mean.iter_mut().zip(&z).for_each(|(m, x)| *m += x / (steps - steps / 2) as f64);
            }
            if z[0].abs() > LOST {
                return Ok((f64::MAX, f64::MAX));
            }
        }
        Ok((self.valley.slope(&z), self.valley.slope(&mean)))
    }

    /// Batches of one size for gradients and of one for changes, each with noise of its own (Liu 2024, Theorem 6.3.12).
    pub(super) fn fixed(&self, (steps, fresh, drift): (u64, u64, f64), stream: &mut Stream) -> f64 {
        let d = self.valley.dimension();
        let step_size = 1.0 / self.valley.smoothness();
        let of = |count: u64| (self.records as f64 / (2 * count) as f64).floor().max(1.0);
        let (first, next) = (of(fresh), of(steps));
        let (mut z, mut error, mut gradient, mut normal) = (vec![0.0; d], vec![0.0; d], vec![0.0; d], vec![0.0; d]);
        let (mut drifted, mut way, mut left) = (f64::INFINITY, 0.0f64, fresh);
        for _ in 0..steps {
            if drifted >= drift {
                if left == 0 {
                    break;
                }
                error.fill(0.0);
                add_noise(&mut error, self.batch_std(first), &mut normal, stream);
                (left, drifted) = (left - 1, 0.0);
            } else {
                add_isotropic(&mut error, self.spread * way / next.sqrt(), &mut normal, stream);
                add_noise(&mut error, self.noise_multiplier * self.difference_clip * way / next, &mut normal, stream);
            }
            self.valley.gradient(&z, &mut gradient);
            let along = z.iter_mut().zip(&gradient).zip(&error);
            let squared: f64 = along
                .map(|((x, g), e)| {
                    let step = step_size * (g + e);
                    *x -= step;
                    step * step
                })
                .sum();
            (way, drifted) = (squared.sqrt(), drifted + squared);
            if z[0].abs() > LOST {
                return f64::MAX;
            }
        }
        self.valley.slope(&z)
    }

    /// Batches as large as the way since the last one, in running sums with fresh trees: the walk of a plan.
    pub(super) fn adaptive(&self, once: &OnePassSchedule, steps: u64, stream: &mut Stream) -> Result<f64, Failure> {
        let d = self.valley.dimension();
        let step_size = 1.0 / self.valley.smoothness();
        let (grid, node) = self.node(once.leaf_clip, once.leaves)?;
        let (mut z, mut error, mut gradient, mut normal) = (vec![0.0; d], vec![0.0; d], vec![0.0; d], vec![0.0; d]);
        let mut tree = TreeNoise::new(node.clone(), d, once.leaves);
        let (mut leaves, mut unused, mut path, mut way) = (once.leaves, self.records, f64::INFINITY, 0.0f64);
        let mut prefix = vec![0i64; d];
        for _ in 0..steps {
            let first = path >= once.path || leaves == once.leaves;
            let size = if first {
                once.first_batch
            } else {
                (once.difference_clip * way * once.per_change).ceil().max(1.0) as u64
            };
            if size > unused {
                break;
            }
            unused -= size;
            if first {
                error.fill(0.0);
                add_isotropic(&mut error, self.pull / (size as f64).sqrt(), &mut normal, stream);
                tree = TreeNoise::new(node.clone(), d, once.leaves);
                (leaves, path) = (0, 0.0);
            } else {
                add_isotropic(&mut error, self.spread * way / (size as f64).sqrt(), &mut normal, stream);
            }
            leaves += 1;
            prefix.fill(0);
            tree.add_next(&mut prefix, stream).map_err(Failure::of)?;
            self.valley.gradient(&z, &mut gradient);
            let mut squared = 0.0;
            for (((x, g), e), noise) in z.iter_mut().zip(&gradient).zip(&error).zip(&prefix) {
                let along = g + e + grid.step() * *noise as f64;
                *x -= step_size * along;
                squared += along * along;
            }
            path += squared.sqrt();
            way = step_size * squared.sqrt();
            if z[0].abs() > LOST {
                return Ok(f64::MAX);
            }
        }
        Ok(self.valley.slope(&z))
    }
}
