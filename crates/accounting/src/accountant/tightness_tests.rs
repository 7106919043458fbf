//! Bounds that are no larger than what is known, asked of all accountants together; answers in bounded time.

use super::{Accountant, all, compare, delta, epsilon, gdp, pld::Pld, rdp, zcdp};
use dpopt_event::expression::parse;
use dpopt_event::{Event, Neighbours, Relation};
use std::time::Instant;

fn event(text: &str) -> Event {
    parse(text, None).unwrap()
}

fn tightest(text: &str, at: f64) -> f64 {
    epsilon(&event(text), Relation::ZeroOut, at).unwrap().upper
}

/// Many stated curves cost what their sum costs: they are added before a pair is made.
#[test]
fn stated_curves_are_added_up() {
    let together = tightest("zcdp(1)", 1e-6);
    assert!((together - 7.7661).abs() < 1e-3, "{together}");
    assert!(tightest("zcdp(0.001) x 1000", 1e-6) <= together * (1.0 + 1e-9));
    assert!(tightest("zcdp(0.1) x 5 + zcdp(0.25, 0.01) x 2", 1e-6) <= together + 0.02 * (1.0 + 1e-9));
    // the lattice by itself too, so that what is composed with other mechanisms is not lost
    let lattice = |text: &str| Pld::default().epsilon(&event(text), Relation::ZeroOut, 1e-6).unwrap().upper;
    assert!(lattice("zcdp(0.001) x 1000") < together * 1.01);
    let mixed = lattice("zcdp(0.001) x 250 + poisson(0.01, gaussian(2)) x 1000");
    let gaussian = lattice("gdp(0.7071067811865476) + poisson(0.01, gaussian(2)) x 1000");
    assert!(mixed < 1.12 * gaussian, "{mixed} {gaussian}");
    // lists of orders: those of the sum
    let curve = "rdp(2: 0.002, 4: 0.004, 8: 0.008, 16: 0.016, 32: 0.032)";
    let sum = tightest("rdp(2: 2, 4: 4, 8: 8, 16: 16, 32: 32)", 1e-6);
    assert!(tightest(&format!("{curve} x 1000"), 1e-6) <= sum * (1.0 + 1e-6));
    let other = "rdp(4: 0.004, 8: 0.008, 64: 0.064)";
    assert!(tightest(&format!("{curve} x 500 + {other} x 500"), 1e-6) <= sum * (1.0 + 1e-6));
}

/// The best of a Poisson number of Gaussian runs is cheaper than dp_accounting 0.6's Rényi accountant says (its numbers, add-or-remove).
#[test]
fn best_of_a_poisson_number_of_runs() {
    for (mean, at, peer) in [
        (1, 1e-5, 0.890_181_5),
        (10, 1e-5, 1.859_533_0),
        (10, 1e-6, 1.980_403_8),
        (10, 1e-10, 2.352_356_7),
        (100, 1e-6, 7.099_341_2),
        (1000, 1e-6, 13.734_790_4),
        (1000, 1e-10, 18.993_052_1),
    ] {
        let event = event(&format!("best_of({mean}, inf, gaussian(5))"));
        let ours = epsilon(&event, Relation::AddOrRemove, at).unwrap().upper;
        assert!(ours < 0.98 * peer, "mean {mean}, delta {at}: {ours} {peer}");
    }
}

/// Integer noise on several sums costs what real noise of the same ratio costs once it is large.
#[test]
fn integer_noise_on_several_sums() {
    for (text, gaussian, room) in [
        ("discrete_gaussian(100, 10) x 50", "gaussian(10) x 50", 1e-3),
        ("poisson(0.01, discrete_gaussian(100, 10))", "poisson(0.01, gaussian(10))", 1e-3),
        ("poisson(0.01, discrete_gaussian(100, 10)) x 1000", "poisson(0.01, gaussian(10)) x 1000", 1e-3),
        ("discrete_gaussian(40, 5) x 3", "gaussian(8) x 3", 1e-3),
        ("discrete_gaussian(3000, 1000) x 10", "gaussian(3) x 10", 0.12),
    ] {
        let (integer, real) = (tightest(text, 1e-6), tightest(gaussian, 1e-6));
        assert!(integer >= real * (1.0 - 1e-3) && integer < real * (1.0 + room), "{text}: {integer} {real}");
    }
}

