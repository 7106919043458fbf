//! Filters against closed forms, and what they must refuse.

use super::*;
use proptest::prelude::*;

fn filter(rule: Rule, epsilon: f64, delta: f64) -> Filter {
    Filter::new(rule, Relation::ZeroOut, Budget::new(epsilon, delta).unwrap()).unwrap()
}

#[test]
fn one_gaussian_uses_the_whole_budget() {
    // noise multiplier of (1, 1e-5), and a hair more for the reserved share of δ
    let mut gdp = filter(Rule::Gdp, 1.0, 1e-5);
    assert!(gdp.clone().charge(&Event::gaussian(3.7306)).is_err());
    gdp.charge(&Event::gaussian(3.7312)).unwrap();
    assert!(gdp.spent_share() > 0.999 && gdp.spent_epsilon() > 0.999);
    assert!(gdp.charge(&Event::gaussian(50.0)).is_err());
    // ρ = ½ is ε = 5.2215 at 1e-6 by the conversion
    for rule in [Rule::Zcdp, Rule::Renyi] {
        let mut filter = filter(rule, 5.222, 1e-6);
        assert!(filter.clone().charge(&Event::gaussian(0.999)).is_err());
        filter.charge(&Event::gaussian(1.001)).unwrap();
        assert!(filter.spent_share() > 0.99);
        assert!(filter.charge(&Event::gaussian(5.0)).is_err());
    }
}

#[test]
fn many_small_charges_stop_in_time() {
    for rule in [Rule::Renyi, Rule::Zcdp, Rule::Gdp] {
        let mut filter = filter(rule, 2.0, 1e-6);
        let event = Event::gaussian(40.0);
        let mut count = 0;
        while filter.charge(&event).is_ok() {
            count += 1;
        }
        let all = event.self_composed(count);
        let truth = accountant::epsilon(&all, Relation::ZeroOut, 1e-6).unwrap().upper;
        assert!(truth <= 2.0 && truth > 1.7, "{rule}: {count} charges cost {truth}");
        let one_more = Event::gaussian(40.0).self_composed(count + 1);
        if rule == Rule::Gdp {
            assert!(accountant::epsilon(&one_more, Relation::ZeroOut, 0.999e-6).unwrap().upper > 2.0);
        }
    }
}

#[test]
fn set_aside_delta_has_its_own_limit() {
    let mut filter = filter(Rule::Renyi, 1.0, 1e-5);
    // reserved: 1e-8
    let event = Event::ApproxDp { epsilon: 0.01, delta: 4e-9 };
    filter.charge(&event).unwrap();
    filter.charge(&event).unwrap();
    assert!(matches!(filter.charge(&event), Err(Refusal::DeltaExceeded { .. })));
    let mut filter = self::filter(Rule::Renyi, 1.0, 1e-5);
    // (1 + e)·τ must stay below it too
    assert!(filter.charge(&Event::gaussian(100.0).approximate(1e-8)).is_err());
    filter.charge(&Event::gaussian(100.0).approximate(1e-9)).unwrap();
}

#[test]
fn unsound_filters_do_not_exist() {
    let mut renyi = filter(Rule::Renyi, 1.0, 1e-5);
    let curve = Event::Rdp { orders: vec![2.0, 3.0], divergences: vec![1e-3, 1e-3] };
    // "some order has room": a curve that is finite elsewhere only is refused at the fixed order
    assert!(renyi.order().unwrap() > 3.0);
    assert!(matches!(renyi.charge(&curve), Err(Refusal::Unsupported { .. })));
    // sampled Gaussians are neither GDP nor zCDP
    let sampled = Event::gaussian(4.0).poisson_sampled(0.001);
    assert!(filter(Rule::Gdp, 1.0, 1e-5).charge(&sampled).is_err());
    assert!(filter(Rule::Zcdp, 1.0, 1e-5).charge(&sampled).is_err());
    renyi.charge(&sampled).unwrap();
    assert!(Filter::new(Rule::Renyi, Relation::ZeroOut, Budget::new(1.0, 0.0).unwrap()).is_err());
    assert!(renyi.fits(Price { amount: f64::NAN, delta: 0.0 }).is_err());
}

#[test]
fn basic_sums_certificates() {
    let mut basic = filter(Rule::Basic, 1.0, 1e-5);
    let event = Event::gaussian(20.0);
    let price = basic.price(&event, 2.5e-6).unwrap();
    assert!((price.amount - accountant::epsilon(&event, Relation::ZeroOut, 2.5e-6).unwrap().upper).abs() < 1e-12);
    for _ in 0..3 {
        basic.spend(price).unwrap();
    }
    assert!((basic.spent_epsilon() - 3.0 * price.amount).abs() < 1e-12);
    // the fourth δ of 2.5e-6 would be just over after rounding up, a fifth is certainly
    let _ = basic.spend(price);
    assert!(basic.spend(price).is_err());
    assert!(basic.charge(&event).is_err());
}

#[test]
fn the_odometer_climbs() {
    let mut odometer = Odometer::new(Rule::Renyi, Relation::ZeroOut, &[0.5, 1.0, 2.0], 1e-5).unwrap();
    let event = Event::gaussian(20.0);
    let mut readings = vec![];
    while odometer.charge(&event).is_ok() {
        readings.push(odometer.reading().unwrap());
    }
    assert!(readings.windows(2).all(|w| w[0] <= w[1]));
    assert_eq!((readings.first(), readings.last()), (Some(&0.5), Some(&2.0)));
    assert!(Odometer::new(Rule::Renyi, Relation::ZeroOut, &[1.0, 0.5], 1e-5).is_err());
    assert!(Odometer::new(Rule::Basic, Relation::ZeroOut, &[1.0], 1e-5).is_err());
}

#[test]
fn the_whole_delta_may_be_asked_for_at_once() {
    let mut filter = filter(Rule::Basic, 3.0, 1e-6);
    let price = filter.price(&Event::laplace(1.0), 1e-6).unwrap();
    assert_eq!(price.delta, 1e-6);
    filter.spend(price).unwrap();
    assert!(filter.spend(price).is_err(), "and then nothing is left");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Whatever is charged, the exact ε of the realised history stays within the total (non-adaptive histories are
    /// a special case of adaptive ones).
    #[test]
    fn accepted_histories_fit(sigmas in prop::collection::vec(1.0f64..200.0, 1..40), rule in 0usize..3) {
        let mut filter = filter([Rule::Renyi, Rule::Zcdp, Rule::Gdp][rule], 3.0, 1e-6);
        let mut accepted = vec![];
        for sigma in sigmas {
            let event = Event::gaussian(sigma);
            if filter.charge(&event).is_ok() {
                accepted.push(event);
            }
        }
        let truth = accountant::epsilon(&Event::composed(accepted), Relation::ZeroOut, 1e-6).unwrap().upper;
        prop_assert!(truth <= 3.0 && filter.spent_epsilon() >= truth * (1.0 - 1e-3) - 1e-6);
    }
}
