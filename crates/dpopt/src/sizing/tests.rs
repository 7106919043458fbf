use super::*;
use dpopt_objective::loss::Loss;

const TWO: Scale = Scale::Points { classes: 2 };
const EUROS: Scale = Scale::Error { half_range: 500.0, known: true };

/// A learning curve: excess risk falls with ε and with the number of rows.
fn curve(epsilon: f64, rows: u64) -> Result<Option<f64>, Refusal> {
    Ok(Some(300.0 / (epsilon * rows as f64 + 600.0) + 40.0 / rows as f64))
}

fn found(goal: Goal, scale: Scale, epsilon: Option<f64>, rows: Option<u64>) -> Sizing {
    size(&SizingRequest { goal, scale, epsilon, rows }, curve).unwrap()
}

fn refused(goal: Goal, scale: Scale) -> String {
    size(&SizingRequest { goal, scale, epsilon: None, rows: Some(1000) }, curve).unwrap_err().to_string()
}

fn lost(goal: Goal, scale: Scale, epsilon: f64, rows: u64) -> f64 {
    goal.lost(&scale, curve(epsilon, rows).unwrap().unwrap()).middle
}

#[test]
fn what_is_lost_grows_with_the_excess_within_its_band() {
    let scales = (2..=40).map(|classes| Scale::Points { classes }).chain([EUROS]);
    let best = [Goal::LossPoints { loss_points: 1.0 }, Goal::Accuracy { accuracy: 0.8, best: 0.9 }];
    for (scale, goal) in scales.flat_map(|scale| best.map(|goal| (scale, goal))) {
        let ceiling = goal.most_lost(&scale);
        let all: Vec<Estimate> = (0..=400).map(|k| goal.lost(&scale, 1e-6 * 1.05f64.powi(k))).collect();
        for pair in all.windows(2) {
            assert!(pair[0].low <= pair[1].low && pair[0].middle <= pair[1].middle && pair[0].high <= pair[1].high);
        }
        for one in &all {
            assert!(
                0.0 <= one.low && one.low <= one.middle && one.middle <= one.high && one.high <= ceiling,
                "{one:?}"
            );
        }
        // without excess nothing is lost, and with a very large one all of it
        assert!(goal.lost(&scale, 0.0).middle < 1e-9 && goal.lost(&scale, 1e3).middle == ceiling);
    }
}

#[test]
fn the_least_epsilon_reaches_the_goal_and_a_little_less_does_not() {
    for rows in [2_000, 20_000, 200_000] {
        for loss_points in [0.5, 1.0, 3.0, 8.0] {
            let goal = Goal::LossPoints { loss_points };
            let answer = found(goal, TWO, None, Some(rows));
            let Some(epsilon) = answer.epsilon else { continue };
            assert!(lost(goal, TWO, epsilon.value, rows) <= loss_points);
            if epsilon.value > EPSILONS[0] {
                assert!(lost(goal, TWO, 0.98 * epsilon.value, rows) > loss_points, "{rows} {loss_points} {epsilon:?}");
            }
            assert!(
                epsilon.low.is_none_or(|low| low <= epsilon.value)
                    && epsilon.high.is_none_or(|high| high >= epsilon.value)
            );
            assert!(answer.plans <= MAX_PLANS && answer.rows.is_none() && answer.at.epsilon == epsilon.value);
        }
    }
}

#[test]
fn the_least_number_of_rows_reaches_the_goal_and_a_little_less_does_not() {
    for epsilon in [0.1, 1.0, 4.0] {
        for added_error in [10.0, 50.0, 120.0] {
            let goal = Goal::AddedError { added_error };
            let answer = found(goal, EUROS, Some(epsilon), None);
            let rows = answer.rows.expect("enough rows exist").value;
            assert!(lost(goal, EUROS, epsilon, rows as u64) <= added_error);
            let fewer = (0.98 * rows) as u64;
            assert!(rows == 50.0 || lost(goal, EUROS, epsilon, fewer) > added_error, "{epsilon} {added_error} {rows}");
            assert!(answer.epsilon.is_none() && answer.plans <= MAX_PLANS);
            assert!(answer.at.rows == rows as u64 && answer.over_rows.iter().any(|point| point.rows == rows as u64));
        }
    }
}

