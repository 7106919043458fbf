//! Rényi divergences in closed form, and pairs as atoms of the privacy loss (Mironov 2017).

use super::super::integer_shift::IntegerShift;
use super::super::pure;
use dpopt_event::special::{gauss_legendre_nodes, log_add_exp, log_sum_exp};
use dpopt_event::{Event, Relation};

/// Laplace pair with shift E = sensitivity / scale (Mironov 2017, Prop. 6).
pub(super) fn laplace(shift: f64, order: f64) -> f64 {
    // ln(a·e^{(α−1)E} + (1−a)·e^{−αE})/(α−1) with a = α/(2α−1)
    let a = order / (2.0 * order - 1.0);
    let (up, down) = ((order - 1.0) * shift, -order * shift);
    let value = if up < 0.5 && down > -0.5 {
        // a·expm1(up) + (1−a)·expm1(down), whose first-order terms cancel exactly
        (a * exp_m1_rest(up) + (1.0 - a) * exp_m1_rest(down)).ln_1p()
    } else {
        log_add_exp(a.ln() + up, (-a).ln_1p() + down)
    };
    (value / (order - 1.0)).max(0.0)
}

/// e^x − 1 − x.
fn exp_m1_rest(x: f64) -> f64 {
    if x.abs() > 0.5 {
        return x.exp_m1() - x;
    }
    let (mut term, mut sum) = (0.5 * x * x, 0.0);
    for k in 3..30 {
        sum += term;
        term *= x / f64::from(k);
    }
    sum
}

/// Integer noise ∝ e^{−a|x|} shifted by the integer s.
pub(super) fn discrete_laplace(a: f64, shift: f64, order: f64) -> f64 {
    // Σ_x P^α Q^{1−α} over x ≤ 0, x ≥ s and the geometric middle; tanh(a/2)/(1 − e^{−a}) = 1/(1 + e^{−a})
    let outside = -(-a).exp().ln_1p();
    let left = outside - order * a * shift;
    let right = outside + (order - 1.0) * a * shift;
    // Σ_{x=1}^{s−1} e^{(2α−1)a·x}
    let rate = (2.0 * order - 1.0) * a;
    let middle = if shift > 1.0 {
        let count = shift - 1.0;
        let ratio_ln = |x: f64| if x > 30.0 { x } else { x.exp_m1().ln() };
        (0.5 * a).tanh().ln() - order * a * shift + rate + ratio_ln(rate * count) - ratio_ln(rate)
    } else {
        f64::NEG_INFINITY
    };
    (log_sum_exp([left, right, middle]) / (order - 1.0)).max(0.0)
}

/// Integer noise ∝ e^(−x²/2σ²). For one sum exactly αs²/(2σ²) + ln(θ((α−1)s)/θ(0))/(α−1), θ(c) = Σ_x e^(−(x−c)²/2σ²) ≤ θ(0); for
/// several the first term (Canonne, Kamath, Steinke 2020).
pub(super) fn discrete_gaussian(sigma: f64, shift: IntegerShift, order: f64) -> f64 {
    let smooth = order * shift.rho(sigma);
    let Some(line) = shift.line else { return smooth };
    // above σ = 3 θ is constant up to 1e-76
    if sigma > 3.0 {
        return smooth;
    }
    let offset = (order - 1.0) * line;
    let c = offset - offset.round();
    // halfway between integers all terms may underflow
    let ln_theta = |c: f64| log_sum_exp((-140..=140).map(|x| -0.5 * ((f64::from(x) - c) / sigma).powi(2)));
    // rounding of the sums and of c
    let slack = 1e-15 * (1.0 + offset.abs() / (sigma * sigma));
    smooth + (ln_theta(c) - ln_theta(0.0) + slack).min(0.0) / (order - 1.0)
}

