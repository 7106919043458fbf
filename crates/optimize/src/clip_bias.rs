//! What clipping takes from a mean whose tails are heavy, and the clip norm at which it balances with noise.

/// Most that clipping vectors to norm C takes from their mean, ‖E clip(Y) − E Y‖, if E‖Y‖^k ≤ G^k: (k−1)^(k−1)/k^k·G^k/C^(k−1), because (r − C)/r^k is
/// largest at r = kC/(k − 1) (spec 12 §0, finding C).
///
/// ```
/// // .25, .148, .105 times G^k/C^(k−1) for k = 2, 3, 4
/// let of = |k| (1000.0 * dpopt_optimize::clip_bias::clip_bias(k, 1.0, 1.0)).round();
/// assert_eq!([2.0, 3.0, 4.0].map(of), [250.0, 148.0, 105.0]);
/// ```
pub fn clip_bias(order: f64, root: f64, threshold: f64) -> f64 {
    if threshold == f64::INFINITY {
        return 0.0;
    }
    // in logarithms: powers of large orders leave the range of numbers before their quotient does
    let k = order;
    let share = (k - 1.0) * (k - 1.0).ln() - k * k.ln();
    (share + k * root.ln() - (k - 1.0) * threshold.ln()).exp()
}

/// The C at which `per_threshold`·C and [`clip_bias`] are least together.
pub fn balanced_clip(order: f64, root: f64, per_threshold: f64) -> f64 {
    // a = (k − 1)·κ·G^k/C^k
    ((order - 1.0) * clip_bias(order, root, 1.0) / per_threshold).powf(1.0 / order)
}
