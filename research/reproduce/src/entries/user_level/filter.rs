//! Noise of the friendly mean of users, as it is certified: T rounds behind one above-threshold test on close pairs (user-level mean and optimisation,
//! Algorithm 28 with deterministic weights). Numbers only: no such session is run here.

use dpopt::privacy::special::{gaussian_ln_delta, gaussian_mu};

/// Public facts of a session.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// The number of users.
    pub users: f64,
    /// The number of rounds T.
    pub rounds: f64,
    /// ε of the whole session.
    pub epsilon: f64,
    /// δ of the whole session.
    pub delta: f64,
    /// ε of the test, of all rounds.
    pub test: f64,
}

/// What the session is calibrated to.
#[derive(Clone, Copy, Debug)]
pub struct Calibrated {
    /// M*: pairs per user that pass by chance.
    pub margin: f64,
    /// c: share of users that have to be close.
    pub core: f64,
    /// How far the mean moves with one user, times users, over the radius.
    pub moved: f64,
    /// μ of all rounds' Gaussians together.
    pub mu: f64,
    /// σ over the radius.
    pub noise: f64,
}

/// P[some of `rounds` noises exceeds that of the threshold by `margin`]; noises Lap(8/ε), the threshold's Lap(4/ε).
fn passes(margin: f64, rounds: f64, test: f64) -> f64 {
    let (own, each) = (4.0 / test, 8.0 / test);
    let survival = |y: f64| if y >= 0.0 { 0.5 * (-y / each).exp() } else { 1.0 - 0.5 * (y / each).exp() };
    let density = |l: f64| (-(l.abs()) / own).exp() / (2.0 * own);
    let value = |l: f64| density(l) * -(rounds * (-survival(margin + l)).ln_1p()).exp_m1();
    // smooth between the kinks
    let far = 60.0 * own;
    let pieces = [(-margin - far, -margin), (-margin, 0.0), (0.0, far)];
    pieces.iter().map(|&(a, b)| simpson(&value, a, b)).sum()
}

fn simpson(f: &impl Fn(f64) -> f64, a: f64, b: f64) -> f64 {
    const PARTS: usize = 4000;
    let step = (b - a) / PARTS as f64;
    let inner = |k: usize| f(a + k as f64 * step) * if k % 2 == 1 { 4.0 } else { 2.0 };
    (f(a) + f(b) + (1..PARTS).map(inner).sum::<f64>()) * step / 3.0
}

/// M* where so much of δ may pass by chance, in each world.
fn margin(rounds: f64, test: f64, miss: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while passes(high, rounds, test) > miss {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if passes(middle, rounds, test) > miss { low = middle } else { high = middle }
    }
    high
}

/// δ of a coin of ε_AT beside a Gaussian of μ.
fn delta_beside_coin(epsilon: f64, coin: f64, mu: f64) -> f64 {
    let heads = coin.exp() / (1.0 + coin.exp());
    heads * gaussian_ln_delta(epsilon - coin, mu).exp() + (1.0 - heads) * gaussian_ln_delta(epsilon + coin, mu).exp()
}

/// Largest μ with that δ at most `delta`.
fn mu_beside_coin(epsilon: f64, coin: f64, delta: f64) -> f64 {
    let (mut low, mut high) = (1e-6, gaussian_mu(epsilon, delta));
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if delta_beside_coin(epsilon, coin, middle) > delta { high = middle } else { low = middle }
    }
    low
}

/// n·Δ/ρ where cores are a share `core` of `users`.
fn moved(users: f64, core: f64) -> f64 {
    4.0 / core * (1.0 + ((1.0 - core) * users - 1.0) / (core * users - (users + 1.0) / 2.0))
}

impl Session {
    /// Calibrates the session with the largest core; none if no core is large enough.
    pub fn calibrated(&self) -> Option<Calibrated> {
        let Self { users, rounds, epsilon, delta, test } = *self;
        let margin = margin(rounds, test, delta / (2.0 * (1.0 + epsilon.exp())));
        let core = 1.0 - 2.0 * (margin + 1.0) / users;
        let mu = mu_beside_coin(epsilon, test, delta / 2.0);
        let moved = moved(users, core);
        let noise = rounds.sqrt() * moved / (users * mu);
        (core >= 2.0 / 3.0).then_some(Calibrated { margin, core, moved, mu, noise })
    }

