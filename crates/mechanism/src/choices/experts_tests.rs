use super::*;
use dpopt_kernel::beside::Expose;
use dpopt_kernel::beside::uncharged;
use dpopt_noise::NoiseSource;
use dpopt_privacy::{accountant, accountant::rdp};

/// The worked case: T = 1000, B = 10, η = .01, p = .05.
fn reference(relation: Relation) -> LazyExperts {
    LazyExperts::new(10, 1000, 10, 0.01, 0.05, 1, relation).unwrap()
}

#[test]
fn the_worked_cases_cost() {
    let lean = reference(Relation::ReplaceOne);
    assert!((lean.switch_epsilon() - 0.173157).abs() < 5e-7, "{}", lean.switch_epsilon());
    assert!((lean.gate() - (1.0 - 0.95 * (-0.1f64).exp())).abs() < 1e-12);
    let by_renyi = accountant::rdp::RdpAccountant;
    use dpopt_privacy::accountant::Accountant;
    let epsilon = |event: &Event, delta| by_renyi.epsilon(event, Relation::ReplaceOne, delta).unwrap().upper;
    // by the quadratic bound of a draw, αη²/2; the exact curve of a bounded range is a little below it
    let quadratic = |mechanism: &LazyExperts| {
        let draw = Event::Zcdp { rho: 0.5 * mechanism.shape.learning_rate.powi(2), xi: 0.0 };
        let gated = draw.clone().gated(mechanism.gate()).self_composed(mechanism.boundaries() - 1);
        Event::composed(vec![Event::PureStream { epsilon: mechanism.switch_epsilon() }, draw, gated])
    };
    let (published, own) = (epsilon(&quadratic(&lean), 1e-6), epsilon(&lean.event(), 1e-6));
    assert!((published - 0.3379).abs() < 5e-5 && own < published && own > 0.98 * published, "{published} {own}");
    // the envelope of all choices of bounded range is valid too, and looser here
    let lattice = accountant::pld::Pld { quality: accountant::pld::Quality::FINE };
    let envelope = lattice.epsilon(&lean.event(), Relation::ReplaceOne, 1e-6).unwrap().upper;
    assert!((envelope - 0.3394).abs() < 5e-5, "{envelope}");
    let small = LazyExperts::new(3, 6, 2, 0.1, 0.2, 1, Relation::ReplaceOne).unwrap();
    assert!((small.switch_epsilon() - 0.322555).abs() < 5e-7);
    // d = 2, six rounds, η = p = .3: at the exact δ of the worst pair of sequences
    let tiny = LazyExperts::new(2, 6, 1, 0.3, 0.3, 1, Relation::ReplaceOne).unwrap().event();
    for (delta, exact, by_quadratic) in
        [(0.10200, 0.3, 0.864), (0.04974, 0.5, 1.146), (0.01858, 0.8, 1.462), (0.00774, 1.0, 1.701)]
    {
        let claimed = epsilon(&tiny, delta);
        assert!(claimed > exact && claimed < by_quadratic + 1e-3, "{claimed} {by_quadratic}");
    }
    for (epsilon, delta) in [(0.3, 0.2009), (0.5, 0.1446), (0.8, 0.0786), (1.0, 0.0477)] {
        let claimed = lattice.delta(&tiny, Relation::ReplaceOne, epsilon).unwrap().upper;
        assert!((claimed - delta).abs() < 1e-4, "{claimed} {delta}");
    }
    // settings as they are published for ε = 1: η = T^(-1/3), p = η/ε
    for (rounds, eta, least) in [(10_000, 0.0215, 2.5), (1_000_000, 0.00215, 1.2)] {
        let literal = LazyExperts::new(100, rounds, 1, eta, eta, 1, Relation::ReplaceOne).unwrap();
        let cost = epsilon(&literal.event(), 1e-6);
        assert!(cost > least, "{cost}");
    }
    // what a search adds up is what the accountant does
    for (p, k) in [(0.05, 1), (0.05, 3), (1.0, 1), (1.0, 3)] {
        let mechanism = LazyExperts::new(10, 1000, 10, 0.01, p, k, Relation::ReplaceOne).unwrap();
        let accounted = accountant::epsilon(&mechanism.event(), Relation::ReplaceOne, 0.0).unwrap().upper;
        assert!(
            (mechanism.pure_epsilon() / accounted - 1.0).abs() < 1e-8,
            "{p} {k}: {} {accounted}",
            mechanism.pure_epsilon()
        );
    }
    // a round that tells nothing moves the draws half as far
    let zero_out = rdp::cost(&reference(Relation::ZeroOut).event(), Relation::ZeroOut, 8.0).unwrap().divergence;
    assert!(zero_out < rdp::cost(&lean.event(), Relation::ReplaceOne, 8.0).unwrap().divergence);
}

