use super::*;
use dpopt_objective::geometry::norm;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::Rows;
use dpopt_privacy::special::{gaussian_ln_delta, gaussian_mu};

const SOFTMAX: Loss = Loss::Softmax { classes: 3 };

fn test(epsilon: f64, delta: f64) -> ClipTest {
    ClipTest { epsilon, delta, growth: 1.1, levels: ClipTest::levels_for(epsilon, delta, 1e-3) }
}

fn phase(records: u64, learning_rate: f64, clip_norm: f64) -> Phase {
    Phase { records, learning_rate, clip_norm }
}

fn certified(phases: Vec<Phase>) -> CertifiedPass {
    CertifiedPass {
        objective: Linear::new(SOFTMAX, 2, 1.0),
        phases,
        radius: 1.0,
        noise_multiplier: 2.0,
        test: test(0.25, 1e-6),
        relation: Relation::ReplaceOne,
        target_bound: 1.0,
    }
}

/// Rows e₁ of `size`, all of the class 1.
fn rows(records: usize, size: f32) -> Examples {
    let mut rows = Rows::new(2);
    (0..records).for_each(|_| if size > 0.0 { rows.push_clipped(&mut [(0, size)], 1.0) } else { rows.push_zero() });
    Examples { rows, targets: vec![1.0; records] }
}

/// Cheap numbers in (0, 1).
struct Lcg(u64);

impl Lcg {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
    }
}

#[test]
fn numbers_are_those_of_the_theorem() {
    // K = 79 at ε₁ = ¼, δ₁ = 10^-6, one failure in a thousand
    assert_eq!((test(0.25, 1e-6).threshold(), ClipTest::levels_for(0.25, 1e-6, 1e-3)), (53, 79));
    let fails = |test: ClipTest| {
        let m = test.levels - test.threshold();
        (-test.epsilon * m as f64).exp() / (1.0 + (-test.epsilon).exp())
    };
    assert!(fails(test(0.25, 1e-6)) <= 1e-3 && fails(ClipTest { levels: 78, ..test(0.25, 1e-6) }) > 1e-3);
    // b̄ = 2.2Cη; noise 12.14·Cη under replace-one and 6.07·Cη under zero-out
    let mu = gaussian_mu(0.75, 1e-6);
    assert_eq!(format!("{mu:.6}"), "0.181161");
    let phase = phase(1000, 1e-3, 1.0);
    for (relation, factor, noise) in [(Relation::ReplaceOne, 2.0, "12.14"), (Relation::ZeroOut, 1.0, "6.07")] {
        let mechanism = CertifiedPass { noise_multiplier: factor / mu, relation, ..certified(vec![phase]) };
        let bar = factor * mechanism.reach(&phase) / 1e-3;
        assert!((bar / (1.1 * factor) - 1.0).abs() < 1e-6, "{bar}");
        // the grid adds its step, below a thousandth
        let bare = mechanism.noise_multiplier * mechanism.reach(&phase) / 1e-3;
        assert_eq!(format!("{bare:.2}"), noise);
        let std = mechanism.noise_std(&phase) / 1e-3;
        assert!(std >= bare && std < 1.001 * bare, "{std} {bare}");
    }
}

#[test]
fn the_test_passes_wrongly_no_more_often_than_it_may() {
    let (mut worst, mut least) = (0.0f64, 1.0f64);
    for i in 0..=60 {
        let epsilon = 0.01 * 800f64.powf(f64::from(i) / 60.0);
        for j in 0..=60 {
            let delta = 1e-9 * 4.9e8f64.powf(f64::from(j) / 60.0);
            let test = ClipTest { epsilon, delta, growth: 1.1, levels: 1 };
            // of the scale that is drawn from
            let decay = 1.0 / test.scale();
            let passes = (-decay * (test.threshold() + 1) as f64).exp() / (1.0 + (-decay).exp());
            worst = worst.max(passes / delta);
            least = least.min(passes / delta);
        }
    }
    assert!(worst <= 1.0 && worst > 0.98, "{worst}");
    // it is a whole number: of large ε one step is a large factor
    assert!(least < 0.01, "{least}");
}

