//! The mean of vectors that are close together: rounds of clipped sums, each clipped around the mean that the round before released
//! (docs/proofs/centred-mean.md).

use crate::plan::NotApplicable;
use crate::planning::sum_grid;
use dpopt_mechanism::{ClippedVectors, Curator, CuratorError, Gaussian, GridSum, Released, SamplerError, Sensitive};
use dpopt_noise::Grid;
use dpopt_objective::records::RemoteRecords;
use dpopt_privacy::special::gaussian_mu;
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Shown, calibrate};
use serde::Serialize;

/// Public facts about vectors of norm at most 1 that are close to their mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CentredProblem {
    /// Records, or units with one vector each; a public guess under add-or-remove.
    pub records: u64,
    /// d: number of coordinates.
    pub dimension: usize,
    /// How far nearly all vectors are from their mean in l2 norm, in (0, 1]: a public guess. A wrong one costs accuracy, never privacy.
    pub spread: f64,
    /// Which data sets are neighbours.
    #[serde(flatten)]
    pub neighbours: Neighbours,
}

/// A planned and certified mean in rounds.
#[derive(Clone, Debug)]
pub struct CentredPlan {
    /// One after the other; one alone is the plain clipped mean.
    pub rounds: Vec<CentredRound>,
    /// Standard deviation of the noise in each number of the answer.
    pub noise_std: f64,
    /// The certified privacy event of the plan.
    pub certificate: Certificate,
}

/// One clipped sum. All of it is decided before a record is read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CentredRound {
    /// Vectors are clipped to this norm around the centre.
    pub clip_norm: f64,
    /// Noise of the sum over the clip norm.
    pub noise_multiplier: f64,
}

/// Most rounds of a plan.
const MAX_ROUNDS: usize = 6;
/// What a round costs (1/z²), over what the one after it does; the ratio with the least noise in the end is taken.
const RATIOS: [f64; 7] = [0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005];
/// That the centre is further from the mean than a round is planned for has at most this probability, if the spread is right.
const MISSES: f64 = 1e-3;
/// A round more has to lower the noise by this factor.
const WORTH: f64 = 0.98;

/// Noise over the first rounds' cost shares, for `rounds` of them: 1/z² add up to 1.
fn multipliers(rounds: usize, ratio: f64) -> Vec<f64> {
    let shares: Vec<f64> = (0..rounds).map(|k| ratio.powi((rounds - 1 - k) as i32)).collect();
    let all: f64 = shares.iter().sum();
    shares.iter().map(|share| (all / share).sqrt()).collect()
}

/// Clip norms where the noise of round k is `noise[k]` clip norms.
fn clip_norms(problem: &CentredProblem, noise: &[f64]) -> Vec<f64> {
    let mut clip = 1.0;
    // l2 norm of the noise in a mean, but for a probability of MISSES
    let length = (problem.dimension as f64).sqrt() + (-2.0 * MISSES.ln()).sqrt();
    noise
        .iter()
        .map(|z| {
            let own: f64 = clip;
            clip = own.min(problem.spread + own * z * length / problem.records as f64);
            own
        })
        .collect()
}

