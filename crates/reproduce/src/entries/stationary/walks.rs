//! Noisy descent and Spider on a known mean loss: its gradient, and noise of a certified plan's scale. Where no clip is active nothing else of the records counts.

use dpopt::minimize::{MinimizeSchedule, SpiderSchedule};
use dpopt::noise::Stream;
use dpopt::problems::Valley;

/// Steps along noisy gradients.
#[derive(Clone, Copy)]
pub(super) struct Descent {
    pub(super) learning_rate: f64,
    pub(super) momentum: f64,
    pub(super) steps: u64,
    /// Whether the step falls to 0.
    pub(super) falls: bool,
    /// Of the mean gradient, per coordinate.
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