#[test]
fn a_table_of_clips_is_refused_but_for_delta() {
    // of every gradient √2·⅔… is above C/2, and of M none is allowed
    let delta = 0.05;
    let test = ClipTest { levels: 30, ..test(1.0, delta) };
    let mechanism = CertifiedPass { test, radius: 1e3, ..certified(vec![phase(400, 0.008, 0.5)]) };
    let input = rows(400, 1.0);
    assert_eq!(mechanism.check(&input), Ok(()));
    assert!(mechanism.allowed(&mechanism.phases[0]) < 370, "{}", mechanism.allowed(&mechanism.phases[0]));
    let mut noise = NoiseSource::insecure(3);
    let runs = 8_000;
    let shown = (0..runs).filter(|_| mechanism.apply(&input, &mut noise).unwrap().released == 1).count();
    // t = 3: e^-4/(1 + e^-1) = .0134; five standard deviations
    let exact = (-4f64).exp() / (1.0 + (-1f64).exp());
    assert!(exact <= delta);
    let spread = (exact * (1.0 - exact) * f64::from(runs)).sqrt();
    assert!((shown as f64 - exact * f64::from(runs)).abs() < 5.0 * spread, "{shown} of {runs}");
    // and one without clips passes but for γ
    let calm = rows(400, 0.1);
    let failed = (0..runs).filter(|_| mechanism.apply(&calm, &mut noise).unwrap().released == 0).count();
    assert!(failed < 5, "{failed}");
}

#[test]
fn after_a_phase_that_is_not_released_there_is_none() {
    let test = ClipTest { levels: 30, ..test(1.0, 1e-6) };
    let phases = vec![phase(400, 0.008, 0.5), phase(200, 0.002, 0.5)];
    let mechanism = CertifiedPass { test, radius: 1e3, ..certified(phases) };
    let mut noise = NoiseSource::insecure(3);
    let none = mechanism.apply(&rows(600, 1.0), &mut noise).unwrap();
    assert_eq!(none, CertifiedPoints { points: vec![0.0; 12], released: 0 });
    let both = mechanism.apply(&rows(600, 0.1), &mut noise).unwrap();
    assert_eq!((both.released, both.points.len()), (2, 12));
    assert!(both.points.iter().all(|x| *x != 0.0) && both.points[..6] != both.points[6..]);
}

/// Random pairs of tables with one record replaced or missing: levels are one apart at most, and where one is above 0 the means are within the bound.
#[test]
fn levels_have_sensitivity_one_and_certify_the_drift() {
    let mut random = Lcg(77);
    let (mut most, mut certificates, mut worst) = (0, 0, 0.0f64);
    let mut moved_levels = 0;
    for trial in 0..6000u32 {
        let (n, d) = (60usize, 2usize);
        let relation = if trial % 2 == 0 { Relation::ReplaceOne } else { Relation::ZeroOut };
        let growth = [1.1, 2.0, 10.0][(trial % 3) as usize];
        let rate = 1.9 * (0.003f64).powf(random.uniform());
        let clip = 0.3 + 0.8 * random.uniform();
        let test = ClipTest { growth, levels: 12, ..test(0.5, 1e-3) };
        let only = phase(n as u64, rate, clip);
        let mechanism = CertifiedPass { test, relation, radius: 3.0, ..certified(vec![only]) };
        let mut table = Rows::new(d);
        for _ in 0..n {
            let (a, size) = (6.3 * random.uniform(), random.uniform().powf(2.0 * random.uniform()));
            table.push_clipped(&mut [(0, (size * a.cos()) as f32), (1, (size * a.sin()) as f32)], 1.0);
        }
        let targets: Vec<f32> = (0..n).map(|_| (3.0 * random.uniform()).floor() as f32).collect();
        let place = (n as f64 * random.uniform().powi(2)) as usize;
        let mut other = targets.clone();
        other[place] = if relation == Relation::ZeroOut { f32::NAN } else { (targets[place] + 1.0) % 3.0 };
        let start: Vec<f64> = (0..3 * d).map(|_| random.uniform() - 0.5).collect();
        let order: Vec<u32> = (0..n as u32).collect();
        let pass = mechanism.pass(&only);
        let (spacing, allowed) = (mechanism.spacing(&only), mechanism.allowed(&only));
        let walk =
            |targets: &[f32]| pass.walk(&Examples { rows: table.clone(), targets: targets.to_vec() }, &order, &start);
        let (with, without) = (walk(&targets), walk(&other));
        let level = |norms: &[f64]| test.level(norms, clip, spacing, allowed);
        let (u, v) = (level(&with.norms), level(&without.norms));
        if test.levels as f64 * spacing > 0.5 * clip {
            // refused before the charge; the claim holds anyhow as long as all levels are positive
            assert!(!mechanism.covers(&only));
            if test.levels as f64 * spacing >= clip {
                continue;
            }
        }
        most = most.max(u.abs_diff(v));
        moved_levels += u64::from(u != v);
        if u.max(v) > 0 {
            certificates += 1;
            let drift: Vec<f64> = with.mean.iter().zip(&without.mean).map(|(a, b)| a - b).collect();
            let share = norm(&drift) / (relation.sum_sensitivity() * mechanism.reach(&only));
            assert!(share <= 1.0, "{trial}: {share}");
            worst = worst.max(share);
        }
    }
    assert_eq!(most, 1);
    assert!(certificates > 300 && moved_levels > 20 && worst > 0.3, "{certificates} {moved_levels} {worst}");
}

