use super::*;

/// An accountant that returns the given δ, and ε if there is one.
struct Says(f64, Option<f64>);

impl Accountant for Says {
    fn name(&self) -> &'static str {
        "pld"
    }
    fn supports(&self, _: &Event, _: Relation) -> Result<(), AccountingError> {
        Ok(())
    }
    fn claim_epsilon(&self, _: &Event, _: Relation, _: f64) -> Result<Bound, AccountingError> {
        Ok(Bound { lower: self.1, ..Bound::new(self.0, "pld") })
    }
    fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
        self.claim_epsilon(event, relation, epsilon)
    }
}

fn refused(answer: Result<Bound, AccountingError>) -> bool {
    matches!(answer, Err(AccountingError::Contradicted { .. }))
}

#[test]
fn an_answer_below_one_part_alone_is_an_error() {
    let relation = Relation::ZeroOut;
    let event = Event::composed(vec![Event::gaussian(1.0), Event::laplace(1.0).self_composed(3)]);
    // ε of the Gaussian alone is 4.886554 at δ = 1e-6, its δ at ε = 1 is .1269367
    assert!(refused(Says(4.8865, None).epsilon(&event, relation, 1e-6)));
    assert!(Says(4.8866, None).epsilon(&event, relation, 1e-6).is_ok());
    assert!(refused(Says(0.1269, None).delta(&event, relation, 1.0)));
    assert!(Says(0.127, None).delta(&event, relation, 1.0).is_ok_and(|b| b.lower.unwrap() > 0.12693));
    for nonsense in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(refused(Says(nonsense, None).epsilon(&event, relation, 1e-6)), "{nonsense}");
        assert!(nonsense > 0.0 || refused(Says(nonsense, None).delta(&event, relation, 1.0)), "{nonsense}");
    }
    assert!(refused(Says(5.0, Some(5.1)).epsilon(&event, relation, 1e-6)));
    assert!(refused(Says(5.0, Some(f64::NAN)).epsilon(&event, relation, 1e-6)));
}

/// No part alone shows it, but counting losses above 0 over all draws does.
#[test]
fn many_draws_are_counted() {
    let event = Event::gaussian(10.0).poisson_sampled(0.1).self_composed(1_000_000_000);
    assert!(refused(Says(1.0, None).epsilon(&event, Relation::ZeroOut, 1e-6)));
    assert!(refused(Says(1e-300, None).delta(&event, Relation::ZeroOut, 1.0)));
    // a test of many draws is not better than all that they tell
    let laplace = Event::laplace(10.0).self_composed(1000);
    let (floor, upper) =
        (delta_floor(&laplace, Relation::ZeroOut, 0.5), PureAccountant.claim_delta(&laplace, Relation::ZeroOut, 0.5));
    // one of them alone has a loss of at most .1
    assert!(floor > 0.0 && floor < upper.unwrap().upper, "{floor}");
}

#[test]
fn zero_belongs_to_pure_privacy() {
    let relation = Relation::ZeroOut;
    let (gaussian, laplace) = (Event::gaussian(100.0), Event::laplace(1.0));
    assert!(matches!(Says(50.0, None).epsilon(&gaussian, relation, 0.0), Err(AccountingError::Unreachable(_))));
    assert!(matches!(Says(50.0, None).epsilon(&gaussian, relation, 1e-310), Err(AccountingError::Unreachable(_))));
    assert!(Says(1.1, None).epsilon(&laplace, relation, 0.0).is_ok());
    assert!(refused(Says(0.9, None).epsilon(&laplace, relation, 0.0)));
    assert_eq!(Says(0.0, None).delta(&gaussian, relation, 1e5).unwrap().upper, f64::MIN_POSITIVE);
    assert_eq!(Says(0.0, None).delta(&laplace, relation, 2.0).unwrap().upper, 0.0);
    // the sampler's error is not pure
    assert_eq!(
        Says(0.0, None).delta(&laplace.clone().approximate(1e-310), relation, 2.0).unwrap().upper,
        f64::MIN_POSITIVE
    );
    let minus = Says(-0.0, Some(-0.0)).delta(&laplace, relation, 2.0).unwrap();
    assert!(minus.upper.is_sign_positive() && minus.lower.unwrap().is_sign_positive());
}

#[test]
fn nobody_undercuts_what_another_one_shows() {
    let mut answers = [
        Ok(Bound::new(5.915, "rdp")),
        Ok(Bound { lower: Some(4.0), ..Bound::new(6.5, "pld") }),
        Ok(Bound::new(3.9, "zcdp")),
        Err(AccountingError::Parameter("no".into())),
    ];
    reconcile(&mut answers);
    assert_eq!(answers[0].as_ref().unwrap().lower, Some(4.0));
    assert_eq!(answers[1].as_ref().unwrap().upper, 6.5);
    assert!(refused(answers[2].clone()) && answers[3].is_err());
}