/// Every sequence of losses in {0, 1}² over six rounds, every pair that differs in the first: the law of what is published, by
/// enumeration of experts, with η = p = .3 and no batches. The largest exact ε and δ, and the claim above them.
#[test]
fn the_exact_law_of_small_games_stays_below_the_claim() {
    const ROUNDS: usize = 6;
    let (eta, p) = (0.3f64, 0.3);
    // losses of round t: two bits; P(x_1..x_6)
    let law = |sequence: u32| {
        let loss = |t: usize, x: usize| f64::from((sequence >> (2 * t + x)) & 1);
        let weights: Vec<[f64; 2]> = (0..ROUNDS)
            .map(|t| {
                let sums: [f64; 2] = std::array::from_fn(|x| (0..t).map(|s| loss(s, x)).sum());
                let w = sums.map(|sum: f64| (-eta * sum).exp());
                w.map(|one| one / (w[0] + w[1]))
            })
            .collect();
        let mut law = vec![0.0; 1 << ROUNDS];
        for (path, mass) in law.iter_mut().enumerate() {
            let at = |t: usize| (path >> t) & 1;
            *mass = 0.5;
            for t in 1..ROUNDS {
                let keep = (1.0 - p) * (-eta * loss(t - 1, at(t - 1))).exp();
                let kept = if at(t) == at(t - 1) { keep } else { 0.0 };
                *mass *= kept + (1.0 - keep) * weights[t][at(t)];
            }
        }
        law
    };
    // the last round decides nothing
    let laws: Vec<Vec<f64>> = (0..1 << (2 * (ROUNDS - 1))).map(law).collect();
    let (mut pure, mut deltas) = (0.0f64, [0.0f64; 4]);
    let epsilons = [0.3f64, 0.5, 0.8, 1.0];
    for (a, with) in laws.iter().enumerate() {
        for round in 0..ROUNDS - 1 {
            for change in 1..4 {
                let without = &laws[a ^ (change << (2 * round))];
                let (mut ratio, mut over) = (0.0f64, [0.0f64; 4]);
                for (x, y) in with.iter().zip(without) {
                    ratio = ratio.max(x / y);
                    for (sum, e) in over.iter_mut().zip(epsilons) {
                        *sum += (x - e.exp() * y).max(0.0);
                    }
                }
                pure = pure.max(ratio.ln());
                deltas.iter_mut().zip(over).for_each(|(most, over)| *most = most.max(over));
            }
        }
    }
    assert!((pure - 1.25116).abs() < 1e-5, "{pure}");
    for (exact, worst) in deltas.iter().zip([0.10200, 0.04974, 0.01858, 0.00774]) {
        assert!((exact - worst).abs() < 1e-5, "{exact} {worst}");
    }
    let event = LazyExperts::new(2, 6, 1, eta, p, 1, Relation::ReplaceOne).unwrap().event();
    for (epsilon, exact) in epsilons.iter().zip(deltas) {
        let claimed = accountant::delta(&event, Relation::ReplaceOne, *epsilon).unwrap().upper;
        assert!(claimed > exact, "{claimed} {exact}");
    }
    assert!(accountant::epsilon(&event, Relation::ReplaceOne, 0.0).unwrap().upper > pure);
}