/// A search relies on it: more noise never costs more.
#[test]
fn more_integer_noise_never_costs_more() {
    for (sensitivity, relation) in
        [(5.0, Relation::ZeroOut), (6.0, Relation::ZeroOut), (2.0, Relation::ReplaceOne), (3.0, Relation::ReplaceOne)]
    {
        let mut last = f64::INFINITY;
        for i in 0..60 {
            let sigma = 2.0 * 1.08f64.powi(i);
            let event = Event::DiscreteGaussian { sigma, sensitivity, dimension: None };
            let now = epsilon(&event, relation, 1e-6).unwrap().upper;
            assert!(now <= last * (1.0 + 1e-9), "{sensitivity} under {relation} at {sigma}: {now} after {last}");
            last = now;
        }
    }
    let budget = dpopt_event::Budget::new(0.5, 1e-6).unwrap();
    let counts = |sigma| Event::DiscreteGaussian { sigma, sensitivity: 5.0, dimension: None };
    let (sigma, _) =
        dpopt_privacy::calibrate::noise(counts, Neighbours::of_records(Relation::ZeroOut).within(budget)).unwrap();
    let (real, _) = dpopt_privacy::calibrate::noise(
        |z| Event::gaussian(z / 5.0),
        Neighbours::of_records(Relation::ZeroOut).within(budget),
    )
    .unwrap();
    assert!(sigma < real * 1.001, "{sigma} {real}");
}

/// What the automatic choice says is the least of all accountants' answers, as a table of all of them shows it.
#[test]
fn no_accountant_is_below_the_automatic_choice() {
    for text in [
        "zcdp(0.001) x 1000",
        "zcdp(0.3, 0.1) + laplace(2) x 5",
        "rdp(2: 0.02, 8: 0.08, 32: 0.32) x 20 + gaussian(3)",
        "discrete_gaussian(6, 4) x 5",
        "poisson(0.05, zcdp(0.02)) x 200",
        "poisson(0.01, gaussian(1)) x 1000",
        "poisson(0.3, gaussian(0.4)) x 3",
        "poisson(0.001, laplace(0.5)) x 10000",
        "laplace(0.1) x 3",
        "exponential(0.1) x 500",
        "pure(0.1) x 40",
        "approx(0.1, 1e-9) x 40",
        "randomized_response(0.5, 4) x 30",
        "mixture(2, 0: 0.5, 1: 0.3, 2: 0.2) x 50",
        "chi_square(50, 0.2) x 20",
        "subset(1000, 50, gaussian(4)) x 100",
        "users(3, poisson(0.01, gaussian(2)) x 100)",
        "users(4, zcdp(0.01) x 5)",
        "objective(4, 2) + gaussian(3000)",
        "best_of(5, 1, laplace(10))",
        "best_of(5, inf, gaussian(5))",
        "profile(0: 0.3, 1: 0.01, 2: 1e-7) x 10",
        "parallel(gaussian(2), laplace(1)) x 1",
        "approximate(1e-12, poisson(0.01, zcdp(0.1)) x 10)",
    ] {
        for at in [1e-2, 1e-6, 1e-10] {
            let (event, relation) = (event(text), Relation::ZeroOut);
            let Ok(best) = epsilon(&event, relation, at) else { continue };
            for (name, bound) in compare(&event, relation, at) {
                let Ok(bound) = bound else { continue };
                assert!(best.upper <= bound.upper, "{text} at {at:e}: {name} {} below {best:?}", bound.upper);
            }
            let best = delta(&event, relation, 1.0).unwrap();
            for accountant in all() {
                let Ok(bound) = accountant.delta(&event, relation, 1.0) else { continue };
                assert!(
                    best.upper <= bound.upper * (1.0 + 1e-9),
                    "{text}: {} {} below {best:?}",
                    accountant.name(),
                    bound.upper
                );
            }
        }
    }
}

/// At orders near 1 the total variation bounds δ by a plateau: the best order is looked for beside it.
#[test]
fn the_plateau_of_the_total_variation_is_no_minimum() {
    for (rho, at, ratio) in [(0.001, 1e-6, 1.0), (1e-7, 1e-9, 1.0), (1e-4, 1e-3, 1.0)] {
        let stated = Event::Zcdp { rho, xi: 0.0 };
        let lattice = Pld::default().epsilon(&stated, Relation::ZeroOut, at).unwrap().upper;
        let direct = zcdp::ZcdpAccountant.epsilon(&stated, Relation::ZeroOut, at).unwrap().upper;
        let renyi = rdp::RdpAccountant.epsilon(&stated, Relation::ZeroOut, at).unwrap().upper;
        assert!(lattice < 1.02 * direct * ratio && direct <= renyi * (1.0 + 1e-9), "{rho}: {lattice} {direct} {renyi}");
        let gaussian =
            gdp::GdpAccountant.epsilon(&Event::Gdp { mu: (2.0 * rho).sqrt() }, Relation::ZeroOut, at).unwrap();
        assert!(direct >= gaussian.upper && direct < 1.5 * gaussian.upper + 1e-3, "{rho}: {direct} {gaussian:?}");
    }
}