/// δ of the mechanism itself at its worst: two levels beside each other and means b̄ apart.
#[test]
fn the_exact_curve_is_below_what_is_paid() {
    for (epsilon, delta) in [(1.0, 1e-6), (1.0, 1e-2), (4.0, 1e-5), (0.2, 1e-3)] {
        let test = test(0.25 * epsilon, delta);
        let mu = gaussian_mu(0.75 * epsilon, delta);
        let (t, decay) = (test.threshold() as i64, test.epsilon);
        // P(u + noise > t)
        let passes = |u: i64| {
            let above = |z: i64| (-decay * z as f64).exp() / (1.0 + (-decay).exp());
            if t - u >= 0 { above(t - u + 1) } else { 1.0 - above(u - t) }
        };
        let gaussian = |e: f64| {
            let at = gaussian_ln_delta(e.abs(), mu).exp();
            if e >= 0.0 { at } else { 1.0 - e.exp() + e.exp() * at }
        };
        let mut worst = 0.0f64;
        for u in 0..=test.levels as i64 {
            for v in [u - 1, u, u + 1] {
                if v < 0 || v > test.levels as i64 || (u, v) == (0, 0) {
                    continue;
                }
                let (p, q) = (passes(u), passes(v));
                let shown = p * gaussian(epsilon + (q / p).ln());
                let refused = (1.0 - p - epsilon.exp() * (1.0 - q)).max(0.0);
                worst = worst.max(shown + refused);
            }
        }
        // nothing bounds the drift at level 0 on both sides
        worst = worst.max(passes(0));
        assert!(worst <= delta && worst > 0.6 * delta, "({epsilon}, {delta}): {}", worst / delta);
    }
}

#[test]
fn what_is_not_proved_is_refused_before_the_charge() {
    let good = certified(vec![phase(8, 0.002, 1.0), phase(8, 0.0005, 1.0)]);
    assert_eq!(good.check(&rows(16, 1.0)), Ok(()));
    assert_eq!(good.check(&rows(17, 1.0)), Err(CuratorError::Shape));
    let refused = |mechanism: CertifiedPass| mechanism.check(&rows(16, 1.0)) == Err(CuratorError::Shape);
    let with_test = |change: fn(&mut ClipTest)| {
        let mut mechanism = good.clone();
        change(&mut mechanism.test);
        mechanism
    };
    assert!(refused(certified(vec![phase(16, 0.01, 1.0)])), "levels below C/2");
    assert!(
        refused(certified(vec![phase(8, 0.002, 1.0), phase(8, 1e-13, 1.0)])),
        "a phase below the spacing of numbers"
    );
    assert!(refused(CertifiedPass { relation: Relation::AddOrRemove, ..good.clone() }));
    assert!(refused(CertifiedPass { noise_multiplier: 0.0, ..good.clone() }));
    assert!(refused(CertifiedPass { radius: f64::INFINITY, ..good.clone() }));
    assert!(refused(CertifiedPass { objective: Linear::new(Loss::Hinge, 2, 1.0), ..good.clone() }), "a corner");
    assert!(refused(CertifiedPass { objective: Linear::new(Loss::Sigmoid, 2, 1.0), ..good.clone() }), "not convex");
    assert!(
        refused(CertifiedPass { objective: Linear::new(Loss::Squared, 2, 1.0), ..good.clone() }),
        "no bound on rounding"
    );
    assert!(refused(with_test(|test| test.growth = 1.0)));
    assert!(refused(with_test(|test| test.delta = 0.5)));
    assert!(refused(with_test(|test| test.epsilon = 0.0)));
    assert!(refused(with_test(|test| test.levels = 0)));
    assert!(refused(with_test(|test| test.levels = 400)), "more levels than there is room for");
    // more noise is another event
    let event = |z: f64| CertifiedPass { noise_multiplier: z, ..good.clone() }.event();
    assert_ne!(event(2.0), event(2.5));
}