#[test]
fn a_user_of_several_rounds_costs_more_than_the_coins_and_draws_that_they_move() {
    let epsilon = |k| {
        let event = LazyExperts::new(10, 1000, 10, 0.01, 0.05, k, Relation::ZeroOut).unwrap().event();
        accountant::epsilon(&event, Relation::ZeroOut, 1e-6).unwrap().upper
    };
    let (one, two, five) = (epsilon(1), epsilon(2), epsilon(5));
    assert!(two > 1.5 * one && five > 2.0 * two, "{one} {two} {five}");
    let leader = |k| {
        let event = NoisyLeader::new(10, 1000, 100.0, k, Relation::ZeroOut).unwrap().event();
        let Event::Gaussian { noise_multiplier } = event else { panic!("{event}") };
        noise_multiplier
    };
    assert!(leader(3) < leader(1) / 1.9 && leader(3) > leader(1) / 3.01);
}

#[test]
fn refused_plans() {
    let new = |d, t, b, eta, p, k, relation| LazyExperts::new(d, t, b, eta, p, k, relation).is_err();
    let zero = Relation::ZeroOut;
    assert!(!new(2, 2, 1, 0.1, 1.0, 1, zero));
    assert!(new(1, 10, 1, 0.1, 0.1, 1, zero) && new(2, 1, 1, 0.1, 0.1, 1, zero) && new(2, 10, 10, 0.1, 0.1, 1, zero));
    assert!(
        new(2, 10, 0, 0.1, 0.1, 1, zero) && new(2, 10, 1, 0.0, 0.1, 1, zero) && new(2, 10, 1, f64::NAN, 0.1, 1, zero)
    );
    assert!(
        new(2, 10, 1, 0.1, 0.0, 1, zero) && new(2, 10, 1, 0.1, 1.1, 1, zero) && new(2, 10, 1, 0.1, f64::NAN, 1, zero)
    );
    assert!(new(2, 10, 1, 0.1, 0.1, 0, zero) && new(2, 10, 1, 0.1, 0.1, 11, zero));
    assert!(new(2, 10, 1, 0.1, 0.1, 1, Relation::AddOrRemove));
    assert!(NoisyLeader::new(2, 10, 10.0, 1, Relation::AddOrRemove).is_err());
    assert!(NoisyLeader::new(2, 10, 0.0, 1, zero).is_err() && NoisyLeader::new(2, 10, 1e30, 1, zero).is_err());
}

#[test]
fn rounds_beyond_the_plan_and_other_shapes_change_nothing() {
    let plan = LazyExperts::new(3, 6, 2, 0.1, 0.2, 1, Relation::ZeroOut).unwrap();
    let mut curator = uncharged(&plan.event(), NoiseSource::insecure(1));
    let mut plays = curator.open(&plan).unwrap();
    assert!(curator.is_spent() && curator.open(&plan).is_err());
    assert_eq!(plays.observe(&RoundLosses::of(&[0.5; 2]).unwrap()), Err(CuratorError::Shape));
    assert_eq!(plays.observed(), 0);
    for _ in 0..6 {
        assert!(*plays.play().unwrap().get() < 3);
        assert_eq!(plays.play().unwrap(), plays.play().unwrap());
        plays.observe(&RoundLosses::of(&[0.5; 3]).unwrap()).unwrap();
    }
    assert!(plays.play().is_err() && plays.observe(&RoundLosses::nothing(3)).is_err());
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(RoundLosses::of(&[0.1, bad]).is_err());
    }
    let clamped = RoundLosses::of(&[-3.0, 7.0, 0.25]).unwrap();
    assert_eq!(clamped.expose().0, [0, 1 << 24, 1 << 22]);
}

