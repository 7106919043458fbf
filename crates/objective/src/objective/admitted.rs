//! Another objective in which a record with too large a stated bound on its own gradient counts as a public function (Liu 2024, Algorithm 39).
//!
//! A map of each record by itself, so neighbours stay neighbours and n stays n. **A stated bound is no clip**: where gradients are clipped at the limit as
//! well, a bound that is too small does no harm; a mechanism whose noise rests on the bound itself, such as output perturbation, would be private only if
//! every bound is true, and is refused.
//!
//! Covers: thesis algorithm 39 (part: in Rust, for methods that clip gradients; with output perturbation it is refused)
//! Covers: thesis proposition 12.6.5, theorem 12.6.7 (part: measured beside clipping; the rate is not claimed)

use super::{Facts, Gradient, Objective, Point};
use crate::records::RecordSet;
use thiserror::Error;

/// φ_i where the record's bound is at most the limit; otherwise 0, or (μ/2)‖x − c‖² with public μ and c.
#[derive(Clone, Debug)]
pub struct Admitted<O, B> {
    objective: O,
    bound: B,
    limit: f64,
    curvature: f64,
    centre: Vec<f64>,
}

/// Why a public function cannot stand for a record.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "the function substituted for a record has gradients of up to curvature times diameter, {0}, outside 0 to the \
     limit {1}, or its centre is not finite; raise the limit, or have such records count as 0"
)]
pub struct TooCurved(f64, f64);

impl<O, B> Admitted<O, B> {
    /// `bound(records, i)` says how long record i's gradient may be at any point, by that record alone. One that is not a number is too large.
    pub fn new(objective: O, bound: B, limit: f64) -> Self {
        Self { objective, bound, limit, curvature: 0.0, centre: Vec::new() }
    }

    /// For losses that are all μ-strongly convex on a domain of that diameter around `centre`: the public function is, too. Coordinates that `centre` does not
    /// have are 0, those that the objective does not have are not looked at.
    ///
    /// # Errors
    /// If its slopes, of up to μ times the diameter, are above the limit, or a number is negative or not finite.
    pub fn curved(self, curvature: f64, centre: Vec<f64>, diameter: f64) -> Result<Self, TooCurved> {
        let slope = curvature * diameter;
        let usable = curvature >= 0.0 && slope <= self.limit && centre.iter().all(|c| c.is_finite());
        if usable { Ok(Self { curvature, centre, ..self }) } else { Err(TooCurved(slope, self.limit)) }
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct AdmittedScratch<S> {
    inner: S,
    instead: Vec<f64>,
}

impl<R, O, B> Objective<R> for Admitted<O, B>
where
    R: RecordSet,
    O: Objective<R>,
    B: Fn(&R, usize) -> f64 + Sync,
{
    type Scratch = AdmittedScratch<O::Scratch>;

    fn dimension(&self) -> usize {
        self.objective.dimension()
    }

    fn lines(&self) -> usize {
        self.objective.lines()
    }

    /// Of the other one where nothing stands for a record but 0, which is as smooth and as convex as anything; not its bound on gradients, which is given here.
    fn facts(&self) -> Facts {
        if self.curvature > 0.0 { Facts::UNKNOWN } else { Facts { lipschitz: None, ..self.objective.facts() } }
    }

    fn describes(&self, records: &R) -> bool {
        self.objective.describes(records)
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut Self::Scratch) -> Result<f64, R::Error> {
        if (self.bound)(records, i) <= self.limit {
            return self.objective.value(x, records, i, &mut scratch.inner);
        }
        let centre = self.centre.iter().copied().chain(std::iter::repeat(0.0));
        Ok(0.5 * self.curvature * x.iter().zip(centre).map(|(x, c)| (x - c).powi(2)).sum::<f64>())
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        if (self.bound)(records, i) <= self.limit {
            return self.objective.gradient(x, records, i, &mut scratch.inner);
        }
        if self.curvature == 0.0 {
            return Ok(Gradient::Zero);
        }
        scratch.instead.clear();
        let centre = |at: usize| self.centre.get(at).copied().unwrap_or(0.0);
        let slope = |at: usize| self.curvature * (x.read(at) - centre(at));
        scratch.instead.extend((0..self.objective.dimension()).map(slope));
        Ok(Gradient::Dense(&mut scratch.instead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Closures;

    /// ½(x − s)²; its slope on [−1, 1] is at most |s| + 1.
    fn squares() -> impl Objective<Vec<f64>> {
        Closures::new(
            1,
            |x: &[f64], s: &f64| 0.5 * (x[0] - s).powi(2),
            |x: &[f64], s: &f64, g: &mut [f64]| g[0] = x[0] - s,
        )
    }

    #[allow(clippy::ptr_arg, reason = "records are a vector")]
    fn bound(records: &Vec<f64>, i: usize) -> f64 {
        records[i].abs() + 1.0
    }

    fn slope<O: Objective<Vec<f64>>>(objective: &O, x: f64, s: f64) -> f64 {
        let (mut sum, records, mut scratch) = ([0.0], vec![s], O::Scratch::default());
        let Ok(gradient) = objective.gradient(&mut &[x][..], &records, 0, &mut scratch);
        gradient.add_to(&mut sum);
        sum[0]
    }

    #[test]
    fn a_record_above_the_limit_says_nothing_of_itself() {
        let objective = Admitted::new(squares(), bound, 4.0);
        for x in [-1.0, 0.25, 1.0] {
            assert_eq!(slope(&objective, x, 3.0), x - 3.0);
            for large in [3.0 + 1e-9, -7.0, 1e300, f64::INFINITY, f64::NAN] {
                assert_eq!(slope(&objective, x, large), 0.0, "{large}");
                let Ok(value) = objective.value(&[x], &vec![large], 0, &mut Default::default());
                assert_eq!(value, 0.0);
            }
        }
    }

    #[test]
    fn of_curved_losses_it_is_a_public_quadratic() {
        let objective = Admitted::new(squares(), bound, 4.0).curved(1.0, vec![0.5], 2.0).ok().unwrap();
        for x in [-1.0, 0.25, 1.0] {
            for large in [-7.0, 1e300, f64::NAN] {
                assert_eq!(slope(&objective, x, large), x - 0.5);
                let Ok(value) = objective.value(&[x], &vec![large], 0, &mut Default::default());
                assert_eq!(value, 0.5 * (x - 0.5).powi(2));
            }
            assert_eq!(slope(&objective, x, 1.0), x - 1.0);
        }
        let refused = Admitted::new(squares(), bound, 1.5).curved(1.0, vec![0.5], 2.0).err().unwrap();
        assert!(refused.to_string().contains("raise the limit"), "{refused}");
    }
}
