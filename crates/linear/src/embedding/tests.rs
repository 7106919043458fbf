//! Embedding models: one law whichever way noise is drawn, published numbers of private row selection, learning.

use super::*;
use crate::choices::Moments;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive, joint_multiplier};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::loss::Loss;
use dpopt_objective::loss::embedding::{Embedding, Towers};
use dpopt_objective::records::{Examples, Rows};
use dpopt_optimize::{Algorithm, Run};
use dpopt_privacy::{Event, Neighbours, Relation, accountant};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

/// Users and items have hidden signs, the target is their product: no linear model of both can tell it.
fn likes(n: usize, users: u32, items: u32) -> (Examples, Embedding) {
    let mut stream = NoiseSource::insecure(7).stream(Purpose::Audit, 0);
    let mut rows = Rows::new((1 + users + items) as usize);
    let mut targets = Vec::new();
    let third = (1.0f64 / 3.0).sqrt() as f32;
    for _ in 0..n {
        let (u, i) = (stream.below(u64::from(users)) as u32, stream.below(u64::from(items)) as u32);
        rows.push_clipped(&mut [(0, third), (1 + u, third), (1 + users + i, third)], 1.0);
        targets.push(if (u + i) % 2 == 0 { 1.0 } else { -1.0 });
    }
    let towers = Towers { users: vec![(1, 1 + users)], items: vec![(1 + users, 1 + users + items)] };
    (Examples { rows, targets }, Embedding { dimension: 4, towers: Some(towers), seed: 1 })
}

/// The features of the row decide the class, two of three.
fn words(n: usize, d: u32, classes: u32) -> (Examples, Embedding) {
    let mut stream = NoiseSource::insecure(8).stream(Purpose::Audit, 0);
    let mut rows = Rows::new(d as usize);
    let mut targets = Vec::new();
    for _ in 0..n {
        let class = stream.below(u64::from(classes)) as u32;
        let mut word = |own: bool| {
            let free = d / classes;
            let k = stream.below(u64::from(free)) as u32;
            if own { (k * classes + class, 0.57) } else { (stream.below(u64::from(d)) as u32, 0.57) }
        };
        let mut row = [word(true), word(true), word(false)];
        rows.push_clipped(&mut row, 1.0);
        targets.push(if classes == 2 { 2.0 * class as f32 - 1.0 } else { class as f32 });
    }
    (Examples { rows, targets }, Embedding { dimension: 3, towers: None, seed: 1 })
}

fn problem(examples: &Examples, loss: Loss) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: examples.rows.len() as u64,
        features: examples.rows.columns(),
        nonzeros: 3,
        row_norm: 1.0,
        loss,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

fn sgd(model: &Embedding, steps: u64, rate: f64) -> EmbeddingSgd {
    let descent = DescentOptions { steps: Some(steps), learning_rate: Some(rate), ..Default::default() };
    EmbeddingSgd {
        model: model.clone(),
        selection: None,
        sampling_probability: Some(0.3),
        lazy: None,
        update: None,
        adaptive: Default::default(),
        descent,
    }
}

fn fit(sgd: &EmbeddingSgd, problem: &Problem, examples: &Examples, budget: (f64, f64), seed: u64) -> Vec<f64> {
    fits(sgd, problem, examples, budget, std::iter::once(seed)).remove(0)
}

/// Plans once and runs with each seed.
fn fits(
    sgd: &EmbeddingSgd,
    problem: &Problem,
    examples: &Examples,
    budget: (f64, f64),
    seeds: impl Iterator<Item = u64>,
) -> Vec<Vec<f64>> {
    let plan = sgd.plan(problem, Budget::new(budget.0, budget.1).unwrap()).unwrap();
    let sensitive = Sensitive::new(examples.clone());
    let run = |seed| {
        let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
        let run = Run::new(problem, &sensitive, &mut curator, &Silent).unwrap();
        let answer = sgd.run(&plan, run).unwrap().into_inner().weights;
        assert!(curator.is_spent());
        assert_eq!(answer.len(), sgd.model.weights(problem.features, problem.loss.outputs()));
        answer
    };
    seeds.map(run).collect()
}

fn accuracy(model: &Embedding, weights: &[f64], examples: &Examples, loss: Loss) -> f64 {
    let right = (0..examples.rows.len()).filter(|&i| {
        let (columns, values) = examples.rows.row(i);
        let scores = model.scores(weights, examples.rows.columns(), loss.outputs(), columns, values);
        match scores[..] {
            [score] => score * f64::from(examples.targets[i]) > 0.0,
            _ => {
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                scores.iter().position(|s| *s == largest) == Some(examples.targets[i] as usize)
            }
        }
    });
    right.count() as f64 / examples.rows.len() as f64
}

