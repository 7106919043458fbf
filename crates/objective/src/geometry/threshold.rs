//! Thresholds: the k largest coordinates, and shrinkage toward 0.

/// Keeps the `k` largest coordinates by absolute value and sets the others to 0, in place; of equal ones the first stay.
///
/// ```
/// let mut x = [3.0, -1.0, 2.0, -4.0];
/// dpopt_objective::geometry::hard_threshold(&mut x, 2);
/// assert_eq!(x, [3.0, 0.0, 0.0, -4.0]);
/// ```
pub fn hard_threshold(x: &mut [f64], k: usize) {
    if k >= x.len() {
        return;
    }
    if k == 0 {
        return x.fill(0.0);
    }
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.select_nth_unstable_by(k - 1, |&a, &b| x[b].abs().total_cmp(&x[a].abs()).then(a.cmp(&b)));
    for &j in &order[k..] {
        x[j] = 0.0;
    }
}

/// sign(x)·max(|x| − `level`, 0), in place.
pub fn soft_threshold(x: &mut [f64], level: f64) {
    x.iter_mut().for_each(|v| *v = v.signum() * (v.abs() - level).max(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_and_extremes() {
        let keep = |k: usize| {
            let mut x = [1.0, -1.0, 1.0, 0.5];
            hard_threshold(&mut x, k);
            x
        };
        assert_eq!(keep(2), [1.0, -1.0, 0.0, 0.0]);
        assert_eq!(keep(0), [0.0; 4]);
        assert_eq!(keep(9), [1.0, -1.0, 1.0, 0.5]);
        let mut x = [2.0, -0.5, 0.0];
        soft_threshold(&mut x, 1.0);
        assert_eq!(x, [1.0, 0.0, 0.0]);
    }
}
