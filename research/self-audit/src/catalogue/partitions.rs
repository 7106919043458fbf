//! What sums of integers over parts are trusted for: the certificate of a minimiser, how far a record moves the matrix of a Newton step, and that who is sampled in one part
//! says nothing of another.

use super::{Code, InjectedFault, Source::Altered};
use dpopt_mechanism::{Clipped, Inverse, NewtonFacts, NewtonStep, PartFacts, Sensitive, answer, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, PartialSum, Partitions, PartitionsFailed, RemoteRecords, Rows};
use dpopt_objective::solver::{AskedSum, IntegerSums, Scale, minimise_by_sums, norm};
use dpopt_privacy::{Event, Relation};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![
        InjectedFault::looking(
            (
                "17.coarse-sums",
                Altered,
                "the gradient of a minimiser summed on a coarse grid (2^-30 R), which its certificate does not count",
                "its gradient in floats against the certified tolerance",
            ),
            certificate,
        ),
        InjectedFault::looking(
            (
                "17.parts-not-clipped",
                Altered,
                "the matrix of a Newton step in parts: shares rounded away from zero on a coarse grid, not clipped",
                "norm of one record's share against R²/4",
            ),
            share,
        ),
        InjectedFault::looking(
            (
                "18.same-places",
                Altered,
                "the sample of every part is drawn for its own places, so that records at one place of two parts are in it together (q = .3)",
                "how often both are sampled, of 2000 samples, against q²",
            ),
            together,
        ),
    ]
}

/// Rows that no grid holds.
fn examples() -> Examples {
    let mut rows = Rows::new(3);
    let mut targets = Vec::new();
    for i in 0..1000u32 {
        let entry = |j: u32| ((i * 7919 + j * 104_729) % 1999) as f32 / 1999.0 - 0.5;
        rows.push_clipped(&mut [(0, entry(0)), (1, entry(1)), (2, 0.7)], 1.0);
        targets.push(if i % 3 == 0 { -1.0 } else { 1.0 });
    }
    Examples { rows, targets }
}

fn certificate(code: Code) -> Result<(), String> {
    let (examples, lambda) = (examples(), 1.0);
    let sums = IntegerSums::new(&Linear::new(LOGISTIC, 3, 1.0), 1000, 1.0);
    let scale = Scale {
        rows: 1000,
        row_norm: 1.0,
        loss: LOGISTIC,
        regularization: lambda,
        linear_norm: 0.0,
        target_bound: 1.0,
        grid_error: sums.grid_error(),
    };
    let accuracy = scale.accuracy().map_err(|e| e.to_string())?;
    let linear = [0.0; 3];
    let Ok(found) =
        minimise_by_sums(&AskedSum { sums, regularization: lambda, linear: &linear }, accuracy, |sums, theta| {
            let mut total = vec![0i64; sums.width()];
            for i in 0..1000 {
                let mut one = sums.over(&examples, i..i + 1, theta);
                if code == Code::Injected {
                    // the lower words, and of the upper ones what is below 2^-30
                    let (low, rest) = one.split_at_mut(3);
                    low.fill(0);
                    rest[..3].iter_mut().for_each(|unit| *unit = (*unit >> 20) << 20);
                }
                total.iter_mut().zip(&one).for_each(|(a, b)| *a = a.wrapping_add(*b));
            }
            Ok::<_, Infallible>(total)
        });
    let theta = found.theta.rounded();
    let mut gradient: Vec<f64> = theta.iter().map(|t| lambda * t).collect();
    for i in 0..1000 {
        let (columns, values) = examples.rows.row(i);
        let score: f64 = columns.iter().zip(values).map(|(&j, &x)| theta[j as usize] * f64::from(x)).sum();
        let slope = LOGISTIC.scalar_slope(score, f64::from(examples.targets[i]));
        columns.iter().zip(values).for_each(|(&j, &x)| gradient[j as usize] += slope * f64::from(x));
    }
    // plain sums of a thousand terms err by less than 1e-12
    match norm(&gradient) {
        size if size <= accuracy.tolerance + 1e-12 => Ok(()),
        size => Err(format!("gradient {size:.2e}, certified {:.2e}", accuracy.tolerance)),
    }
}

/// Two partitions of one record each, and whether both were in the last sample.
struct Two {
    record: Examples,
    code: Code,
    both: AtomicBool,
}

