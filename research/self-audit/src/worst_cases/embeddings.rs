//! Worst cases of embedding models: one record whose gradient's direction is public.

use dpopt_linear::{DescentSchedule, SelectionSchedule};
use dpopt_mechanism::{Sensitive, past_the_curator};
use dpopt_objective::loss::Loss;
use dpopt_objective::loss::embedding::{Embedding, Towers};
use dpopt_objective::objective::{Embedded, Objective};
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::special::normal_cdf;

/// A user, an item, an intercept.
pub(crate) fn towers() -> Embedding {
    Embedding { dimension: 2, towers: Some(Towers { users: vec![(1, 2)], items: vec![(2, 3)] }), seed: 1 }
}

/// `rows` records of `features` columns, the first with equal entries and target 1 or nothing, the others nothing.
pub(crate) fn one_row(rows: usize, features: usize, with: bool) -> Sensitive<Examples> {
    let mut table = Rows::new(features);
    for i in 0..rows {
        if i == 0 && with {
            let each = (1.0 / features as f64).sqrt() as f32;
            table.push_clipped(&mut (0..features as u32).map(|j| (j, each)).collect::<Vec<_>>(), 1.0);
        } else {
            table.push_zero();
        }
    }
    let targets = (0..rows).map(|i| f32::from(u8::from(i == 0 && with))).collect();
    Sensitive::new(Examples { rows: table, targets })
}

/// Unit vector along the gradient of [`one_row`]'s record where the weights start, in the order of all weights.
pub(crate) fn direction(model: &Embedding, features: usize, loss: Loss) -> Vec<f64> {
    let world = one_row(1, features, true);
    let objective = Embedded::new(model.clone(), loss, features, 1.0, 0);
    let unmoved = vec![0.0; objective.length()];
    let (mut direction, mut scratch) = (unmoved.clone(), Default::default());
    let Ok(gradient) = objective.gradient(&mut &unmoved[..], past_the_curator::read_for_tests(&world), 0, &mut scratch);
    gradient.add_to(&mut direction);
    let norm = dpopt_objective::geometry::norm(&direction);
    direction.iter_mut().for_each(|g| *g /= norm);
    direction
}

/// Exact log-likelihood ratio (with over without) of what one step of chosen rows lets out, for a record that touches the one
/// feature there is: whether it is chosen, and the noisy gradients.
pub(crate) fn chosen_rows(
    numbers: &[f64],
    (descent, selection): (&DescentSchedule, &SelectionSchedule),
    along: &[f64],
) -> f64 {
    let dense = along.len() - along.len() / 2;
    let (head, row) = numbers.split_at(dense.min(numbers.len()));
    let (table, tail) = along.split_at(along.len() / 2);
    let level = f64::from(selection.level_eighths) / 8.0;
    let shift = 1.0 / selection.count_noise_multiplier;
    let chosen = !row.is_empty();
    let ratio = if chosen {
        normal_cdf(shift - level) / normal_cdf(-level)
    } else {
        normal_cdf(level - shift) / normal_cdf(level)
    };
    // the gradient has length C along a unit vector; what is not chosen is not seen
    let (c, variance) = (descent.clip_norm, descent.noise_std * descent.noise_std);
    let part = |seen: &[f64], unit: &[f64]| {
        let product: f64 = seen.iter().zip(unit).map(|(y, d)| y * d).sum();
        let length: f64 = unit.iter().map(|d| d * d).sum();
        (c * product - 0.5 * c * c * length) / variance
    };
    let rows = if chosen { part(&row[1..], table) } else { 0.0 };
    ratio.ln() + part(head, tail) + rows
}