/// The pair of one shifted sum as atoms (loss, ln Q-mass): all that weigh in E_Q(1 − q + q·e^L)^α and in the reverse, up to e^-800.
/// `None` if they are too many.
fn discrete_gaussian_atoms(sigma: f64, line: f64, q: f64, order: f64) -> Option<Vec<(f64, f64)>> {
    const MOST: f64 = 4000.0;
    let lifted = 2.0 * order * -(q.ln() + (-q).ln_1p());
    let reach = sigma * (1600.0 + lifted).sqrt() + (order + 1.0) * line;
    if !(2.0 * reach < MOST) {
        return None;
    }
    let ln_theta = log_sum_exp((-140..=140).map(|x| -0.5 * (f64::from(x) / sigma).powi(2)));
    let ln_total = if sigma > 3.0 { (sigma * std::f64::consts::TAU.sqrt()).ln() } else { ln_theta };
    let last = reach.ceil() as i64;
    let atom = |y: i64| {
        let y = y as f64;
        let z = (y + line) / sigma;
        (0.5 * (line / sigma) * ((line + 2.0 * y) / sigma), -0.5 * z * z - ln_total)
    };
    Some((-last..=last).map(atom).collect())
}

/// Randomized response with odds e^ε; dominates every ε-DP mechanism, interactive ones too.
pub(super) fn pure(epsilon: f64, order: f64) -> f64 {
    if epsilon == 0.0 {
        return 0.0;
    }
    // p·e^x + (1−p)·e^{−x} with p = e^ε/(1+e^ε) and x = (α−1)ε; near 1 it is 1 + tanh(ε/2)·sinh x + 2·sinh²(x/2)
    let x = (order - 1.0) * epsilon;
    let value = if x < 1.0 {
        ((0.5 * epsilon).tanh() * x.sinh() + 2.0 * (0.5 * x).sinh().powi(2)).ln_1p()
    } else {
        let ln_p = -(-epsilon).exp().ln_1p();
        log_add_exp(ln_p + x, ln_p - epsilon - x)
    };
    (value / (order - 1.0)).clamp(0.0, epsilon)
}

/// The largest divergence of a pair whose loss lies in an interval of length ε (Dong, Durfee, Rogers 2020): the
/// loss takes the two ends t and t − ε, and the worst t is known. Never above αε²/8.
pub(super) fn bounded_range(epsilon: f64, order: f64) -> f64 {
    if epsilon == 0.0 {
        return 0.0;
    }
    let above = order - 1.0;
    let quadratic = order * epsilon * epsilon / 8.0;
    // the worst upper end: e^t = (α−1)(1 − e^(−αε))/(α(e^(−ε) − e^(−αε)))
    let ln_share = |x: f64| (-(-x).exp_m1()).ln();
    let below = (ln_share(above * epsilon) - ln_share(order * epsilon) - (-1.0 / order).ln_1p()).clamp(0.0, epsilon);
    let t = epsilon - below;
    // Q-probability of the upper end: (e^(−t) − e^(−ε))/(1 − e^(−ε))
    let ln_upper = below.exp_m1().ln() - epsilon - ln_share(epsilon);
    let upper = ln_upper.exp().min(1.0);
    let moment = if order * epsilon < 1.0 {
        (upper * (order * t).exp_m1() + (1.0 - upper) * (-order * below).exp_m1()).ln_1p()
    } else {
        log_add_exp(ln_upper + order * t, (-upper).ln_1p() - order * below)
    };
    // the two ends cancel to first order: what is left of the rounding of αε against α(α − 1)ε²/8
    let rounding = 1.0 + 64.0 * f64::EPSILON * (1.0 + 1.0 / (above * epsilon));
    (moment / above * rounding).clamp(0.0, epsilon.min(quadratic))
}

/// Divergence of what happens with probability q by a coin that is shown and has the same law on both sides, given that of what
/// happens then: the moments are mixed. Increasing in both.
pub(super) fn gated(q: f64, divergence: f64, order: f64) -> f64 {
    let x = (order - 1.0) * divergence;
    if q == 0.0 || x == 0.0 {
        return 0.0;
    }
    let value = if x < 30.0 { (q * x.exp_m1()).ln_1p() } else { x + (q + (1.0 - q) * (-x).exp()).ln() };
    // of x, of its exponential and, where ln q is taken off, of the difference
    let rounding = 1.0 + 8.0 * f64::EPSILON * (1.0 + if x < 30.0 { 0.0 } else { x / value.abs() });
    (value / (order - 1.0) * rounding).clamp(0.0, divergence)
}

