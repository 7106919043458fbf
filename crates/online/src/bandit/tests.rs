use super::*;
use dpopt_noise::{NoiseSource, Purpose};

pub(super) fn problem(arms: usize, rounds: u64) -> BanditProblem {
    let neighbours = Neighbours::of_rounds(Relation::ReplaceOne);
    BanditProblem { arms, rounds, rounds_per_user: 1, rewards: Rewards::Independent, switches: 0, neighbours }
}

pub(super) fn plan_of(problem: &BanditProblem, epsilon: f64, player: ArmPlayer) -> BanditPlan {
    plan_bandit(problem, Budget::new(epsilon, 0.0).unwrap(), Some(player)).unwrap()
}

/// What a game loses against the best arm of every round, where `means` says what arms give in a round, and how often the best was played.
fn game(plan: &BanditPlan, means: impl Fn(u64) -> Vec<f64>, seed: u64) -> (f64, u64) {
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
    let mut game = plan.open(&mut curator).unwrap();
    let mut coins = NoiseSource::insecure(seed + 1000).stream(Purpose::Other(0), 0);
    let (mut lost, mut right) = (0.0, 0);
    while let Some(arm) = game.play() {
        let means = means(game.observed());
        let best = means.iter().copied().fold(0.0, f64::max);
        lost += best - means[arm];
        right += u64::from(means[arm] == best);
        let reward = f64::from(u8::from(coins.uniform() < means[arm]));
        game.observe(&RoundLosses::of(&[reward]).unwrap()).unwrap();
    }
    assert!(game.observe(&RoundLosses::of(&[0.0]).unwrap()).is_err());
    assert!((game.weights().iter().sum::<f64>() - 1.0).abs() < 1e-9);
    (lost, right)
}

#[test]
fn regret_is_below_its_bound_and_the_best_arm_is_found() {
    for player in [ArmPlayer::Elimination, ArmPlayer::Weights] {
        for epsilon in [0.2, 5.0] {
            let plan = plan_of(&problem(4, 60_000), epsilon, player);
            for means in [[0.9, 0.1, 0.2, 0.3], [0.5, 0.5, 0.5, 0.6], [0.2, 0.7, 0.7, 0.7]] {
                let games: Vec<(f64, u64)> = (0..10).map(|seed| game(&plan, |_| means.to_vec(), seed)).collect();
                let mean = games.iter().map(|g| g.0).sum::<f64>() / 10.0;
                assert!(mean < plan.regret_bound, "{player:?} {epsilon} {means:?}: {mean} {}", plan.regret_bound);
                if means[0] == 0.9 {
                    assert!(games.iter().all(|g| g.1 > 50_000), "{player:?} {games:?}");
                }
            }
        }
    }
}

/// An arm that was the worst becomes the best: elimination never comes back to it, and without switches in the plan weights come back late.
#[test]
fn weights_follow_a_best_arm_that_changes() {
    let changing = |round: u64| if round < 60_000 { vec![0.9, 0.5, 0.1] } else { vec![0.1, 0.5, 0.9] };
    let switching = BanditProblem { rewards: Rewards::Any, switches: 1, ..problem(3, 120_000) };
    let lost = |plan: &BanditPlan| (0..5).map(|seed| game(plan, changing, seed).0).sum::<f64>() / 5.0;
    let follows = plan_bandit(&switching, Budget::new(2.0, 0.0).unwrap(), None).unwrap();
    let (tracking, gone) = (lost(&follows), lost(&plan_of(&problem(3, 120_000), 2.0, ArmPlayer::Elimination)));
    assert!(tracking < follows.regret_bound && follows.regret_bound < 0.15 * 120_000.0, "{tracking} {follows:?}");
    assert!(tracking < 0.2 * gone && gone > 0.6 * 60_000.0, "{tracking} {gone}");
    assert!(plan_bandit(&switching, Budget::new(2.0, 0.0).unwrap(), Some(ArmPlayer::Elimination)).is_err());
}

/// More budget, less regret; what one user has of rounds is paid for.
#[test]
fn plans_are_certified_and_grow_with_what_is_asked() {
    for player in [ArmPlayer::Elimination, ArmPlayer::Weights] {
        let plan = |epsilon| plan_of(&problem(5, 100_000), epsilon, player);
        let (tight, loose) = (plan(0.1), plan(10.0));
        assert!(tight.regret_bound > 1.3 * loose.regret_bound && tight.certificate.bound().upper <= 0.1);
        assert!((tight.noise_scale - 10.0).abs() < 1e-4, "{}", tight.noise_scale);
        let five = plan_of(&BanditProblem { rounds_per_user: 5, ..problem(5, 100_000) }, 10.0, player);
        assert!((five.noise_scale - 0.5).abs() < 1e-4, "{}", five.noise_scale);
        let approximate = plan_bandit(&problem(5, 100_000), Budget::new(1.0, 1e-6).unwrap(), Some(player)).unwrap();
        assert!(approximate.certificate.bound().upper <= 1.0);
    }
}

/// The player of the least bound is chosen, of those whose bound is for such rewards.
#[test]
fn players_are_chosen_by_their_bounds() {
    let chosen = |problem: &BanditProblem| plan_bandit(problem, Budget::new(1.0, 0.0).unwrap(), None).unwrap();
    let usual = chosen(&problem(5, 100_000));
    let others =
        [ArmPlayer::Elimination, ArmPlayer::Weights].map(|p| plan_of(&problem(5, 100_000), 1.0, p).regret_bound);
    assert_eq!(usual.regret_bound, others[0].min(others[1]));
    let any = BanditProblem { rewards: Rewards::Any, ..problem(5, 100_000) };
    assert_eq!(chosen(&any).name(), ArmPlayer::Weights);
    let candidates = bandit_candidates(&any, Budget::new(1.0, 0.0).unwrap()).unwrap();
    assert_eq!(candidates.len(), 1);
}

#[test]
fn facts_out_of_range_are_refused() {
    let good = problem(3, 100);
    for bad in [
        BanditProblem { arms: 1, ..good },
        BanditProblem { rounds: 1, ..good },
        BanditProblem { rounds_per_user: 0, ..good },
        BanditProblem { rounds_per_user: 101, ..good },
        BanditProblem { switches: 100, ..good },
        BanditProblem { neighbours: Neighbours::of_rounds(Relation::AddOrRemove), ..good },
    ] {
        assert!(plan_bandit(&bad, Budget::new(1.0, 0.0).unwrap(), None).is_err(), "{bad:?}");
    }
}
