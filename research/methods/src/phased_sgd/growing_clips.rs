//! Phases for gradients of heavy tails: steps a sixteenth as long and clip norms twice as large from one phase to the next
//! (One-Pass-Clipped DP-SGD: Liu 2024, Algorithm 43; docs/proofs/phased-sgd.md).
//!
//! The first phases, whose noise is largest, clip most; the later ones, whose steps are short, take back what that cost. A clip of a slope
//! in one score keeps steps contracting, whatever it is, so all phases still cost what one of them does.
//!
//! Covers: thesis algorithm 43 (certified: half of the printed noise; phases end before rounding hides it)
//! Covers: thesis theorem 12.8.2 (part: the method is certified; the rate is measured, not claimed)

/// Steps of a phase over those of the one before.
pub(super) const STEP_RATIO: f64 = 1.0 / 16.0;
/// Clip norm of a phase over that of the one before: below √(1/(2·[`STEP_RATIO`])), so that what clips take adds up to little.
pub(super) const CLIP_GROWTH: f64 = 2.0;

/// What the schedule is made from, all public.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tails {
    /// The number of records n.
    pub records: f64,
    /// The number of weights d.
    pub weights: f64,
    /// ρ: a phase's noise is ηC√(2/ρ).
    pub rho: f64,
    /// D: bound on the distance of the start from the best weights.
    pub distance: f64,
    /// G₂ with E‖gradient‖² ≤ G₂².
    pub second: f64,
    /// G with E‖gradient‖^k ≤ G^k.
    pub root: f64,
    /// The order k of the moment.
    pub order: f64,
}

impl Tails {
    /// η; the first phase steps η/16.
    pub fn learning_rate(&self) -> f64 {
        let Self { records: n, weights: d, rho, distance, second, root, order: k } = *self;
        let of_sampling = (8.0 / n).sqrt() * distance / second;
        let of_noise = (n * n * rho / (32.0 * d)).powf((k - 1.0) / (2.0 * k)) * 2f64.powf((k + 1.0) / (2.0 * k)) / n;
        of_sampling.min(of_noise * distance / root)
    }

