//! Adds the total-variation error of samplers to a bound: δ_total(ε) = δ(ε) + (1 + e^ε)·τ (docs/proofs/accounting-pld.md, "Samplers' error").
//!
//! Covers: thesis corollary 2.4.3 (certified)

use super::AccountingError;
use dpopt_event::special::UNIT_ROUNDOFF;

/// (1 + e^ε)·τ rounded up.
fn added_delta(epsilon: f64, total_variation: f64) -> f64 {
    if total_variation == 0.0 { 0.0 } else { (1.0 + epsilon.exp()) * total_variation * (1.0 + 16.0 * UNIT_ROUNDOFF) }
}

/// δ at ε with the samplers' error, at most 1; `exact` is the bound without it.
pub(crate) fn delta_with_error(exact: f64, epsilon: f64, total_variation: f64) -> f64 {
    if total_variation == 0.0 {
        return exact.min(1.0);
    }
    ((exact + added_delta(epsilon, total_variation)) * (1.0 + 2.0 * UNIT_ROUNDOFF)).min(1.0)
}

/// τ counts (1 + e^ε)-fold: beyond some ε it is more than δ. Where τ is small it is noise that is missing there.
pub(crate) fn nothing_left(total_variation: f64, delta: f64) -> AccountingError {
    let most = (delta / total_variation - 1.0).ln();
    let counts = format!("the samplers' total variation {total_variation:e}, which counts (1 + e^epsilon)-fold,");
    AccountingError::Unreachable(if most > 0.0 {
        format!(
            "there is too little noise for a guarantee: from epsilon {most:.3} on, {counts} exceeds delta {delta:e}, \
             and no smaller epsilon can be certified; add noise, raise delta, or use finer samplers"
        )
    } else {
        format!("{counts} uses up delta {delta:e} at every epsilon; use finer samplers, or raise delta")
    })
}

/// A small ε ≥ 0 with δ(ε) + (1 + e^ε)·τ ≤ `delta`, verified at the value returned.
///
/// `epsilon_at(δ)` and `delta_at(ε)` are upper bounds without the samplers' error.
pub(crate) fn epsilon_with_error(
    delta: f64,
    total_variation: f64,
    epsilon_at: impl Fn(f64) -> f64,
    delta_at: impl Fn(f64) -> f64,
) -> Result<f64, AccountingError> {
    let mut epsilon = epsilon_at(delta);
    if total_variation == 0.0 {
        return Ok(epsilon);
    }
    let too_large = || nothing_left(total_variation, delta);
    // the fixed point is approached from below, so it only gives the start of the verified search
    for _ in 0..8 {
        let rest = delta - added_delta(epsilon, total_variation);
        if rest.is_nan() || rest <= 0.0 {
            return Err(too_large());
        }
        let next = epsilon_at(rest);
        if next <= epsilon * (1.0 + 1e-12) {
            break;
        }
        epsilon = next;
    }
    let fits = |epsilon: f64| delta_with_error(delta_at(epsilon), epsilon, total_variation) <= delta;
    let mut step = 1e-9 * epsilon.max(1e-3);
    let mut below = None;
    while !fits(epsilon) {
        below = Some(epsilon);
        epsilon += step;
        step *= 2.0;
        if !(added_delta(epsilon, total_variation) < delta) {
            return Err(too_large());
        }
    }
    // what the last steps passed by
    if let Some(mut below) = below {
        for _ in 0..40 {
            let middle = 0.5 * (below + epsilon);
            if epsilon - below <= 1e-9 * epsilon {
                break;
            }
            if fits(middle) { epsilon = middle } else { below = middle }
        }
    }
    Ok(epsilon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_event::special::{gaussian_epsilon, gaussian_ln_delta_upper};

    #[test]
    fn the_returned_epsilon_is_verified() {
        let total = |epsilon: f64, tv: f64| gaussian_ln_delta_upper(epsilon, 1.0).exp() + (1.0 + epsilon.exp()) * tv;
        let solve = |delta: f64, tv: f64| {
            epsilon_with_error(delta, tv, |d| gaussian_epsilon(d, 1.0), |e| gaussian_ln_delta_upper(e, 1.0).exp())
        };
        let epsilon = solve(2e-5, 5e-8).unwrap();
        assert!(total(epsilon, 5e-8) <= 2e-5);
        assert!(total(epsilon * (1.0 - 1e-6), 5e-8) > 2e-5, "{epsilon}");
        // no ε at all satisfies this one, although the first iterates of the fixed point exist
        assert!(matches!(solve(2e-5, 2e-7), Err(AccountingError::Unreachable(_))));
        assert_eq!(solve(2e-5, 0.0).unwrap(), gaussian_epsilon(2e-5, 1.0));
        assert!(solve(1e-6, 1e-6).is_err());
    }
}