/// η = .1, p = .2, B = 2, d = 3: after the batches 1, 2, 3 the expert has exactly the law of multiplicative weights.
#[test]
fn marginals_are_those_of_multiplicative_weights() {
    const LOSSES: [[f64; 3]; 6] =
        [[0.0, 1.0, 0.5], [1.0, 0.0, 0.25], [0.5, 0.5, 1.0], [1.0, 1.0, 0.0], [0.0, 0.2, 0.7], [0.3, 0.9, 0.1]];
    const LAWS: [[f64; 3]; 3] = [
        [0.3305440789, 0.3305440789, 0.3389118421],
        [0.3248985183, 0.3248985183, 0.3502029635],
        [0.3391633861, 0.3130872658, 0.3477493481],
    ];
    // the chain itself, by enumeration of coins and draws
    let weights = |batches: usize| {
        let sums = (0..3).map(|j| LOSSES[..2 * batches].iter().map(|l| l[j]).sum::<f64>());
        let weights: Vec<f64> = sums.map(|sum| (-0.1 * sum).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect::<Vec<_>>()
    };
    let mut law = vec![1.0 / 3.0; 3];
    for batch in 0..3 {
        let kept = |x: usize| 0.8 * (-0.1 * (LOSSES[2 * batch][x] + LOSSES[2 * batch + 1][x])).exp();
        let fresh: f64 = (0..3).map(|x| law[x] * (1.0 - kept(x))).sum();
        let next = weights(batch + 1);
        law = (0..3).map(|x| law[x] * kept(x) + fresh * next[x]).collect();
        for x in 0..3 {
            assert!((law[x] - LAWS[batch][x]).abs() < 1e-10 && (law[x] - next[x]).abs() < 1e-15);
        }
    }
    // what the mechanism draws: three chi-squares of 100000 runs, each with a false-alarm rate of 1e-6 (quantile 27.6 of two degrees)
    let plan = LazyExperts::new(3, 8, 2, 0.1, 0.2, 1, Relation::ReplaceOne).unwrap();
    let rounds: Vec<_> = LOSSES.iter().map(|l| RoundLosses::of(l).unwrap()).collect();
    let mut counts = [[0.0; 3]; 3];
    let mut switched = 0.0;
    for seed in 0..100_000 {
        let mut curator = uncharged(&plan.event(), NoiseSource::insecure(seed));
        let mut plays = curator.open(&plan).unwrap();
        let first = *plays.play().unwrap().get();
        for (t, losses) in rounds.iter().enumerate() {
            plays.observe(losses).unwrap();
            if t % 2 == 1 {
                counts[t / 2][*plays.play().unwrap().get()] += 1.0;
            }
            if t == 1 {
                switched += f64::from(u8::from(*plays.play().unwrap().get() != first));
            }
        }
    }
    for (counts, law) in counts.iter().zip(LAWS) {
        let square: f64 = counts.iter().zip(law).map(|(n, p)| (n - 1e5 * p).powi(2) / (1e5 * p)).sum();
        assert!(square < 27.6, "{square}: {counts:?}");
    }
    // lazy: a fresh draw every time would leave the first expert in two runs of three
    let expected: f64 = (0..3)
        .map(|x| {
            let kept = 0.8 * (-0.1 * (LOSSES[0][x] + LOSSES[1][x])).exp();
            (1.0 - kept) * (1.0 - LAWS[0][x]) / 3.0
        })
        .sum();
    assert!((switched / 1e5 - expected).abs() < 5.0 * (expected / 1e5).sqrt(), "{switched} {expected}");
}

/// Noise that is far below the losses leaves the leader; far above them, anyone.
#[test]
fn a_leader_is_followed_through_its_noise() {
    let leading = |noise_std: f64| {
        let plan = NoisyLeader::new(4, 200, noise_std, 1, Relation::ReplaceOne).unwrap();
        let mut curator = uncharged(&plan.event(), NoiseSource::insecure(3));
        let mut plays = curator.open(&plan).unwrap();
        let mut best = 0;
        for t in 0..200 {
            best += usize::from(t >= 100 && *plays.play().unwrap().get() == 2);
            plays.observe(&RoundLosses::of(&[1.0, 1.0, 0.0, 1.0]).unwrap()).unwrap();
        }
        assert!(plays.play().is_err() && plays.observe(&RoundLosses::nothing(4)).is_err());
        best
    };
    assert_eq!(leading(0.01), 100);
    let lost = leading(1e4);
    assert!(lost < 75, "{lost}");
}

/// What a round moves: the events' sensitivity is that of the sums that are noised, and halving the noise is another event.
#[test]
fn less_noise_is_another_event() {
    let plan = NoisyLeader::new(9, 100, 50.0, 1, Relation::ReplaceOne).unwrap();
    let factor = Factor::blt_default(4).unwrap();
    let column: f64 = factor.coefficients(100).iter().map(|c| c * c).sum::<f64>().sqrt() * 3.0;
    let Event::Gaussian { noise_multiplier } = plan.event() else { panic!() };
    // μ = 2/z = sensitivity/σ
    assert!((2.0 / noise_multiplier / (column / 50.0) - 1.0).abs() < 1e-6);
    let less = NoisyLeader::new(9, 100, 25.0, 1, Relation::ReplaceOne).unwrap();
    assert!(uncharged(&plan.event(), NoiseSource::insecure(1)).open(&less).is_err());
    let faster = LazyExperts::new(10, 1000, 10, 0.02, 0.05, 1, Relation::ReplaceOne).unwrap();
    let lean = reference(Relation::ReplaceOne);
    assert!(uncharged(&lean.event(), NoiseSource::insecure(1)).open(&faster).is_err());
}

mod restarts {
    use super::*;
    use std::path::Path;

    fn plan() -> LazyExperts {
        LazyExperts::new(3, 40, 2, 0.5, 0.3, 1, Relation::ZeroOut).unwrap()
    }

    fn opened(plan: &LazyExperts) -> ExpertPlays {
        uncharged(&plan.event(), NoiseSource::secure().unwrap()).open(plan).unwrap()
    }

    fn step(plays: &mut ExpertPlays) {
        plays.observe(&RoundLosses::of(&[0.0, 1.0, 0.5]).unwrap()).unwrap();
    }

    fn started(path: &Path, rounds: usize) -> (ExpertPlays, ExpertsFile) {
        let mut plays = opened(&plan());
        let mut file = ExpertsFile::create(path).unwrap();
        plays.save(&mut file, "opened").unwrap();
        for _ in 0..rounds {
            step(&mut plays);
            plays.save(&mut file, "told").unwrap();
        }
        (plays, file)
    }

    #[test]
    fn a_session_goes_on_where_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        let (plays, file) = started(&path, 7);
        let shown = plays.play().unwrap();
        // one at a time
        assert!(ExpertsFile::open(&path).is_err());
        drop(file);
        let (file, saved, public) = ExpertsFile::open(&path).unwrap();
        assert_eq!((saved.observed(), public.as_str()), (7, "told"));
        let resumed = opened(&plan().resumed(saved.clone()).unwrap());
        assert_eq!(resumed.play().unwrap(), shown);
        let other = LazyExperts::new(3, 40, 2, 0.5, 0.4, 1, Relation::ZeroOut).unwrap();
        assert!(other.resumed(saved.clone()).is_err());
        let insecure = plan().resumed(saved).unwrap();
        assert!(uncharged(&plan().event(), NoiseSource::insecure(1)).open(&insecure).is_err());
        drop(file);
        assert!(ExpertsFile::create(&path).is_err());
        #[cfg(unix)]
        for name in ["session", "session.mark"] {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    /// Killed after any of the writes: the newest state, and never one that is older than what may have been shown.
    #[test]
    fn what_is_older_than_what_was_shown_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        let mark = directory.path().join("session.mark");
        let (mut plays, mut file) = started(&path, 5);
        let (old, old_mark) = (std::fs::read(&path).unwrap(), std::fs::read(&mark).unwrap());
        step(&mut plays);
        plays.save(&mut file, "later").unwrap();
        drop(file);
        let (new, new_mark) = (std::fs::read(&path).unwrap(), std::fs::read(&mark).unwrap());
        let with = |state: &[u8], marks: &[u8]| {
            std::fs::write(&path, state).unwrap();
            std::fs::write(&mark, marks).unwrap();
            ExpertsFile::open(&path).map(|(_, saved, _)| saved.observed()).map_err(|e| e.to_string())
        };
        assert_eq!(with(&new, &new_mark), Ok(6));
        // killed between the two: nothing of it was shown, and it is the newest
        assert_eq!(with(&new, &old_mark), Ok(6));
        assert_eq!(std::fs::read(&mark).unwrap(), new_mark);
        assert!(with(&old, &new_mark).unwrap_err().contains("is an old copy that was put back"));
        let older = &old_mark[..old_mark.len() - 1];
        assert!(with(&new, older).unwrap_err().contains("newer"));
        // another session's mark, none, and half of one
        let mut others = new_mark.clone();
        others[0] ^= 1;
        assert!(with(&new, &others).unwrap_err().contains("another"));
        assert!(with(&new, &new_mark[..20]).is_err());
        std::fs::remove_file(&mark).unwrap();
        assert!(ExpertsFile::open(&path).err().unwrap().to_string().contains("no mark"));
        // a copy under another name has no mark of its own
        let copy = directory.path().join("copy");
        std::fs::write(&copy, &new).unwrap();
        assert!(ExpertsFile::open(&copy).is_err());
    }

    #[test]
    fn a_copy_is_refused_and_what_was_moved_goes_on_if_somebody_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let copied = |from: &str, to: &str| {
            std::fs::copy(at(from), at(to)).unwrap();
            std::fs::copy(at(&format!("{from}.mark")), at(&format!("{to}.mark"))).unwrap();
        };
        let why = |opened: Result<(ExpertsFile, SavedExperts, String), CuratorError>| opened.err().unwrap().to_string();
        drop(started(&at("session"), 4));
        std::fs::create_dir(at("else")).unwrap();
        for copy in ["copy", "else/session"] {
            copied("session", copy);
            for opened in [ExpertsFile::open(&at(copy)), ExpertsFile::open_moved(&at(copy))] {
                let why = why(opened);
                assert!(why.contains("is a copy of") && why.contains("still exists"), "{why}");
            }
        }
        // renamed, on one file system: the mark is the same file
        std::fs::rename(at("session"), at("renamed")).unwrap();
        std::fs::rename(at("session.mark"), at("renamed.mark")).unwrap();
        let (mut file, saved, _) = ExpertsFile::open(&at("renamed")).unwrap();
        let mut plays = opened(&plan().resumed(saved).unwrap());
        step(&mut plays);
        plays.save(&mut file, "renamed").unwrap();
        drop(file);
        // to another file system: the original goes
        copied("renamed", "moved");
        std::fs::remove_file(at("renamed")).unwrap();
        std::fs::remove_file(at("renamed.mark")).unwrap();
        assert!(why(ExpertsFile::open(&at("moved"))).contains("`moved` = true"));
        let (mut file, saved, _) = ExpertsFile::open_moved(&at("moved")).unwrap();
        let mut plays = opened(&plan().resumed(saved).unwrap());
        step(&mut plays);
        plays.save(&mut file, "moved").unwrap();
        drop(file);
        // each line once
        assert_eq!(ExpertsFile::open(&at("moved")).unwrap().1.observed(), 6);
    }

    #[test]
    fn a_file_that_is_cut_anywhere_or_changed_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        drop(started(&path, 3));
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(ExpertsFile::open(&path).is_err(), "{length}");
        }
        for place in (0..whole.len()).step_by(7) {
            let mut changed = whole.clone();
            changed[place] ^= 4;
            std::fs::write(&path, &changed).unwrap();
            assert!(ExpertsFile::open(&path).is_err(), "{place}");
        }
        std::fs::write(&path, &whole).unwrap();
        // what a killed process left beside it is no obstacle
        std::fs::write(directory.path().join("session.new"), &whole[..20]).unwrap();
        let (mut file, saved, _) = ExpertsFile::open(&path).unwrap();
        let mut plays = opened(&plan().resumed(saved).unwrap());
        step(&mut plays);
        plays.save(&mut file, "again").unwrap();
        drop(file);
        assert_eq!(ExpertsFile::open(&path).unwrap().1.observed(), 4);
    }

    #[test]
    fn a_leader_and_predictable_coins_are_not_saved() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = ExpertsFile::create(&directory.path().join("session")).unwrap();
        let leader = NoisyLeader::new(3, 40, 10.0, 1, Relation::ZeroOut).unwrap();
        let plays = uncharged(&leader.event(), NoiseSource::secure().unwrap()).open(&leader).unwrap();
        assert!(plays.save(&mut file, "").is_err());
        let plays = uncharged(&plan().event(), NoiseSource::insecure(1)).open(&plan()).unwrap();
        assert!(plays.save(&mut file, "").is_err());
    }
}