/// Randomized response over k buckets.
pub(super) fn randomized_response(p: f64, k: u64, order: f64, relation: Relation) -> f64 {
    let atoms = randomized_response_atoms(p, k, relation);
    // some ratio is infinite if the true bucket is always given
    if p == 0.0 {
        return f64::INFINITY;
    }
    let direction = |s: f64| log_sum_exp(atoms.iter().map(|(l, ln_q)| ln_q + s * l)) / (order - 1.0);
    direction(order).max(direction(1.0 - order)).max(0.0)
}

fn randomized_response_atoms(p: f64, k: u64, relation: Relation) -> Vec<(f64, f64)> {
    let k = k as f64;
    let (keep, other) = (1.0 - p + p / k, p / k);
    match relation {
        // ⊥ is answered with a uniform bucket
        Relation::ZeroOut | Relation::AddOrRemove => {
            vec![((k * keep).ln(), -k.ln()), ((k * other).ln(), ((k - 1.0) / k).ln())]
        }
        Relation::ReplaceOne => {
            let mut atoms = vec![((keep / other).ln(), other.ln()), ((other / keep).ln(), keep.ln())];
            if k > 2.0 {
                atoms.push((0.0, ((k - 2.0) * other).ln()));
            }
            atoms
        }
    }
}

/// ChiSquareGaussian: finite for α(α−1)μ² < m only.
pub(super) fn chi_square(degrees_of_freedom: u64, mu: f64, order: f64) -> f64 {
    let m = degrees_of_freedom as f64;
    let x = order * (order - 1.0) * mu * mu / m;
    if x < 1.0 { -m / (2.0 * (order - 1.0)) * (-x).ln_1p() } else { f64::INFINITY }
}

