//! What clipping takes from a mean whose tails are heavy, and the clip norm at which it balances with noise.
//!
//! Covers: thesis corollary 12.3.3 (part: the clip norm at which bias and noise balance; the rate is not claimed)

/// ln of (k−1)^(k−1)/k^k.
fn ln_share(order: f64) -> f64 {
    (order - 1.0) * (order - 1.0).ln() - order * order.ln()
}

/// Most that clipping vectors to norm C takes from their mean, ‖E clip(Y) − E Y‖, if E‖Y‖^k ≤ G^k: (k−1)^(k−1)/k^k·G^k/C^(k−1), because (r − C)/r^k is
/// largest at r = kC/(k − 1) (Liu 2024, Fact 12.2.8, sharpened); and G at most.
///
/// ```
/// // .25, .148, .105 times G^k/C^(k−1) for k = 2, 3, 4
/// let of = |k| (1000.0 * dpopt_optimize::clip_bias::clip_bias(k, 1.0, 1.0)).round();
/// assert_eq!([2.0, 3.0, 4.0].map(of), [250.0, 148.0, 105.0]);
/// ```
pub fn clip_bias(order: f64, root: f64, threshold: f64) -> f64 {
    // no more than what is there: E‖Y‖ ≤ G
    (root * (ln_share(order) + (order - 1.0) * (root / threshold).ln()).exp()).min(root)
}

/// The C at which `per_threshold`·C and (k−1)^(k−1)/k^k·G^k/C^(k−1) are least together.
pub fn balanced_clip(order: f64, root: f64, per_threshold: f64) -> f64 {
    // where the derivative is 0: a = (k − 1)·κ·(G/C)^k
    root * ((order - 1.0) * ln_share(order).exp() / per_threshold).powf(1.0 / order)
}
