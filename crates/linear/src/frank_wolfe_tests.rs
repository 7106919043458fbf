//! The law of whole runs, the iterate's scores, and what a fit is worth.

use super::*;
use crate::{candidates, choose};
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::synthetic::{Lcg, mean_loss};
use dpopt_optimize::MethodOptions;
use dpopt_privacy::Neighbours;

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

/// n rows with `width` of d features; the label follows the first three.
fn table(n: usize, d: usize, width: usize, seed: u64) -> Examples {
    let mut random = Lcg::new(seed);
    let mut examples = Examples { rows: Rows::new(d), targets: Vec::new() };
    for _ in 0..n {
        let mut entries: Vec<(u32, f32)> =
            (0..3).map(|j| (j, if random.uniform() < 0.5 { 1.0 } else { -1.0 })).collect();
        let score: f32 = entries.iter().map(|e| e.1).sum();
        entries.extend((3..width).map(|_| {
            ((3.0 + random.uniform() * (d - 3) as f64) as u32, if random.uniform() < 0.5 { 1.0f32 } else { -1.0 })
        }));
        let size = (width as f32).sqrt();
        entries.iter_mut().for_each(|e| e.1 /= size);
        examples.rows.push_clipped(&mut entries, 1.0);
        examples.targets.push(score.signum());
    }
    examples
}

fn facts(examples: &Examples, nonzeros: usize) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: examples.rows.len() as u64,
        features: examples.rows.columns(),
        nonzeros,
        row_norm: 1.0,
        loss: LOGISTIC,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

fn run(plan: &Plan<VertexSchedule>, problem: &Problem, examples: &Sensitive<Examples>, seed: u64) -> SparseVector {
    let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
    let w = run_vertices(plan, Run::new(problem, examples, &mut curator, &Silent).unwrap()).unwrap().into_inner();
    assert!(curator.is_spent(), "planned more than it released");
    w
}

/// Σ c_ij over C at w, dense, from the definition.
fn gradient(examples: &Examples, w: &[f64], clip_norm: f64) -> Vec<f64> {
    let mut out = vec![0.0; w.len()];
    for i in 0..examples.targets.len() {
        let (columns, values) = examples.rows.row(i);
        let score: f64 = columns.iter().zip(values).map(|(&j, &x)| w[j as usize] * f64::from(x)).sum();
        let largest = values.iter().fold(0f64, |m, x| m.max(f64::from(x.abs())));
        let slope = LOGISTIC.scalar_slope(score, f64::from(examples.targets[i]));
        let slope = slope.clamp(-clip_norm / largest, clip_norm / largest);
        columns.iter().zip(values).for_each(|(&j, &x)| out[j as usize] += slope * f64::from(x) / clip_norm);
    }
    out
}

