//! What people's own steps change in a model, the change of each clipped as one vector: all records of a person count as one.

use super::thresholded::SparseVector;
use dpopt_kernel::beside::sum_of_sets;
use dpopt_kernel::{Batch, ClippedVectors, GridSum, Sensitive};
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;

/// K exact steps of gradient descent on each person's mean loss, of a linear model with one score.
#[derive(Clone, Copy, Debug)]
pub struct LocalUpdates {
    /// The objective whose per-record loss each person minimises.
    pub objective: Linear,
    /// η > 0 on the mean loss.
    pub learning_rate: f64,
    /// Number K of local steps.
    pub steps: u64,
    /// Keeps only so many coordinates after each step, the largest.
    pub keep: Option<usize>,
}

impl LocalUpdates {
    /// Σ clip(changes of x) over all people, or over a batch of them; who has no record of the model's width changes nothing.
    pub fn sum(
        &self,
        clipped: &ClippedVectors,
        people: &[Sensitive<Examples>],
        batch: Option<Batch>,
        x: &[f64],
    ) -> Sensitive<GridSum> {
        sum_of_sets(clipped, people, batch, x.len(), |examples, out| self.update(examples, x, out))
    }

    /// Appends the change of x. It is clipped afterwards, whatever it is.
    fn update(&self, examples: &Examples, x: &[f64], out: &mut Vec<f64>) {
        let mut local = x.to_vec();
        let rate = self.learning_rate / examples.targets.len().max(1) as f64;
        let steps = if examples.rows.columns() == x.len() { self.steps } else { 0 };
        for _ in 0..steps {
            let mut gradient = vec![0.0; local.len()];
            for (i, &target) in examples.targets.iter().enumerate() {
                let (columns, values) = examples.rows.row(i);
                let score: f64 = columns.iter().zip(values).map(|(&j, &v)| local[j as usize] * f64::from(v)).sum();
                let slope = self.objective.loss().scalar_slope(score, f64::from(target));
                columns.iter().zip(values).for_each(|(&j, &v)| gradient[j as usize] += slope * f64::from(v));
            }
            local.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= rate * g);
            if let Some(keep) = self.keep {
                local = SparseVector::largest(&local, keep, None).dense(local.len());
            }
        }
        out.extend(local.iter().zip(x).map(|(after, before)| after - before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::Expose;
    use dpopt_noise::Grid;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::records::Rows;

    fn person(width: usize, records: &[(u32, f32)]) -> Sensitive<Examples> {
        let mut examples = Examples { rows: Rows::new(width), targets: Vec::new() };
        for &(j, target) in records {
            examples.rows.push_clipped(&mut [(j, 1.0)], 1.0);
            examples.targets.push(target);
        }
        Sensitive::new(examples)
    }

    #[test]
    fn a_person_moves_the_sum_by_the_clip_norm_at_most_however_many_records_they_have() {
        let grid = Grid::new(-20);
        let clipped = ClippedVectors::new(0.25, grid).unwrap();
        let objective = Linear::new(Loss::Logistic { shift: 0.0 }, 3, 1.0);
        let updates = LocalUpdates { objective, learning_rate: 2.0, steps: 3, keep: Some(1) };
        let many: Vec<(u32, f32)> = (0..200).map(|i| (i % 2, 1.0)).collect();
        let people = [person(3, &many), person(3, &[(2, -1.0)]), person(3, &[]), person(5, &[(4, 1.0)])];
        let norm = |who: &[Sensitive<Examples>]| -> f64 {
            let sum = updates.sum(&clipped, who, None, &[0.0, 0.0, 0.0]);
            sum.expose().quanta().iter().map(|&u| grid.to_f64(u).powi(2)).sum::<f64>().sqrt()
        };
        // one large change and one of another coordinate, both at the clip norm; the other people contribute nothing
        assert!((norm(&people[..1]) - 0.25).abs() < 1e-5 && norm(&people[..1]) <= 0.25);
        assert!((norm(&people) - 0.25 * 2f64.sqrt()).abs() < 1e-5, "{}", norm(&people));
        assert_eq!((norm(&people[2..3]), norm(&people[3..])), (0.0, 0.0));
    }
}