#[test]
fn more_rows_need_less_epsilon_and_a_higher_goal_needs_more() {
    let least = |accuracy: f64, rows| {
        let goal = Goal::Accuracy { accuracy, best: 0.86 };
        found(goal, TWO, None, Some(rows)).epsilon.map_or(f64::INFINITY, |least| least.value)
    };
    assert!(least(0.8, 5_000) > least(0.8, 20_000) && least(0.8, 20_000) > least(0.8, 80_000));
    assert!(least(0.85, 20_000) > least(0.84, 20_000) && least(0.84, 20_000) > least(0.8, 20_000));
    // both ways of saying the same
    let points = found(Goal::LossPoints { loss_points: 6.0 }, TWO, Some(1.0), Some(20_000));
    assert_eq!(points.over_epsilon.len(), EPSILONS.len());
    let given = points.at;
    assert_eq!((given.epsilon, given.rows), (1.0, 20_000));
    assert!(points.epsilon.is_some() && points.rows.is_some());
    for curve in [&points.over_epsilon, &points.over_rows] {
        assert!(curve.windows(2).all(|pair| pair[0].lost.middle >= pair[1].lost.middle), "{curve:?}");
    }
}

/// A plan may take another method at a larger ε, with a worse prediction: an answer is beyond the last of such places.
#[test]
fn every_larger_epsilon_reaches_the_goal_too() {
    let bumpy = |epsilon: f64, rows: u64| {
        let excess = 30.0 / (epsilon * rows as f64);
        Ok::<_, Refusal>(Some(if (0.9..2.5).contains(&epsilon) { 3.0 * excess } else { excess }))
    };
    let request =
        SizingRequest { goal: Goal::LossPoints { loss_points: 0.4 }, scale: TWO, epsilon: None, rows: Some(10_000) };
    let answer = size(&request, bumpy).unwrap();
    let least = answer.epsilon.unwrap().value;
    let reaches = |epsilon: f64| {
        let excess = bumpy(epsilon, 10_000).unwrap().unwrap();
        request.goal.lost(&TWO, excess).middle <= 0.4
    };
    assert!(EPSILONS.into_iter().filter(|epsilon| *epsilon >= least).all(reaches) && reaches(least));
}

#[test]
fn goals_out_of_reach_are_reported() {
    let hopeless = |_: f64, _: u64| Ok::<_, Refusal>(Some(0.5));
    let goal = Goal::Accuracy { accuracy: 0.85, best: 0.86 };
    let answer = size(&SizingRequest { goal, scale: TWO, epsilon: None, rows: Some(100) }, hopeless).unwrap();
    assert!(answer.epsilon.is_none() && answer.at.epsilon == 20.0, "{answer:?}");
    assert!(answer.to_string().contains("none up to 20 reaches it with 100 rows: accuracy "), "{answer}");
    let answer = size(&SizingRequest { goal, scale: TWO, epsilon: Some(1.0), rows: None }, hopeless).unwrap();
    assert!(
        answer.rows.is_none() && answer.to_string().contains("no number up to 1,000,000,000 reaches it"),
        "{answer}"
    );
    // where no method applies, all is lost
    let nothing = |_: f64, _: u64| Ok::<_, Refusal>(None);
    let answer = size(&SizingRequest { goal, scale: TWO, epsilon: Some(1.0), rows: Some(100) }, nothing).unwrap();
    assert!(answer.epsilon.is_none() && answer.at.excess_risk.is_none() && (answer.at.lost.low - 36.0).abs() < 1e-9);
}