impl Partitions for Two {
    fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
        let of = |part: u32| {
            let facts = PartFacts { part: self.code.pick(part, 0), ..PartFacts::default() };
            let bytes = answer(&self.record, query, 0, facts).map_err(|_| PartitionsFailed)?;
            let honest = PartialSum::from_bytes(&bytes).map_err(|_| PartitionsFailed)?;
            let mut units = vec![0; honest.width()];
            honest.add_to(&mut units);
            let sampled = units[0] != 0;
            Ok((sampled, PartialSum::new(honest.query(), part, (1, 0), units).to_bytes()))
        };
        let [(first, of_first), (second, of_second)] = [of(0)?, of(1)?];
        self.both.store(first && second, Ordering::Relaxed);
        Ok(vec![of_first, of_second])
    }
}

fn together(code: Code) -> Result<(), String> {
    let (q, samples) = (0.3, 2000u32);
    let mut rows = Rows::new(1);
    rows.push_clipped(&mut [(0, 1.0)], 1.0);
    let record = Examples { rows, targets: vec![1.0] };
    let two = Arc::new(Two { record, code, both: AtomicBool::default() });
    let records = Sensitive::new(RemoteRecords::new(two.clone(), vec![(1, 0); 2], 1, 1.0));
    let clipped = Clipped::new(Linear::new(LOGISTIC, 1, 1.0), 1.0, Grid::new(-20)).map_err(|e| e.to_string())?;
    let event = Event::gaussian(1.0).poisson_sampled(q).self_composed(u64::from(samples));
    let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(11));
    let mut both = 0;
    for _ in 0..samples {
        let batch = curator.poisson_sample_for_sum(&records, q).map_err(|e| e.to_string())?;
        clipped.sum_of(&records, Some(batch), &[0.0]).map_err(|e| e.to_string())?;
        both += u32::from(two.both.load(Ordering::Relaxed));
    }
    // a binomial count, and six of its deviations
    let (expected, n) = (q * q, f64::from(samples));
    let found = f64::from(both) / n;
    if (found - expected).abs() <= 6.0 * (expected * (1.0 - expected) / n).sqrt() {
        Ok(())
    } else {
        Err(format!("both in {found:.3} of the samples where {expected:.3} was promised"))
    }
}

/// One partition, whose last answer is kept.
struct One {
    examples: Examples,
    code: Code,
    answered: Mutex<Vec<i64>>,
}

impl Partitions for One {
    fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
        let bytes = answer(&self.examples, query, 0, PartFacts::default()).map_err(|_| PartitionsFailed)?;
        let honest = PartialSum::from_bytes(&bytes).map_err(|_| PartitionsFailed)?;
        let mut units = vec![0; honest.width()];
        honest.add_to(&mut units);
        if self.code == Code::Injected {
            // on multiples of 2^40, away from zero
            units
                .iter_mut()
                .for_each(|unit| *unit = unit.signum() * ((unit.unsigned_abs().div_ceil(1 << 40) << 40) as i64));
        }
        *self.answered.lock().map_err(|_| PartitionsFailed)? = units.clone();
        Ok(vec![PartialSum::new(honest.query(), 0, (1, 0), units).to_bytes()])
    }
}

fn share(code: Code) -> Result<(), String> {
    let mut rows = Rows::new(40);
    rows.push_clipped(&mut (0..40).map(|j| (j, 1.0)).collect::<Vec<_>>(), 1.0);
    let one = Arc::new(One { examples: Examples { rows, targets: vec![1.0] }, code, answered: Mutex::default() });
    let facts = NewtonFacts {
        objective: Linear::new(LOGISTIC, 40, 1.0),
        most_rows: 1,
        relation: Relation::ZeroOut,
        regularization: 1.0,
        inverse: Inverse::Clip,
        integers: true,
    };
    let records = Sensitive::new(RemoteRecords::new(one.clone(), vec![(1, 0)], 40, 1.0));
    let (theta, gradient) = ([0.0; 40], [1.0; 40]);
    let step = NewtonStep { facts, theta: &theta, gradient: &gradient, noise_multiplier: 1.0, records: PhantomData };
    let mut curator = past_the_curator::uncharged(&Event::gaussian(1.0), NoiseSource::insecure(1));
    curator.release(&step, &records).map_err(|e| e.to_string())?;
    let units = one.answered.lock().map_err(|e| e.to_string())?;
    let grid = Grid::for_products(0.25, 0.0, 1);
    let size = units.iter().map(|&unit| grid.to_f64(unit).powi(2)).sum::<f64>().sqrt();
    if size > 0.2 && size <= 0.25 { Ok(()) } else { Err(format!("a share of norm {size:.4} where 0.25 was promised")) }
}
