//! Losses with kinks that are not convex: robust phase retrieval and regression with a capped absolute error.

use crate::draws::Draws;
use dpopt_objective::objective::{Facts, Gradient, Objective, Point};
use std::convert::Infallible;

/// Which loss has the kinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kink {
    /// |⟨a, x⟩² − y|.
    Phase,
    /// min(|⟨a, x⟩ − y|, cap).
    CappedAbsolute,
}

/// Errors above it count as much.
const CAP: f64 = 0.5;
/// Share of records whose y says nothing.
const OUTLIERS: f64 = 0.1;

/// Directions a of length 1, and what was seen along each.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// a: direction of length 1, d numbers.
    pub direction: Vec<f64>,
    /// y: what was seen along the direction.
    pub value: f64,
}

/// A loss with kinks in d dimensions.
#[derive(Clone, Copy, Debug)]
pub struct KinkedLoss {
    kink: Kink,
    dimension: usize,
}

impl KinkedLoss {
    /// A loss of this kind in `dimension` dimensions.
    pub fn new(kink: Kink, dimension: usize) -> Self {
        Self { kink, dimension }
    }

    /// Where the records are seen from: of length √d, so that ⟨a, x⟩ is about 1.
    pub fn truth(&self, seed: u64) -> Vec<f64> {
        let mut draws = Draws::from_seed(seed);
        let raw: Vec<f64> = (0..self.dimension).map(|_| draws.normal()).collect();
        let length = raw.iter().map(|v| v * v).sum::<f64>().sqrt();
        let scale = (self.dimension as f64).sqrt() / length;
        raw.into_iter().map(|v| scale * v).collect()
    }

    /// `count` records, `distinct` of them different, the others copies in turn; a tenth has a y that says nothing.
    pub fn records(&self, (count, distinct): (usize, usize), seed: u64) -> Vec<Seen> {
        let truth = self.truth(seed);
        let mut draws = Draws::from_seed(seed ^ 0x5eed);
        let different: Vec<Seen> = (0..distinct.min(count))
            .map(|_| {
                let raw: Vec<f64> = (0..self.dimension).map(|_| draws.normal()).collect();
                let length = raw.iter().map(|v| v * v).sum::<f64>().sqrt();
                let direction: Vec<f64> = raw.into_iter().map(|v| v / length).collect();
                let score: f64 = direction.iter().zip(&truth).map(|(a, x)| a * x).sum();
                let clean = if self.kink == Kink::Phase { score * score } else { score };
                let outlier = draws.uniform() < OUTLIERS;
                let off = if outlier { 3.0 } else { 0.05 } * draws.normal();
                Seen { direction, value: clean + off }
            })
            .collect();
        (0..count).map(|i| different[i % different.len().max(1)].clone()).collect()
    }

    fn score(&self, x: &[f64], seen: &Seen) -> f64 {
        seen.direction.iter().zip(x).map(|(a, x)| a * x).sum()
    }

    /// Loss φ(x) of the record `seen`.
    pub fn value_of(&self, x: &[f64], seen: &Seen) -> f64 {
        let score = self.score(x, seen);
        match self.kink {
            Kink::Phase => (score * score - seen.value).abs(),
            Kink::CappedAbsolute => (score - seen.value).abs().min(CAP),
        }
    }

    /// dφ/d⟨a, x⟩; 0 at a kink.
    pub fn slope_of(&self, x: &[f64], seen: &Seen) -> f64 {
        let score = self.score(x, seen);
        let sign = |v: f64| if v == 0.0 { 0.0 } else { v.signum() };
        match self.kink {
            Kink::Phase => 2.0 * score * sign(score * score - seen.value),
            Kink::CappedAbsolute if (score - seen.value).abs() >= CAP => 0.0,
            Kink::CappedAbsolute => sign(score - seen.value),
        }
    }

    /// Gradient of the mean loss into `out`.
    pub fn mean_gradient(&self, x: &[f64], records: &[Seen], out: &mut [f64]) {
        out.fill(0.0);
        for seen in records {
            let slope = self.slope_of(x, seen) / records.len() as f64;
            out.iter_mut().zip(&seen.direction).for_each(|(g, a)| *g += slope * a);
        }
    }
}

impl Objective<Vec<Seen>> for KinkedLoss {
    type Scratch = (Vec<f64>, Vec<f64>);

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    fn value(&self, x: &[f64], records: &Vec<Seen>, i: usize, _: &mut Self::Scratch) -> Result<f64, Infallible> {
        Ok(self.value_of(x, &records[i]))
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a Vec<Seen>,
        i: usize,
        (point, gradient): &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, Infallible> {
        let slope = self.slope_of(x.whole(self.dimension, point), &records[i]);
        gradient.clear();
        gradient.extend(records[i].direction.iter().map(|a| slope * a));
        Ok(Gradient::Dense(gradient))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_the_derivatives_of_the_values_and_of_the_mean() {
        for kink in [Kink::Phase, Kink::CappedAbsolute] {
            let loss = KinkedLoss::new(kink, 6);
            let records = loss.records((50, 50), 3);
            let x: Vec<f64> = loss.truth(3).iter().map(|v| 0.7 * v + 0.01).collect();
            let mut mean = vec![0.0; 6];
            loss.mean_gradient(&x, &records, &mut mean);
            let mut sum = vec![0.0; 6];
            for i in 0..records.len() {
                let mut scratch = Default::default();
                let Ok(gradient) = loss.gradient(&mut &x[..], &records, i, &mut scratch);
                let mut one = vec![0.0; 6];
                gradient.add_to(&mut one);
                sum.iter_mut().zip(&one).for_each(|(s, g)| *s += g / 50.0);
                for j in 0..6 {
                    let at = |h: f64| {
                        let mut y = x.clone();
                        y[j] += h;
                        loss.value_of(&y, &records[i])
                    };
                    let slope = (at(1e-7) - at(-1e-7)) / 2e-7;
                    assert!((slope - one[j]).abs() < 1e-5, "{kink:?} {i} {slope} {}", one[j]);
                }
            }
            mean.iter().zip(&sum).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
        }
    }

    #[test]
    fn they_are_not_convex_and_copies_are_copies() {
        let phase = KinkedLoss::new(Kink::Phase, 2);
        let seen = Seen { direction: vec![1.0, 0.0], value: 1.0 };
        assert!(
            phase.value_of(&[0.0, 0.0], &seen)
                > phase.value_of(&[1.0, 0.0], &seen) + phase.value_of(&[-1.0, 0.0], &seen)
        );
        let capped = KinkedLoss::new(Kink::CappedAbsolute, 2);
        assert_eq!((capped.value_of(&[9.0, 0.0], &seen), capped.slope_of(&[9.0, 0.0], &seen)), (CAP, 0.0));
        let records = phase.records((10, 4), 1);
        assert_eq!((records.len(), &records[1]), (10, &records[9]));
        assert!(records.iter().all(|r| (r.direction.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-12));
    }
}
