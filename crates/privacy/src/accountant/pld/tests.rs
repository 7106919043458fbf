//! Values of spec 18 §10 (Laplace inversion of the exact one-step transform, mpmath).

use super::*;

fn dp_sgd(q: f64, sigma: f64, steps: u64) -> Event {
    Event::gaussian(sigma).poisson_sampled(q).self_composed(steps)
}

fn epsilon(event: &Event, delta: f64) -> Bound {
    Pld::default().epsilon(event, Relation::ZeroOut, delta).unwrap()
}

/// (q, σ, T, δ, with → without, without → with)
const COMPOSITIONS: [(f64, f64, u64, f64, f64, f64); 15] = [
    (0.01, 1.0, 1000, 1e-6, 2.12451517, 1.58908876),
    (0.004, 0.8, 10_000, 1e-6, 4.02843604, 3.30082226),
    (0.01, 1.0, 1000, 1e-12, 3.91429816, 2.32555331),
    (0.01, 1.0, 1000, 1e-20, 6.36170020, 2.96058487),
    (0.01, 1.0, 1000, 1e-30, 9.34189563, 3.52437641),
    (0.125, 0.8, 1000, 1e-6, 56.72594998, 37.01787613),
    (0.2, 1.0, 10, 1e-5, 4.98421340, 1.59325025),
    (0.00033, 4.0, 10_000, 1.13e-18, 0.06718545, 0.06579580),
    (0.00033, 4.0, 10_000, 1e-30, 0.09204986, 0.08947887),
    (0.001, 0.5, 100_000, 1e-8, 17.93802233, 10.43683472),
    (1e-4, 0.6, 1_000_000, 1e-9, 3.41209621, 2.10781063),
    (0.5, 20.0, 5000, 1e-5, 8.60484680, 8.58688946),
    (0.014, 3.308, 1000, 1e-5, 0.48852698, 0.47037557),
    (250.0 / 59_674.0, 0.9581, 1671, 1e-5, 0.99994156, 0.79816642),
    (256.0 / 60_000.0, 1.1, 14_063, 1e-5, 2.38168973, 2.24365080),
];

#[test]
fn compositions_of_sampled_gaussians() {
    for (q, sigma, steps, delta, forward, backward) in COMPOSITIONS {
        let b = epsilon(&dp_sgd(q, sigma, steps), delta);
        // the printed digits are rounded: 1e-8 below is allowed, slack above is at most 1e-4 of ε
        // (the tail that the truncation charges in full is not in the reference)
        let (f, r) = (b.with_to_without.unwrap(), b.without_to_with.unwrap());
        assert!(f > forward - 1e-8 && f < forward * (1.0 + 1e-4) + 1e-7, "{q} {sigma} {steps} {delta:e}: {f} {forward}");
        assert!(r > backward - 1e-8 && r < backward * 1.001, "{q} {sigma} {steps} {delta:e}: {r} {backward}");
        assert_eq!(b.upper, f.max(r));
    }
}

/// Coarse cells must be sized by the tilted mass: otherwise the tail is inflated (spec 18 §3.2).
#[test]
fn coarse_cells_follow_the_tilt() {
    let event = dp_sgd(0.01, 1.0, 1000);
    let inflated = planted::with(planted::Bug::UntiltedWidths, || epsilon(&event, 1e-30).upper);
    let fine = epsilon(&event, 1e-30).upper;
    assert!(fine < 9.3421, "{fine}");
    assert!(inflated > 9.3421, "the planted bug was not noticed: {inflated}");
}