/// Every event that is accepted is answered, however deep it is nested.
#[test]
fn deep_nestings_are_refused_or_answered_in_bounded_time() {
    let nested =
        |depth: usize, open: &str, inside: &str| format!("{}{inside}{}", open.repeat(depth), ")".repeat(depth));
    let mut texts = vec![];
    for depth in [2, 4, 12] {
        for inside in ["zcdp(0.001) + gaussian(9)", "poisson(0.01, gaussian(1)) x 10"] {
            for open in [
                "best_of(3, 1, ",
                "best_of(3, inf, ",
                "users(3, ",
                "users(100000, ",
                "parallel(",
                "users(2, parallel(",
                "best_of(2, 0, users(2, ",
            ] {
                texts.push(format!(
                    "{}{}",
                    nested(depth, open, inside),
                    ")".repeat(depth * (open.matches('(').count() - 1))
                ));
            }
        }
        for open in ["poisson(0.5, 2 x ", "poisson(0.5, ", "subset(64, 64, ", "best_of(2, 1, poisson(0.5, 2 x "] {
            let inside = "zcdp(0.001)";
            texts.push(format!(
                "{}{}",
                nested(depth, open, inside),
                ")".repeat(depth * (open.matches('(').count() - 1))
            ));
        }
        // m of n, of which a part again, twice each
        let sizes = |i: usize| 1u64 << (50 - i);
        let open: String = (0..depth).map(|i| format!("subset({}, {}, 2 x ", sizes(i), sizes(i + 1))).collect();
        texts.push(format!("{open}rdp(2: 0.001, 1024: 0.5){}", ")".repeat(depth)));
    }
    let (mut answered, mut refused) = (0, 0);
    for text in texts {
        let Ok(event) = parse(&text, None) else { continue };
        let clock = Instant::now();
        match event.check(Relation::ZeroOut) {
            Ok(()) => {
                for (_, bound) in compare(&event, Relation::ZeroOut, 1e-6) {
                    answered += usize::from(bound.is_ok());
                }
            }
            Err(_) => refused += 1,
        }
        let seconds = clock.elapsed().as_secs_f64();
        // a second on an idle machine; a power of the depth would take hours on any
        assert!(seconds < 600.0, "{text}: {seconds} s");
    }
    assert!(answered > 30 && refused > 10, "{answered} {refused}");
}

/// Numbers that have no mechanism behind them: no protection, an empty sample, δ = 1.
#[test]
fn the_ends_of_the_scale() {
    for text in [
        "non_private()",
        "gaussian(1) + non_private()",
        "poisson(0.5, non_private())",
        "non_private() x 3 + laplace(1)",
    ] {
        let bound = epsilon(&event(text), Relation::ZeroOut, 1e-6).unwrap();
        assert_eq!((bound.upper, bound.accountant.as_str()), (f64::INFINITY, "none"), "{text}");
        assert_eq!(delta(&event(text), Relation::ZeroOut, 5.0).unwrap().upper, 1.0);
        let budget = dpopt_event::Budget::new(100.0, 0.5).unwrap();
        assert!(
            dpopt_privacy::certify(&event(text), Neighbours::of_records(Relation::ZeroOut).within(budget)).is_err()
        );
        let written = serde_json::to_string(&bound).unwrap();
        assert!(written.contains(r#""upper":"inf""#), "{written}");
        assert_eq!(serde_json::from_str::<super::Bound>(&written).unwrap(), bound);
    }
    assert_eq!(epsilon(&event("poisson(0.1, gaussian(1)) x 10"), Relation::ZeroOut, 1.0).unwrap().upper, 0.0);
    assert!(epsilon(&event("gaussian(1)"), Relation::ZeroOut, 1.1).is_err());
    for text in ["subset(10, 0, laplace(1))", "draws(10, 0, gaussian(0.1)) x 5"] {
        assert_eq!(epsilon(&event(text), Relation::ZeroOut, 0.0).unwrap().upper, 0.0, "{text}");
    }
    assert!(epsilon(&Event::Unsupported, Relation::ZeroOut, 1e-6).is_err());
}