#[test]
fn absurd_goals_are_refused_with_a_way_out() {
    let accuracy = |accuracy, best| refused(Goal::Accuracy { accuracy, best }, TWO);
    for (message, part) in [
        (accuracy(1.2, 0.9), "`accuracy` is 1.2; give a share above 0.5 (a guess among 2 classes) and below `best`"),
        (accuracy(80.0, 0.9), "`accuracy` is 80; give a share"),
        (accuracy(f64::NAN, 0.9), "`accuracy` is NaN; give a share"),
        (accuracy(-0.3, 0.9), "`accuracy` is -0.3; give a share"),
        (accuracy(0.5, 0.9), "`accuracy` is 0.5; give a share above 0.5"),
        (accuracy(0.8, 86.0), "`best` is 86; give a share above 0.5 (a guess among 2 classes) and at most 1"),
        (accuracy(0.8, 0.3), "`best` is 0.3; "),
        (
            accuracy(0.9, 0.86),
            "`accuracy` is 0.9, above 0.86, what a model without privacy reaches (`best`): no epsilon reaches it; lower `accuracy`",
        ),
        (accuracy(0.86, 0.86), "all of 0.86, and privacy always costs something"),
        (
            refused(Goal::LossPoints { loss_points: 0.0 }, TWO),
            "`loss_points` is 0; give points of accuracy between 0 and 50",
        ),
        (refused(Goal::LossPoints { loss_points: 50.0 }, TWO), "a guess among 2 classes loses no more than 50"),
        (refused(Goal::LossPoints { loss_points: f64::INFINITY }, TWO), "`loss_points` is inf"),
        (
            refused(Goal::AddedError { added_error: 3.0 }, TWO),
            "`added_error` is for numbers, and the target has classes; give `accuracy` = A, or give `loss_points` = P",
        ),
        (
            refused(Goal::Accuracy { accuracy: 0.8, best: 0.9 }, EUROS),
            "`accuracy` is for classes, and the target is a number",
        ),
        (
            refused(Goal::Error { error: 80.0, best: 100.0 }, EUROS),
            "`error` is 80, not above 100, what a model without privacy reaches (`best`): no epsilon reaches it; raise `error`",
        ),
        (
            refused(Goal::Error { error: -1.0, best: 100.0 }, EUROS),
            "`error` is -1; give a root-mean-square error above 0 and below 500",
        ),
        (
            refused(Goal::AddedError { added_error: 900.0 }, EUROS),
            "`added_error` is 900; give a root-mean-square error above 0 and below 500",
        ),
    ] {
        assert!(message.contains(part), "{message}");
    }
    let third = refused(Goal::Accuracy { accuracy: 0.3, best: 0.9 }, Scale::Points { classes: 3 });
    assert!(third.contains("above 0.333 (a guess among 3 classes)"), "{third}");
}

#[test]
fn one_goal_is_said_with_what_it_needs() {
    let of = |said: [Option<f64>; 5]| Goal::of(said[0], said[1], said[2], said[3], said[4]);
    assert_eq!(of([None; 5]), Ok(None));
    assert_eq!(of([Some(0.8), None, None, None, Some(0.9)]), Ok(Some(Goal::Accuracy { accuracy: 0.8, best: 0.9 })));
    assert_eq!(of([None, None, None, Some(3.0), None]), Ok(Some(Goal::AddedError { added_error: 3.0 })));
    for (said, part) in [
        ([Some(0.8), None, None, None, None], "`accuracy` depends on the records, which no plan reads"),
        ([None, None, Some(3.0), None, None], "give `best` = B, or give `added_error` = P"),
        (
            [Some(0.8), Some(2.0), None, None, None],
            "`accuracy` and `loss_points` are two goals; leave out `loss_points`",
        ),
        ([None, None, None, None, Some(0.9)], "`best` belongs to a goal that depends on the records"),
        ([None, Some(2.0), None, None, Some(0.9)], "leave out `best`"),
    ] {
        let message = of(said).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    let hinge = Scale::of(&Loss::Hinge, None).unwrap_err().to_string();
    assert!(hinge.contains("was measured for the logistic and the squared loss only"), "{hinge}");
}

#[test]
fn an_answer_is_a_picture_and_two_tables() {
    let error = Goal::Error { error: 130.0, best: 120.0 };
    for (goal, scale) in [(Goal::LossPoints { loss_points: 2.0 }, TWO), (error, EUROS)] {
        let answer = found(goal, scale, Some(1.0), Some(30_000));
        let svg = answer.svg().unwrap();
        assert!(roxmltree::Document::parse(&svg).is_ok() && svg.contains("goal") && !svg.contains("NaN"));
        let text = answer.to_string();
        let bars = text.lines().filter(|line| line.contains('─')).count();
        assert_eq!(bars, answer.over_epsilon.len() + answer.over_rows.len(), "{text}");
        assert!(text.contains("No record was read") && text.contains("no guarantee"), "{text}");
    }
}

#[test]
fn numbers_are_rounded_to_the_safe_side() {
    for (x, up) in [(0.7131, 0.714), (1.0, 1.0), (123.4, 124.0), (0.01, 0.01), (9.991, 10.0)] {
        assert_eq!(three_digits_up(x), up);
    }
    assert_eq!((two_digits(0.0344), two_digits(187.0)), (0.034, 190.0));
    assert_eq!(row_grid().len(), 23);
    assert_eq!(around(300), [50, 100, 200, 300, 500, 1000, 2000, 5000]);
}