#[test]
#[allow(clippy::approx_constant, reason = "reference values, written out")]
fn accounting_of_counts_and_gradients_has_the_published_numbers() {
    // q = .01, T = 1000, δ = 1e-6, σ₂ = 1
    let epsilon = |sigma: f64| {
        let event = Event::gaussian(sigma).poisson_sampled(0.01).self_composed(1000);
        accountant::epsilon(&event, Relation::ZeroOut, 1e-6).unwrap().upper
    };
    for (first, sigma, published) in
        [(1.0, 0.70711, 5.2875), (2.0, 0.89443, 2.7565), (4.0, 0.97014, 2.2719), (10.0, 0.99504, 2.1482)]
    {
        let joint = joint_multiplier([first, 1.0]);
        assert!((joint - sigma).abs() < 5e-6, "{joint}");
        assert!((epsilon(joint) - published).abs() < 1e-3, "{first}: {}", epsilon(joint));
    }
    // accounting the gradients' noise only would promise this
    assert!((epsilon(1.0) - 2.1253).abs() < 1e-3);
}

#[test]
fn plans_of_selection_calibrate_the_joint_event() {
    let (examples, model) = likes(4000, 30, 30);
    let problem = problem(&examples, LOGISTIC);
    let budget = Budget::new(4.0, 1e-6).unwrap();
    let all = EmbeddingSgd { lazy: Some(false), ..sgd(&model, 50, 0.5) };
    let dense = all.plan(&problem, budget).unwrap().schedule.descent.noise_multiplier;
    for ratio in [0.5, 1.0, 3.0, 10.0] {
        let selection = RowSelection { noise_ratio: Some(ratio), ..Default::default() };
        let chosen = EmbeddingSgd { selection: Some(selection), ..all.clone() };
        let plan = chosen.plan(&problem, budget).unwrap();
        let s = plan.schedule.selection.clone().unwrap();
        assert!(
            s.joint_noise_multiplier
                <= joint_multiplier([s.count_noise_multiplier, plan.schedule.descent.noise_multiplier])
        );
        assert!((s.joint_noise_multiplier / dense - 1.0).abs() < 2e-5, "{ratio}: {} {dense}", s.joint_noise_multiplier);
        assert!((s.count_noise_multiplier / plan.schedule.descent.noise_multiplier / ratio - 1.0).abs() < 1e-12);
        assert!(plan.summary.certificate.bound().upper <= 4.0);
    }
    // the default level: at least 4, at most one untouched feature per step
    for (features, level, expected) in [(10_000_000, 42, 0.76), (100_000, 35, 0.607), (61, 32, 0.00193)] {
        let wide = Problem { features, ..problem.clone() };
        let bag = Embedding { towers: None, ..model.clone() };
        let chosen = EmbeddingSgd { model: bag, selection: Some(RowSelection::default()), ..all.clone() };
        let s = chosen.plan(&wide, budget).unwrap().schedule.selection.unwrap();
        assert_eq!(s.level_eighths, level);
        assert!((s.expected_untouched / expected - 1.0).abs() < 0.02, "{}", s.expected_untouched);
    }
    let with = |descent| EmbeddingSgd { selection: Some(RowSelection::default()), descent, ..all.clone() };
    assert!(with(DescentOptions { momentum: Some(0.9), ..Default::default() }).plan(&problem, budget).is_err());
}

#[test]
fn lazily_and_densely_noised_embeddings_have_one_law() {
    let budget = (2.0, 1e-5);
    for (loss, (examples, model)) in
        [(LOGISTIC, likes(30, 2, 2)), (LOGISTIC, words(30, 4, 2)), (Loss::Softmax { classes: 3 }, words(30, 5, 3))]
    {
        let model = Embedding { dimension: 1, ..model };
        let problem = problem(&examples, loss);
        let samples = [true, false].map(|lazy| {
            let mut sgd = EmbeddingSgd { lazy: Some(lazy), ..sgd(&model, 4, 1.0) };
            sgd.descent.momentum = Some(0.5);
            fits(&sgd, &problem, &examples, budget, (0..1500).map(|seed| 2 * seed + u64::from(lazy)))
        });
        let width = samples[0][0].len();
        let moments = |sample: &[Vec<f64>], f: &dyn Fn(&[f64]) -> f64| {
            let n = sample.len() as f64;
            let mean = sample.iter().map(|x| f(x)).sum::<f64>() / n;
            (mean, sample.iter().map(|x| (f(x) - mean).powi(2)).sum::<f64>() / n / n)
        };
        for i in 0..width {
            for j in i..=width {
                // means and all second moments: at most 80 statistics a model, 6.2 standard deviations: false alarm 1.4e-7
                let f = |x: &[f64]| if j == width { x[i] } else { x[i] * x[j] };
                let ((a, va), (b, vb)) = (moments(&samples[0], &f), moments(&samples[1], &f));
                assert!((a - b).abs() < 6.2 * (va + vb).sqrt(), "{loss:?} {i} {j}: {a} {b}");
            }
        }
    }
}