/// P(vertex) ∝ e^(score·ε₀/2) over (coordinate, sign), scores in units of C.
fn law(gradient: &[f64], epsilon: f64) -> Vec<f64> {
    let weights: Vec<f64> =
        gradient.iter().flat_map(|g| [(0.5 * epsilon * g).exp(), (-0.5 * epsilon * g).exp()]).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

#[test]
fn two_steps_have_the_law_of_the_exponential_mechanism() {
    // five rows of which none has feature 2: its vertices have no score of their own
    let mut examples = Examples { rows: Rows::new(3), targets: Vec::new() };
    for (row, y) in [([0.9, 0.1], 1.0), ([0.5, -0.8], 1.0), ([-0.3, 0.3], -1.0), ([0.2, 0.7], -1.0), ([0.0, 0.9], 1.0)]
    {
        examples.rows.push_clipped(&mut [(0, row[0]), (1, row[1])], 1.0);
        examples.targets.push(y);
    }
    let problem = facts(&examples, 2);
    let options = FrankWolfe {
        l1_norm: Some(3.0),
        steps: Some(2),
        clip_norm: Some(0.6),
        refresh_every: Some(1),
        max_features: None,
    };
    let plan = options.plan(&problem, Budget::new(2.0, 1e-6).unwrap()).unwrap();
    let epsilon = plan.schedule.step_epsilon;
    let vertex = |v: usize, size: f64| {
        let mut w = vec![0.0; 3];
        w[v / 2] = if v.is_multiple_of(2) { -size } else { size };
        w
    };
    let first = law(&gradient(&examples, &[0.0; 3], 0.6), epsilon);
    let mut expected = Vec::new();
    for (v, p) in first.iter().enumerate() {
        let second = law(&gradient(&examples, &vertex(v, 3.0), 0.6), epsilon);
        expected.extend(second.iter().map(|q| p * q));
    }
    let data = Sensitive::new(examples);
    let mut counts = vec![0f64; 36];
    let runs = 40_000;
    for seed in 0..runs {
        let w = run(&plan, &problem, &data, seed).dense(3);
        // w = v₁/3 + 2v₂/3 times 3: sizes 1 and 2, added where the coordinate is the same
        let at = (0..36)
            .find(|&pair| {
                let (a, b) = (vertex(pair / 6, 1.0), vertex(pair % 6, 2.0));
                w.iter().zip(a.iter().zip(&b)).all(|(w, (a, b))| (w - a - b).abs() < 1e-9)
            })
            .expect("a pair of vertices");
        counts[at] += 1.0;
    }
    // Pearson, limit of Laurent and Massart: false alarm below 2.5e-7
    let chi2: f64 = counts.iter().zip(&expected).map(|(c, p)| (c - runs as f64 * p).powi(2) / (runs as f64 * p)).sum();
    assert!(chi2 < 35.0 + 2.0 * (15.2f64 * 35.0).sqrt() + 30.4, "{chi2}");
}

/// Plain Frank–Wolfe on the same, capped loss.
fn without_noise(examples: &Examples, radius: f64, steps: u64, clip_norm: f64) -> Vec<f64> {
    let mut w = vec![0.0; examples.rows.columns()];
    for t in 0..steps {
        let g = gradient(examples, &w, clip_norm);
        let best = (0..w.len()).max_by(|&a, &b| g[a].abs().total_cmp(&g[b].abs())).unwrap();
        let rate = 2.0 / (t as f64 + 2.0);
        w.iter_mut().for_each(|w| *w *= 1.0 - rate);
        w[best] -= rate * radius * g[best].signum();
    }
    w
}

#[test]
fn with_a_huge_budget_it_is_frank_wolfe_and_stale_slopes_cost_little() {
    let examples = table(2000, 500, 9, 7);
    let problem = facts(&examples, 9);
    let (radius, steps) = (15.0, 200);
    let budget = Budget::new(20_000.0, 1e-6).unwrap();
    let data = Sensitive::new(examples.clone());
    let fit = |refresh: u64| {
        let options = FrankWolfe {
            l1_norm: Some(radius),
            steps: Some(steps),
            clip_norm: Some(1.0),
            refresh_every: Some(refresh),
            max_features: None,
        };
        let w = run(&options.plan(&problem, budget).unwrap(), &problem, &data, 1);
        assert!(w.values().iter().map(|w| w.abs()).sum::<f64>() <= radius * (1.0 + 1e-12));
        mean_loss(&examples, LOGISTIC, &w.dense(500))
    };
    let dense = mean_loss(&examples, LOGISTIC, &without_noise(&examples, radius, steps, 1.0));
    assert!((fit(1) / dense - 1.0).abs() < 0.01, "{} against {dense}", fit(1));
    assert!((fit(10) / dense - 1.0).abs() < 0.03, "{} against {dense}", fit(10));
    assert!(dense < 0.35, "{dense}");
}

#[test]
fn features_are_found_among_many() {
    let examples = table(8000, 100_000, 9, 11);
    let problem = facts(&examples, 9);
    let data = Sensitive::new(examples.clone());
    let plan = FrankWolfe::default().plan(&problem, Budget::new(2.0, 1e-6).unwrap()).unwrap();
    let w = run(&plan, &problem, &data, 5);
    let mut largest: Vec<(u32, f64)> = w.iter().collect();
    largest.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let mut found: Vec<u32> = largest.iter().take(3).map(|e| e.0).collect();
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2], "{largest:?}, {:?}", plan.schedule);
    assert!(mean_loss(&examples, LOGISTIC, &w.dense(100_000)) < 0.6);
}

#[test]
fn budgets_pure_ones_too_are_met_and_not_wasted() {
    let examples = table(50, 20, 5, 1);
    for relation in [Relation::ZeroOut, Relation::ReplaceOne, Relation::AddOrRemove] {
        let problem = Problem { rows: 100_000, neighbours: Neighbours::of_records(relation), ..facts(&examples, 5) };
        let options =
            FrankWolfe { steps: Some(400), l1_norm: Some(10.0), clip_norm: Some(1.0), ..FrankWolfe::default() };
        let plan = options.plan(&problem, Budget::new(1.0, 1e-6).unwrap()).unwrap();
        // 400 draws of bounded range compose to (1, 1e-6) at ε₀ = .0221054, whatever the relation; the noise is doubled where records are replaced
        let s = &plan.schedule;
        assert!(s.step_epsilon >= 0.0221054 * 0.9999 && s.step_epsilon < 0.0226, "{}", s.step_epsilon);
        assert!((s.noise_scale * s.step_epsilon - 2.0 * relation.sum_sensitivity()).abs() < 1e-9);
        let pure = options.plan(&problem, Budget::new(1.0, 0.0).unwrap()).unwrap();
        assert!((pure.schedule.step_epsilon * 400.0 - 1.0).abs() < 1e-6, "{}", pure.schedule.step_epsilon);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let problem = Problem { rows: 1000, ..facts(&table(5, 50, 5, 1), 5) };
    let named = |options: MethodOptions| options.by("frank-wolfe");
    for (options, reason) in [
        (MethodOptions::default().with("steps", 0), "steps"),
        (MethodOptions::default().with("l1_norm", -1.0), "l1_norm"),
        (MethodOptions::default().with("refresh_every", 0), "refresh_every"),
        (MethodOptions::default().with("clip_norm", f64::NAN), "clip_norm"),
    ] {
        let refused = choose(&problem, Budget::new(1.0, 1e-6).unwrap(), &named(options)).err().unwrap().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
    let few = MethodOptions::default().with("max_features", 7);
    let plan = choose(&problem, Budget::new(1.0, 1e-6).unwrap(), &named(few.clone())).unwrap();
    assert!(plan.summary().steps <= 7);
    let rows = candidates(&problem, Budget::new(1.0, 1e-6).unwrap(), &few);
    assert!(rows.iter().any(|c| c.method == "frank-wolfe" && c.plan.is_ok()));
}