    /// Calibrates the session with one radius for score and weights, which is better for large cores; none if no core is large enough.
    pub fn with_one_radius(&self) -> Option<Calibrated> {
        let Self { users, rounds, epsilon, delta, test } = *self;
        let margin = margin(rounds, test, delta / (2.0 * (1.0 + epsilon.exp())));
        let core = 1.0 - 2.0 * (margin + 2.0) / users;
        let (low, high) = ((users + 1.0) / 2.0, (0.75 * users).ceil());
        let weights = (users - 1.0) * (core * users - low) / (users - 1.0 - low);
        let others = (users - 1.0) * (users - 1.0 - core * users) / (users - 1.0 - high);
        let moved = users * 2.0 / weights * (1.0 + others / (high - low));
        let mu = mu_beside_coin(epsilon, test, delta / 2.0);
        (core * users > low).then_some(Calibrated {
            margin,
            core,
            moved,
            mu,
            noise: rounds.sqrt() * moved / (users * mu),
        })
    }

    /// The better of both, at the best of a few shares of ε for the test.
    pub fn best(users: f64, rounds: f64, epsilon: f64, delta: f64) -> Option<Calibrated> {
        let shares = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6];
        let sessions = shares.iter().map(|share| Self { users, rounds, epsilon, delta, test: share * epsilon });
        let all = sessions.flat_map(|session| [session.calibrated(), session.with_one_radius()]);
        all.flatten().min_by(|a, b| a.noise.total_cmp(&b.noise))
    }
}