/// The loss of a leaf as atoms (loss, ln Q-mass) of a pair that dominates under `relation`, and a δ that is set aside.
/// `None` if the leaf has neither a finite pure ε nor a pair here. `q` and `order` say what the atoms are used for.
pub(super) fn atoms(event: &Event, relation: Relation, q: f64, order: f64) -> Option<(Vec<(f64, f64)>, f64)> {
    if let Event::DiscreteGaussian { sigma, sensitivity, dimension } = event {
        let line = IntegerShift::new(*sensitivity, *dimension, relation).line?;
        return Some((discrete_gaussian_atoms(*sigma, line, q, order)?, 0.0));
    }
    if let Event::RandomizedResponse { noise_parameter, num_buckets } = event {
        let atoms = randomized_response_atoms(*noise_parameter, *num_buckets, relation);
        return (*noise_parameter > 0.0).then_some((atoms, 0.0));
    }
    let laplace_shift = match event {
        Event::Laplace { noise_multiplier } => Some(relation.sum_sensitivity() / noise_multiplier),
        Event::PermuteAndFlip { epsilon } => Some(*epsilon),
        _ => None,
    };
    if let Some(shift) = laplace_shift {
        // beyond that the two outer atoms are all that matters, and ε is of no use anyway
        if shift < 50.0 {
            // under Q: x ≤ 0 has loss −E, x ≥ E has +E, between them 2x − E
            let mut atoms = vec![(-shift, -std::f64::consts::LN_2), (shift, -std::f64::consts::LN_2 - shift)];
            let panels = (4.0 * shift).ceil().max(1.0);
            let width = shift / panels;
            for panel in 0..panels as u64 {
                for (x, weight) in gauss_legendre_nodes(panel as f64 * width, width) {
                    atoms.push((2.0 * x - shift, (0.5 * weight).ln() - x));
                }
            }
            return Some((atoms, 0.0));
        }
    }
    let (epsilon, delta) = pure::worst(event, relation)?;
    let ln_p = -(-epsilon).exp().ln_1p();
    Some((vec![(epsilon, ln_p - epsilon), (-epsilon, ln_p)], delta))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(value: f64, reference: f64) {
        assert!((value / reference - 1.0).abs() < 1e-12, "{value:e} against {reference:e}");
    }

    /// Halfway between integers: 7500 + 2·(ln 2 − 1250), as all other terms are nothing.
    #[test]
    fn narrow_integer_noise_has_a_divergence_between_integers() {
        let shift = IntegerShift::new(1.0, Some(1), Relation::ZeroOut);
        close(discrete_gaussian(0.01, shift, 1.5), 5_001.386_294_361_12);
    }

    #[test]
    fn laplace_and_pure() {
        for (shift, order, value) in [
            (1.0, 2.0, 0.6191236299986),
            (0.1, 10.0, 0.04271518246569),
            (5.0, 1.25, 4.27115621585),
            (0.001, 100.0, 4.990112035321e-5),
        ] {
            assert!((laplace(shift, order) / value - 1.0).abs() < 1e-11, "{}", laplace(shift, order));
        }
        for (epsilon, order, value) in
            [(1.0, 2.0, 0.7353256640555), (0.1, 10.0, 0.04388778868993), (5.0, 1.25, 4.975350331945)]
        {
            assert!((pure(epsilon, order) / value - 1.0).abs() < 1e-11, "{}", pure(epsilon, order));
        }
        // small ε: αε²/2 to first order
        assert!((pure(1e-6, 2.0) / 1e-12 - 1.0).abs() < 1e-5);
        assert!((laplace(1e-6, 2.0) / 1e-12 - 1.0).abs() < 1e-5);
    }

    #[test]
    fn two_buckets_are_randomized_response() {
        // p over 2 buckets: odds (1 − p/2)/(p/2)
        let p = 0.3f64;
        let epsilon = ((1.0 - p / 2.0) / (p / 2.0)).ln();
        close(randomized_response(p, 2, 3.0, Relation::ReplaceOne), pure(epsilon, 3.0));
        assert!(randomized_response(p, 2, 3.0, Relation::ZeroOut) < pure(epsilon, 3.0));
        assert_eq!(randomized_response(0.0, 2, 3.0, Relation::ZeroOut), f64::INFINITY);
    }

    #[test]
    fn discrete_laplace_against_the_sum() {
        for (a, shift, order) in [(0.5, 1.0, 2.0), (0.3, 4.0, 3.5), (0.01, 7.0, 20.0), (2.0, 3.0, 1.1)] {
            let c = (0.5f64 * a).tanh().ln();
            let direct = log_sum_exp((-4000..4000).map(|x| {
                let x = f64::from(x);
                c - order * a * (x - shift).abs() - (1.0 - order) * a * x.abs()
            })) / (order - 1.0);
            assert!((discrete_laplace(a, shift, order) / direct - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn discrete_gaussian_against_the_sum() {
        for (sigma, s, order) in [(0.4, 1.0, 1.3), (0.7, 2.0, 2.25), (1.0, 1.0, 7.6), (2.0, 3.0, 2.0), (5.0, 4.0, 30.5)]
        {
            let shift = IntegerShift { square: s * s, line: Some(s) };
            let ln_f = |x: f64| -0.5 * (x / sigma) * (x / sigma);
            let xs = || (-3000..3000).map(f64::from);
            let direct = (log_sum_exp(xs().map(|x| order * ln_f(x) + (1.0 - order) * ln_f(x - s)))
                - log_sum_exp(xs().map(ln_f)))
                / (order - 1.0);
            let got = discrete_gaussian(sigma, shift, order);
            assert!((got / direct - 1.0).abs() < 1e-11 && got >= direct * (1.0 - 1e-13), "{got} {direct}");
            // the atoms have the same divergence
            let atoms = discrete_gaussian_atoms(sigma, s, 0.5, order).unwrap();
            let sum = log_sum_exp(atoms.iter().map(|(l, ln_q)| ln_q + order * l)) / (order - 1.0);
            assert!((sum / direct - 1.0).abs() < 1e-11, "{sum} {direct}");
        }
        let several = IntegerShift { square: 2.0, line: None };
        assert!((discrete_gaussian(1.0, several, 3.0) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn chi_square_is_finite_below_its_last_order() {
        close(chi_square(100, 1.0, 8.0), 5.864146800499);
        assert_eq!(chi_square(100, 1.0, 11.0), f64::INFINITY);
    }
}