    /// C for steps from η; the first phase clips to 2C.
    pub fn clip_norm(&self, learning_rate: f64) -> f64 {
        let Self { records: n, weights: d, rho, distance, root, order: k, .. } = *self;
        root * (distance * rho * n / (32.0 * learning_rate * d * root)).powf(1.0 / (k + 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::geometry::norm;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::objective::Linear;
    use dpopt_objective::records::{Examples, Rows};
    use dpopt_objective::solver::Pass;
    use dpopt_objective::synthetic::Lcg;

    /// The bound of Theorem 12.8.2 as it is printed (its first term is short of a factor of at most four).
    fn printed_bound(tails: &Tails) -> f64 {
        let Tails { records: n, weights: d, rho, distance, second, root, order: k } = *tails;
        4.0 * second * distance / n.sqrt() + 26.0 * root * distance * (d.sqrt() / (n * rho.sqrt())).powf(1.0 - 1.0 / k)
    }

    #[test]
    fn parameters_are_those_of_the_theorem() {
        let tails =
            |n, order, root| Tails { records: n, weights: 10.0, rho: 0.1, distance: 1.0, second: 1.0, root, order };
        // to the digits that are printed
        let same = |value: f64, digits: &str| {
            let decimals = digits.split_once('.').map_or(0, |(_, d)| d.len());
            assert_eq!(format!("{value:.decimals$}"), digits);
        };
        for (tails, rate, clip, bound) in [
            (tails(4096.0, 2.0, 1.0), "0.003494", "7.155", "1.35"),
            (tails(16384.0, 2.0, 1.0), "0.001747", "14.31", "0.674"),
            (tails(131_072.0, 2.0, 1.0), "0.0006176", "40.48", "0.238"),
            (tails(1_048_576.0, 2.0, 1.0), "0.0002184", "114.5", "0.0842"),
            (tails(16384.0, 4.0, 1.5), "0.004406", "5.674", "0.183"),
        ] {
            same(tails.learning_rate(), rate);
            same(tails.clip_norm(tails.learning_rate()), clip);
            same(printed_bound(&tails), bound);
        }
    }

    /// Passes of growing clips over rows with heavy tails, each row cut to where ηβ‖x‖² is at most 2: one record, replaced, moves the mean by 2ηC at most, and
    /// by as much where the loss is linear.
    #[test]
    fn a_replaced_record_moves_a_phase_by_twice_its_step_and_clip() {
        let mut random = Lcg::new(9);
        let (d, n) = (4usize, 80usize);
        let mut worst = 0.0f64;
        for trial in 0..300 {
            let phase = trial % 4;
            let linear = trial % 3 == 0;
            let clip = 0.02 * CLIP_GROWTH.powi(phase);
            // far out, Huber's loss is linear: slopes ±clip, and nothing pulls back
            let loss = if linear { Loss::Huber { threshold: 0.01 } } else { Loss::Logistic { shift: 0.0 } };
            let row_norm = 8.0;
            let first = 1.9 / (loss.facts().smoothness.unwrap() * row_norm * row_norm);
            let rate = first * STEP_RATIO.powi(phase);
            let mut rows = Rows::new(d);
            let targets: Vec<f32> = (0..n).map(|_| if random.uniform() < 0.5 { 1.0 } else { -1.0 }).collect();
            for i in 0..n {
                let tail = if linear && i == 0 { 100.0 } else { (1.0 / random.uniform().max(1e-6)).sqrt() };
                let mut row: Vec<(u32, f32)> = (0..d as u32).map(|j| (j, (tail * random.normal()) as f32)).collect();
                rows.push_clipped(&mut row, row_norm);
            }
            let mut other = targets.clone();
            other[0] = -targets[0];
            let objective = Linear::new(loss, d, row_norm);
            let pass = Pass { objective, learning_rate: rate, clip_norm: clip, target_bound: 1e9 };
            assert!(pass.is_contraction());
            let (targets, other) =
                if linear { (vec![1e8; n], [vec![-1e8], vec![1e8; n - 1]].concat()) } else { (targets, other) };
            let order: Vec<u32> = (0..n as u32).collect();
            let mean = |targets: &[f32]| {
                pass.mean(&Examples { rows: rows.clone(), targets: targets.to_vec() }, &order, &vec![0.0; d])
            };
            let moved: Vec<f64> = mean(&targets).iter().zip(mean(&other)).map(|(a, b)| a - b).collect();
            let share = norm(&moved) / (2.0 * rate * clip);
            assert!(share <= 1.0 + 1e-7, "{loss:?}, phase {phase}: {share}");
            let attained = clip <= 0.01 * row_norm;
            assert!(!(linear && attained) || share > 1.0 - 1e-6, "phase {phase}: {share}");
            worst = worst.max(share);
        }
        assert!(worst > 1.0 - 1e-6, "{worst}");
    }

    /// Without the cut of rows a logistic phase expands: what the first record moved has grown at the end.
    #[test]
    fn rows_beyond_the_guard_drive_neighbours_apart() {
        let drift = |row: f32| {
            let mut rows = Rows::new(1);
            rows.push_clipped(&mut [(0, 1.0)], 1e3);
            (0..60).for_each(|_| rows.push_clipped(&mut [(0, row)], 1e3));
            let targets: Vec<f32> =
                [vec![1.0], (0..60).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect()].concat();
            let (rate, clip) = (0.32, 1e3);
            let objective = Linear::new(Loss::Logistic { shift: 0.0 }, 1, 1e3);
            let pass = Pass { objective, learning_rate: rate, clip_norm: clip, target_bound: 1.0 };
            let order: Vec<u32> = (0..61).collect();
            let mean = |first: f32| {
                let targets = [vec![first], targets[1..].to_vec()].concat();
                pass.mean(&Examples { rows: rows.clone(), targets }, &order, &[0.0])[0]
            };
            // of a row of norm 1 a gradient is at most 1
            (mean(1.0) - mean(-1.0)).abs() / (2.0 * rate)
        };
        // ηβ‖x‖² = .32·.25·25 = 2, and 32 at four times the norm
        assert!(drift(5.0) <= 1.0, "{}", drift(5.0));
        assert!(drift(20.0) > 1.0, "{}", drift(20.0));
    }
}
