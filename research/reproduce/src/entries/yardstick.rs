//! Losses and their minima without privacy: what answers are measured against.

use dpopt::loss::Loss;
use dpopt::records::Examples;

/// Mean loss over the records, and its gradient.
pub fn gradient(examples: &Examples, loss: Loss, weights: &[f64]) -> (f64, Vec<f64>) {
    let n = examples.rows.len() as f64;
    let (mut total, mut gradient) = (0.0, vec![0.0; weights.len()]);
    for i in 0..examples.rows.len() {
        let (columns, values) = examples.rows.row(i);
        let score: f64 = columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum();
        let target = f64::from(examples.targets[i]);
        total += loss.scalar_value(score, target);
        let slope = loss.scalar_slope(score, target) / n;
        columns.iter().zip(values).for_each(|(&j, &x)| gradient[j as usize] += slope * f64::from(x));
    }
    (total / n, gradient)
}

pub fn norm(v: &[f64]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The point of the ball around 0 that is nearest: of a released answer it costs nothing.
pub fn project(v: &mut [f64], radius: f64) {
    let length = norm(v);
    if length > radius {
        v.iter_mut().for_each(|x| *x *= radius / length);
    }
}

/// Least mean logistic loss on the ball, rows of norm at most 1, by accelerated projected descent.
pub fn least_logistic(examples: &Examples, radius: f64) -> f64 {
    let loss = Loss::Logistic { shift: 0.0 };
    let mut x = vec![0.0; examples.rows.columns()];
    let (mut y, mut momentum) = (x.clone(), 1.0f64);
    for _ in 0..400 {
        // rows of norm 1 and curvature 1/4: smoothness at most 1/4
        let mut next: Vec<f64> = y.iter().zip(gradient(examples, loss, &y).1).map(|(y, g)| y - 4.0 * g).collect();
        project(&mut next, radius);
        let following = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt());
        let carry = (momentum - 1.0) / following;
        y = next.iter().zip(&x).map(|(a, b)| a + carry * (a - b)).collect();
        (x, momentum) = (next, following);
    }
    gradient(examples, loss, &x).0
}