impl CentredPlan {
    /// Chooses rounds and their shares of the budget so that the noise of the last is least. Reads no record.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(problem: &CentredProblem, budget: Budget) -> Result<Self, NotApplicable> {
        let (epsilon, delta) = (budget.epsilon(), budget.delta());
        if delta == 0.0 {
            return Err(NotApplicable::Problem(
                "Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into(),
            ));
        }
        if !(problem.spread > 0.0 && problem.spread <= 1.0) {
            return Err(NotApplicable::Option(
                format!(
                    "the spread is {}; give a number above 0 and at most 1, the norm that a vector may have",
                    Shown(problem.spread)
                )
                .into(),
            ));
        }
        if problem.records == 0 || problem.dimension == 0 {
            return Err(NotApplicable::Problem("a mean is of at least one vector with at least one number".into()));
        }
        let relation = problem.neighbours.relation;
        let least = relation.sum_sensitivity() / gaussian_mu(epsilon, delta);
        let last = |relative: &[f64]| {
            let noise: Vec<f64> = relative.iter().map(|z| z * least).collect();
            let clips = clip_norms(problem, &noise);
            clips.last().copied().unwrap_or(1.0) * noise.last().copied().unwrap_or(f64::NAN)
        };
        let mut relative = vec![1.0];
        for rounds in 2..=MAX_ROUNDS {
            let tried = RATIOS.iter().map(|ratio| multipliers(rounds, *ratio));
            if let Some(best) = tried.min_by(|a, b| last(a).total_cmp(&last(b)))
                && last(&best) < WORTH * last(&relative)
            {
                relative = best;
            }
        }
        let numbers = (problem.dimension * relative.len()) as f64;
        let event = |scale: f64| {
            let sums = relative.iter().map(|z| Event::gaussian(z * scale)).collect();
            SamplerError::rounded(numbers).on(Event::composed(sums))
        };
        let terms = problem.neighbours.within(budget);
        let (scale, certificate) =
            calibrate::noise(event, terms).map_err(|why| NotApplicable::Problem(why.to_string().into()))?;
        let noise: Vec<f64> = relative.iter().map(|z| z * scale).collect();
        // the same planned from what was certified
        let clips = clip_norms(problem, &noise);
        let rounds = clips.iter().zip(&noise);
        let rounds: Vec<CentredRound> =
            rounds.map(|(&clip_norm, &noise_multiplier)| CentredRound { clip_norm, noise_multiplier }).collect();
        for CentredRound { clip_norm, noise_multiplier } in &rounds {
            sum_grid(*clip_norm, noise_multiplier * clip_norm, problem.records, problem.dimension)?;
        }
        let noise_std =
            rounds.last().map_or(f64::NAN, |last| last.clip_norm * last.noise_multiplier / problem.records as f64);
        Ok(Self { rounds, noise_std, certificate })
    }

    /// Releases the mean of so many vectors: `vector(i, out)` appends the entries of the i-th to the empty `out`, or appends **nothing where there is none**: a
    /// unit without rows contributes nothing, wherever the centre is. (A vector of zeros would be a contribution of up to the clip norm, and there or not would
    /// be twice that.) Entries that are not finite count as the centre's.
    ///
    /// # Errors
    /// If `curator` has not been opened for the plan's certificate.
    pub fn run(
        &self,
        problem: &CentredProblem,
        vectors: usize,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
        curator: &mut Curator,
    ) -> Result<Released<Vec<f64>>, CuratorError> {
        self.around(problem, curator, |clipped, centre| {
            let deviation = |i: usize, out: &mut Vec<f64>| {
                vector(i, out);
                out.iter_mut().zip(centre).for_each(|(v, c)| *v -= c);
            };
            Ok(clipped.sum(vectors, centre.len(), deviation))
        })
    }

    /// Releases the mean of remote vectors, held by partitions: numbers as they were given, one vector in each record.
    ///
    /// # Errors
    /// As [`run`](Self::run); and if a partition can't be asked.
    pub fn run_remote(
        &self,
        problem: &CentredProblem,
        vectors: &Sensitive<RemoteRecords>,
        curator: &mut Curator,
    ) -> Result<Released<Vec<f64>>, CuratorError> {
        self.around(problem, curator, |clipped, centre| Ok(clipped.remote_sum(vectors, centre)?))
    }

    /// One round after the other; `sum` adds up clipped vectors around a centre.
    fn around(
        &self,
        problem: &CentredProblem,
        curator: &mut Curator,
        sum: impl Fn(&ClippedVectors, &[f64]) -> Result<Sensitive<GridSum>, CuratorError>,
    ) -> Result<Released<Vec<f64>>, CuratorError> {
        let dimension = problem.dimension;
        let mut centre = vec![0.0; dimension];
        for &CentredRound { clip_norm, noise_multiplier } in &self.rounds {
            let grid = Grid::for_sum(clip_norm, noise_multiplier * clip_norm, problem.records, dimension);
            let sum = sum(&ClippedVectors::new(clip_norm, grid)?, &centre)?;
            let mechanism = Gaussian::new(noise_multiplier, clip_norm, grid, dimension, "sum around a released centre");
            let released = curator.release(&mechanism, &sum)?.into_inner();
            centre.iter_mut().zip(released).for_each(|(c, s)| *c += s / problem.records as f64);
        }
        Ok(curator.postprocess(centre))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};
    use dpopt_privacy::Relation;

    fn problem(records: u64, dimension: usize, spread: f64, relation: Relation) -> CentredProblem {
        CentredProblem { records, dimension, spread, neighbours: Neighbours::of_users(relation) }
    }

    fn budget(epsilon: f64) -> Budget {
        Budget::new(epsilon, 1e-6).unwrap()
    }

    #[test]
    fn rounds_shrink_to_about_the_spread_and_cost_one_budget() {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne, Relation::AddOrRemove] {
            let problem = problem(5000, 50, 0.01, relation);
            let plan = CentredPlan::new(&problem, budget(1.0)).unwrap();
            let plain = CentredPlan::new(&CentredProblem { spread: 1.0, ..problem }, budget(1.0)).unwrap();
            assert_eq!((plain.rounds.len(), plain.rounds[0].clip_norm), (1, 1.0));
            assert!(plan.rounds.windows(2).all(|two| two[1].clip_norm < two[0].clip_norm), "{:?}", plan.rounds);
            let (first, last) = (plan.rounds[0], plan.rounds[plan.rounds.len() - 1]);
            assert!(first.clip_norm == 1.0 && last.clip_norm < 0.02, "{:?}", plan.rounds);
            // a record that is clipped in every round moves them as one Gaussian of all shares
            let together: f64 = plan.rounds.iter().map(|round| round.noise_multiplier.powi(-2)).sum();
            assert!((together.powf(-0.5) / plain.rounds[0].noise_multiplier - 1.0).abs() < 1e-4);
            assert!(plan.certificate.bound().upper <= 1.0 && plan.noise_std < plain.noise_std / 50.0);
        }
        // where noise is as wide as the range, one round is all there is
        let few = CentredPlan::new(&problem(20, 50, 0.01, Relation::ZeroOut), budget(1.0)).unwrap();
        assert_eq!(few.rounds.len(), 1);
    }

    #[test]
    fn the_answer_is_as_far_off_as_its_noise() {
        let (records, dimension, spread) = (4000u64, 20, 0.03);
        let problem = problem(records, dimension, spread, Relation::ReplaceOne);
        let plan = CentredPlan::new(&problem, budget(1.0)).unwrap();
        assert!(plan.rounds.len() > 1);
        let mut coins = NoiseSource::insecure(4).stream(Purpose::Other(1), 0);
        let centre: Vec<f64> = (0..dimension).map(|_| 0.15 * coins.standard_normal()).collect();
        // within .8 of the spread, in all directions alike
        let rows: Vec<Vec<f64>> = (0..records)
            .map(|_| {
                let away: Vec<f64> = (0..dimension).map(|_| coins.standard_normal()).collect();
                let scale = 0.8 * spread / away.iter().map(|v| v * v).sum::<f64>().sqrt();
                centre.iter().zip(away).map(|(c, v)| c + scale * v).collect()
            })
            .collect();
        let mean = |j: usize| rows.iter().map(|row| row[j]).sum::<f64>() / records as f64;
        let (mut squares, runs) = (0.0, 40);
        for seed in 0..runs {
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
            let released = plan.run(&problem, rows.len(), |i, out| out.extend(&rows[i]), &mut curator).unwrap();
            assert!(curator.is_spent());
            squares += released.get().iter().enumerate().map(|(j, v)| (v - mean(j)).powi(2)).sum::<f64>();
        }
        // 800 squares of a normal variable: a standard deviation of 5 %
        let ratio = squares / (runs as f64 * dimension as f64 * plan.noise_std.powi(2));
        assert!((0.75..1.3).contains(&ratio), "{ratio}");
    }

    #[test]
    fn who_is_not_there_contributes_nothing_and_hostile_vectors_no_more_than_the_clip() {
        let problem = problem(1000, 2, 0.05, Relation::ZeroOut);
        let plan = CentredPlan::new(&problem, budget(2.0)).unwrap();
        let run = |last: Option<[f64; 2]>| {
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(9));
            let vector = |i: usize, out: &mut Vec<f64>| match (i, last) {
                (999, None) => {}
                (999, Some(last)) => out.extend(last),
                _ => out.extend([0.5, -0.25]),
            };
            plan.run(&problem, 1000, vector, &mut curator).unwrap().into_inner()
        };
        let absent = run(None);
        // the first round moves by 1/n at most, and the last ends within its own clip of that
        for last in [[f64::INFINITY, f64::NAN], [1e300, 1e300], [-1.0, 0.0], [0.0, 0.0], [0.5, -0.25]] {
            let there = run(Some(last));
            let moved = ((there[0] - absent[0]).powi(2) + (there[1] - absent[1]).powi(2)).sqrt();
            assert!(moved <= 1.001 / 1000.0, "{last:?}: {moved}");
        }
        // 999 of 1000 vectors where the centre was told to be: their mean is not drawn to the origin by who is not there
        assert!((absent[0] - 0.5).abs() < 6.0 * plan.noise_std, "{} {}", absent[0], plan.noise_std);
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let refused = |problem: CentredProblem, delta| {
            CentredPlan::new(&problem, Budget::new(1.0, delta).unwrap()).unwrap_err().to_string()
        };
        let usual = problem(100, 2, 0.1, Relation::ZeroOut);
        assert!(refused(usual, 0.0).contains("delta > 0"));
        for spread in [0.0, -1.0, 1.1, f64::NAN] {
            assert!(refused(CentredProblem { spread, ..usual }, 1e-6).contains("the spread is"), "{spread}");
        }
        assert!(refused(CentredProblem { records: 0, ..usual }, 1e-6).contains("at least one vector"));
    }
}