/// σ over the diameter of the same users, for T sums that are clipped around released centres in `dimension` coordinates: one user is replaced. Users whose
/// diameter is 1 lie in a ball of radius √(d/(2(d + 1))) (Jung); the clip norm is that and as far as the centre may be off.
pub fn around_centres(users: f64, rounds: f64, epsilon: f64, delta: f64, dimension: f64) -> f64 {
    let each = 2.0 * rounds.sqrt() / (users * gaussian_mu(epsilon, delta));
    let radius = (dimension / (2.0 * (dimension + 1.0))).sqrt();
    // clip = radius + clip·each·(√d + …), where that is a centre's distance
    let off = each * (dimension.sqrt() + (2.0 * 1000f64.ln()).sqrt());
    if off < 1.0 { each * radius / (1.0 - off) } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(users: f64, epsilon: f64, rounds: f64, test: f64) -> Session {
        Session { users, rounds, epsilon, delta: 1e-6, test }
    }

    #[test]
    fn five_sessions_to_the_digit() {
        for (n, epsilon, rounds, test, margin, core, moved, mu, noise) in [
            (5000.0, 1.0, 100.0, 0.5, 320.35, 0.8715, 6.1762, 0.12269, 0.100677),
            (10_000.0, 1.0, 100.0, 0.3, 533.91, 0.8930, 5.6975, 0.16870, 0.033773),
            (20_000.0, 1.0, 1000.0, 0.3, 595.31, 0.9404, 4.8292, 0.16870, 0.045262),
            (5000.0, 4.0, 100.0, 1.0, 181.81, 0.9269, 5.0530, 0.63775, 0.015846),
            (100_000.0, 1.0, 1000.0, 0.1, 1785.94, 0.9643, 4.4675, 0.21404, 0.006600),
        ] {
            let found = session(n, epsilon, rounds, test).calibrated().unwrap();
            let near = |ours: f64, theirs: f64, digit: f64| (ours - theirs).abs() <= 0.5001 * digit;
            assert!(near(found.margin, margin, 0.01), "M* {found:?}");
            assert!(near(found.core, core, 1e-4) && near(found.moved, moved, 1e-4), "c, nΔ/ρ {found:?}");
            assert!(near(found.mu, mu, 1e-5) && near(found.noise, noise, 1e-6), "μ, σ/ρ {found:?}");
        }
    }

    #[test]
    fn one_radius_to_the_digit() {
        for (n, epsilon, rounds, test, moved, noise) in [
            (20_000.0, 1.0, 1000.0, 0.3, 4.4406, Some(0.041619)),
            (100_000.0, 1.0, 1000.0, 0.1, 3.3862, Some(0.0050028)),
            (50_000.0, 2.0, 500.0, 0.3, 2.9078, Some(0.0033871)),
            (5000.0, 4.0, 100.0, 1.0, 5.0976, None),
            (5000.0, 1.0, 100.0, 0.5, 8.2506, None),
        ] {
            let found = session(n, epsilon, rounds, test).with_one_radius().unwrap();
            assert!((found.moved - moved).abs() < 6e-5, "{found:?}");
            if let Some(noise) = noise {
                assert!((found.noise / noise - 1.0).abs() < 2e-5, "{found:?}");
            }
        }
    }

    #[test]
    fn fewest_users_and_a_coin_beside_a_gaussian() {
        for (epsilon, fewest) in
            [(1f64, [1553, 1995, 2216]), (2.0, [819, 1040, 1150]), (4.0, [458, 569, 624]), (8.0, [280, 335, 363])]
        {
            let miss = 1e-6 / (4.0 * (1.0 + epsilon.exp()));
            for (rounds, fewest) in [1.0, 100.0, 1000.0].into_iter().zip(fewest) {
                let least = 6.0 * (margin(rounds, epsilon / 2.0, miss) + 1.0);
                assert_eq!(least.ceil() as u32, fewest, "ε = {epsilon}, T = {rounds}: {least}");
            }
        }
        assert!((delta_beside_coin(1.5, 0.5, 0.3) / 3.416523e-5 - 1.0).abs() < 1e-6);
        assert!((delta_beside_coin(1.0, 0.2, 0.2) / 1.166893e-6 - 1.0).abs() < 1e-6);
        // what is not a coin's: the test's ε taken off
        assert!((gaussian_ln_delta(1.0, 0.3).exp() / 5.488750e-5 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn one_round_of_groups_to_the_digit() {
        // Algorithm 31, ε = 2, δ = 1e-6, ε_s = 1: one Laplace noise of 2/ε_s
        let miss = 1e-6 / (2.0 * (1.0 + 2f64.exp()));
        assert!((2.0 * (1.0 / (2.0 * miss)).ln() - 31.885).abs() < 5e-4);
        let mu = mu_beside_coin(2.0, 1.0, 5e-7);
        assert!((mu - 0.232445).abs() < 5e-7, "{mu}");
        for (core, groups, moves, noise) in
            [(2.0 / 3.0, 198.0, 0.090909, 0.391100), (0.7, 220.0, 0.064786, 0.278715), (0.8, 329.0, 0.025226, 0.108525)]
        {
            let step = moved(groups, core) / groups;
            assert!((step - moves).abs() < 5.1e-7 && (step / mu - noise).abs() < 2e-6, "{step} {}", step / mu);
        }
    }

    #[test]
    fn printed_ramps_move_more_than_the_source_says() {
        // the source's Lemma 9.3.3: ‖p − p′‖₁ ≤ 2. n = 12: users 2 to 7 at 0, 8 to 12 apart, user 1 at 0 or apart
        let probabilities = |with_user: bool| -> Vec<f64> {
            let at = |i: usize| if (1..7).contains(&i) || (i == 0 && with_user) { 0.0 } else { 100.0 * (i + 1) as f64 };
            let near = |i: usize| (0..12).filter(|&j| (at(i) - at(j)).abs() <= 2.0).count() as f64;
            (0..12).map(|i| ((near(i) - 6.0) / 2.0).clamp(0.0, 1.0)).collect()
        };
        let moved: f64 = probabilities(true).iter().zip(probabilities(false)).map(|(p, q)| (p - q).abs()).sum();
        assert_eq!(moved, 3.5);
    }
}