#[test]
fn what_is_chosen_does_not_show_more_than_the_plan_says() {
    // every step is one release on one batch; rows that were never chosen stay where they started
    let (examples, model) = likes(2000, 20, 3000);
    let problem = problem(&examples, LOGISTIC);
    let selection = Some(RowSelection::default());
    let sgd = EmbeddingSgd { selection, ..sgd(&model, 20, 0.5) };
    let weights = fit(&sgd, &problem, &examples, (8.0, 1e-6), 3);
    let w = model.width();
    let unmoved = (0..problem.features)
        .filter(|j| (0..w).all(|i| weights[j * w + i] == model.start(j * w + i, problem.features, 1.0)))
        .count();
    // items have two thirds of a record each; users have a hundred, of which a batch holds thirty
    assert!(unmoved > 2900, "{unmoved}");
    assert!((1..21).any(|user| weights[user * w] != model.start(user * w, problem.features, 1.0)));
}

#[test]
fn towers_learn_what_no_linear_model_can_tell() {
    let (examples, model) = likes(20_000, 20, 20);
    let problem = problem(&examples, LOGISTIC);
    let budget = (8.0, 1e-6);
    for (name, sgd) in [
        ("lazy", EmbeddingSgd { lazy: Some(true), ..sgd(&model, 150, 12.0) }),
        ("dense", EmbeddingSgd { lazy: Some(false), ..sgd(&model, 150, 12.0) }),
        ("chosen embeddings", EmbeddingSgd { selection: Some(RowSelection::default()), ..sgd(&model, 150, 12.0) }),
    ] {
        let weights = fit(&sgd, &problem, &examples, budget, 5);
        let right = accuracy(&model, &weights, &examples, LOGISTIC);
        assert!(right > 0.9, "{name}: {right}");
    }
}

#[test]
fn sums_of_embeddings_learn_several_classes() {
    let (examples, model) = words(20_000, 60, 3);
    let model = Embedding { dimension: 8, ..model };
    let loss = Loss::Softmax { classes: 3 };
    let problem = problem(&examples, loss);
    let weights = fit(&EmbeddingSgd { lazy: Some(true), ..sgd(&model, 150, 4.0) }, &problem, &examples, (8.0, 1e-6), 5);
    let right = accuracy(&model, &weights, &examples, loss);
    assert!(right > 0.75, "{right}");
}

#[test]
fn adaptive_steps_learn_embeddings_in_balls_and_ellipsoids() {
    let (examples, model) = likes(20_000, 20, 20);
    let problem = problem(&examples, LOGISTIC);
    let adaptive = |moments| crate::choices::AdaptiveOptions { moments, ..Default::default() };
    let with = |update, moments, rate| {
        let base = sgd(&model, 150, rate);
        EmbeddingSgd { update: Some(update), adaptive: adaptive(moments), ..base }
    };
    for (update, moments, rate) in [
        (AdaptiveRule::Diagonal, None, 0.1),
        (AdaptiveRule::Diagonal, Some(Moments::Private), 0.1),
        (AdaptiveRule::Diagonal, Some(Moments::Running), 0.1),
        (AdaptiveRule::Scalar, None, 1.0),
        (AdaptiveRule::Adam, None, 0.02),
    ] {
        let weights = fit(&with(update, moments.clone(), rate), &problem, &examples, (8.0, 1e-6), 5);
        let right = accuracy(&model, &weights, &examples, LOGISTIC);
        println!("{update:?} {moments:?}: {right}");
        assert!(right > 0.85, "{update:?} {moments:?}: {right}");
    }
    // what would need the noise of all weights at each step refuses to draw it later, and chosen rows do not go with it
    let budget = Budget::new(8.0, 1e-6).unwrap();
    let refused = |sgd: EmbeddingSgd| sgd.plan(&problem, budget).err().map(|e| e.to_string()).unwrap_or_default();
    let base = with(AdaptiveRule::Diagonal, None, 0.1);
    assert!(refused(EmbeddingSgd { lazy: Some(true), ..base.clone() }).contains("lazily"));
    assert!(refused(EmbeddingSgd { selection: Some(RowSelection::default()), ..base }).contains("choice of rows"));
}
