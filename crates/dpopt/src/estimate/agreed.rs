//! Any estimator made private: it answers for each of many groups of records, and the mean of the answers that agree is released
//! (subsample and aggregate; after Liu 2024, Algorithms 28 and 31; docs/proofs/agreed-mean.md).

use dpopt_mechanism::{
    AboveThreshold, AgreedMean, Agreement, Answers, Curator, CuratorError, Interactive, Released, SamplerError,
    Sensitive, moved_pairs,
};
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Shown, calibrate};
use serde::Serialize;

/// Public facts about answers of groups. A unit of privacy is in one group, chosen independently of everything it holds, so that its presence changes one
/// answer, under whatever relation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgreedProblem {
    /// C: number of groups.
    pub groups: u64,
    /// d: numbers in an answer, each scaled to [-1, 1] by its public range.
    pub dimension: usize,
    /// Share of answers that may be far from the others: with more, it becomes likely that nothing is released.
    pub outliers: f64,
    /// ρ: how far apart answers that agree may be, in l2 norm on that scale. `None`: found privately.
    pub radius: Option<f64>,
    /// Which data sets are neighbours.
    #[serde(flatten)]
    pub neighbours: Neighbours,
}

/// A planned and certified mean of answers that agree.
#[derive(Clone, Debug)]
pub struct AgreedPlan {
    /// Noise of the mean over what a record's presence moves it by.
    pub noise_multiplier: f64,
    /// The certified privacy event of the plan.
    pub certificate: Certificate,
    /// Everything the run needs.
    pub schedule: AgreedSchedule,
}

/// All parameters, for the report.
#[derive(Clone, Debug, Serialize)]
pub struct AgreedSchedule {
    /// C: number of groups.
    pub groups: u64,
    /// Answers within the radius of one of them without which nothing is released.
    pub core: u64,
    /// ε of the question whether so many agree.
    pub test_epsilon: f64,
    /// ε of finding the radius, and the radii that are tried, in order. `None` where the user gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<RadiusSearch>,
    /// Standard deviation of the noise in each number of the mean, over the radius.
    pub noise_over_radius: f64,
    #[serde(skip)]
    agreement: Agreement,
}

/// How a radius is found.
#[derive(Clone, Debug, Serialize)]
pub struct RadiusSearch {
    /// ε of the search.
    pub epsilon: f64,
    /// Radii that are tried, from small to large.
    pub radii: Vec<f64>,
    /// The first is taken at which about so many pairs of answers are close, times [`WIDER`].
    pub pairs: u64,
}

/// What is released of groups' answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreed {
    /// The mean of the answers that agree, on their scale. `None`: too few agree.
    pub mean: Option<Vec<f64>>,
    /// ρ, told or found. `None`: none was found.
    pub radius: Option<f64>,
    /// Standard deviation of the noise in each number of the mean; NaN where there is none.
    pub noise_std: f64,
}

/// Shares of ε for the question whether answers agree, of which the one with the least noise is taken.
const TESTS: [f64; 7] = [0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7];
/// Share of ε for the radius, where it is found.
const SEARCH: f64 = 0.2;
/// Share of δ for answers that pass though too few agree.
const MISSES: f64 = 0.1;
/// Factor on a radius that was found: it was found with noise, and a larger one costs only noise in proportion.
const WIDER: f64 = 1.5;
/// Most noise in each number, where the whole range is 2.
const MAX_NOISE: f64 = 4096.0;
/// log2 of the smallest radius that is tried.
const SMALLEST: i32 = -20;

/// Radii in steps of the grid.
fn steps(radius: f64) -> u64 {
    (radius / Answers::grid().step()).round() as u64
}

impl RadiusSearch {
    fn new(problem: &AgreedProblem, epsilon: f64) -> Self {
        // from the smallest on by √2 until nothing is further apart
        let most = 2.0 * (problem.dimension as f64).sqrt();
        let radii = (0..).map(|k| 2f64.powf(f64::from(SMALLEST) + 0.5 * f64::from(k)));
        let mut radii: Vec<f64> = radii.take_while(|radius| *radius < most).collect();
        radii.push(most);
        // three quarters of all pairs: what is left to noise on either side is about the same
        Self { epsilon, radii, pairs: problem.groups * problem.groups * 3 / 4 }
    }

    fn mechanism(&self, problem: &AgreedProblem) -> Result<AboveThreshold, CuratorError> {
        let relation = problem.neighbours.relation;
        AboveThreshold::new(self.epsilon, moved_pairs(problem.groups, relation), 1, false, relation)
    }
}

impl AgreedPlan {
    /// Shares ε among radius, agreement and mean so that the noise is least. Reads no record.
    ///
    /// # Errors
    /// If there are too few groups for the budget, or a number is out of range.
    pub fn new(problem: &AgreedProblem, budget: Budget) -> Result<Self, NotApplicable> {
        let (epsilon, delta) = (budget.epsilon(), budget.delta());
        if delta == 0.0 {
            return Err(NotApplicable::Problem(
                "releasing answers that agree needs delta > 0, since too few could pass as enough by chance; give a \
                 small delta, for example 1e-6"
                    .into(),
            ));
        }
        let most = 2.0 * (problem.dimension as f64).sqrt();
        if let Some(radius) = problem.radius
            && !(radius >= 2f64.powi(SMALLEST) && radius <= most)
        {
            return Err(NotApplicable::Option(
                format!(
                    "the radius is {}; give a number from 1e-6 to {}, in units of half the range of each number, or \
                 leave it out to have it found privately",
                    Shown(radius),
                    Shown(most)
                )
                .into(),
            ));
        }
        if !(0.0..=0.15).contains(&problem.outliers) {
            return Err(NotApplicable::Option(
                format!(
                    "the share of outliers is {}; give a number from 0 to 0.15, since nothing can be released where \
                 fewer than two thirds of the answers agree",
                    Shown(problem.outliers)
                )
                .into(),
            ));
        }
        if problem.groups > 50_000 || problem.dimension == 0 || problem.dimension > 1 << 24 {
            return Err(NotApplicable::Problem(
                "the number of groups or of numbers is out of range; give at most 50000 groups and 1 to 2^24 numbers"
                    .into(),
            ));
        }
        let search = problem.radius.is_none().then(|| RadiusSearch::new(problem, SEARCH * epsilon));
        let left = search.as_ref().map_or(epsilon, |search| epsilon - search.epsilon);
        let miss = MISSES * delta;
        let tried = TESTS.iter().filter_map(|share| Self::with(problem, budget, search.clone(), share * left, miss));
        // more is beyond what the samplers draw, and of no use
        let usable = |plan: &Self| plan.schedule.noise_over_radius * most < MAX_NOISE;
        let best =
            tried.filter(usable).min_by(|a, b| a.schedule.noise_over_radius.total_cmp(&b.schedule.noise_over_radius));
        best.ok_or_else(|| {
            // the largest share wants the fewest
            let enough =
                |groups: &u64| Agreement::of(*groups, TESTS[TESTS.len() - 1] * left, miss, problem.outliers).is_some();
            let fewest = (3..=15).map(|k| 1u64 << k).find(enough);
            let fewest = fewest.map(|enough_for| {
                let (mut low, mut high) = (enough_for / 2, enough_for);
                while high - low > 1 {
                    let middle = u64::midpoint(low, high);
                    if enough(&middle) { high = middle } else { low = middle }
                }
                format!("about {high} or more groups are enough at this budget")
            });
            NotApplicable::Problem(
                format!(
                    "{} groups are too few to tell privately whether they agree; {}",
                    problem.groups,
                    fewest.unwrap_or_else(
                        || "no number of groups is enough at this budget; raise epsilon or delta".into()
                    )
                )
                .into(),
            )
        })
    }

    fn with(
        problem: &AgreedProblem,
        budget: Budget,
        search: Option<RadiusSearch>,
        test: f64,
        miss: f64,
    ) -> Option<Self> {
        let agreement = Agreement::of(problem.groups, test, miss, problem.outliers)?;
        let relation = problem.neighbours.relation;
        let mechanism = match &search {
            Some(search) => Some(search.mechanism(problem).ok()?),
            None => None,
        };
        let event = |noise: f64| {
            let mean = AgreedMean::planned(&agreement, problem.dimension, noise, relation);
            match &mechanism {
                // its samplers are those of as many questions as it could be asked
                Some(mechanism) => {
                    let drawn = SamplerError::proved(mechanism.sampler_error().unwrap_or(f64::NAN));
                    Event::composed(vec![drawn.on(mechanism.event()), mean])
                }
                None => mean,
            }
        };
        let (noise_multiplier, certificate) = calibrate::noise(event, problem.neighbours.within(budget)).ok()?;
        let moved = agreement.moved_mean() / relation.sum_sensitivity();
        let schedule = AgreedSchedule {
            groups: problem.groups,
            core: agreement.core,
            test_epsilon: test,
            search,
            noise_over_radius: noise_multiplier * moved,
            agreement,
        };
        Some(Self { noise_multiplier, certificate, schedule })
    }

    /// Releases the mean of the `answers` that agree; `curator` has been opened for the plan's certificate.
    ///
    /// # Errors
    /// If the answers are not those that were planned for.
    pub fn run(
        &self,
        problem: &AgreedProblem,
        answers: &Sensitive<Answers>,
        curator: &mut Curator,
    ) -> Result<Released<Agreed>, CuratorError> {
        let AgreedSchedule { test_epsilon, agreement, .. } = self.schedule;
        let relation = problem.neighbours.relation;
        let radius = match (&self.schedule.search, problem.radius) {
            (None, radius) => radius,
            (Some(search), _) => {
                let mut stream = curator.open(&search.mechanism(problem)?)?;
                let radii: Vec<u64> = search.radii.iter().map(|radius| steps(*radius)).collect();
                let counts = Answers::close_pairs(answers, &radii, relation);
                let mut found = None;
                for (radius, count) in search.radii.iter().zip(&counts) {
                    if *stream.is_above(count, search.pairs as i64)?.get() {
                        found = Some((WIDER * radius).min(2.0 * (problem.dimension as f64).sqrt()));
                        break;
                    }
                }
                found
            }
        };
        let Some(radius) = radius else {
            return Ok(curator.postprocess(Agreed { mean: None, radius: None, noise_std: f64::NAN }));
        };
        let (steps, z) = (steps(radius), self.noise_multiplier);
        let mechanism = AgreedMean::new(agreement, test_epsilon, steps, problem.dimension, z, relation)?;
        let mean = curator.release(&mechanism, answers)?.into_inner();
        let noise_std = if mean.is_some() { mechanism.standard_deviation() } else { f64::NAN };
        Ok(curator.postprocess(Agreed { mean, radius: Some(radius), noise_std }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::NoiseSource;
    use dpopt_privacy::Relation;

    fn problem(groups: u64, radius: Option<f64>, relation: Relation) -> AgreedProblem {
        AgreedProblem { groups, dimension: 2, outliers: 0.05, radius, neighbours: Neighbours::of_records(relation) }
    }

    /// Around (.3, −.2) with a spread of about .01, one in twenty anywhere.
    fn answers(groups: u64) -> Sensitive<Answers> {
        let spread = |g: u64, k: u64| 0.02 * ((g * 7919 + k * 104_729) % 1000) as f64 / 1000.0 - 0.01;
        let rows: Vec<Vec<f64>> = (0..groups)
            .map(|g| {
                if g % 20 == 7 {
                    vec![((g % 13) as f64 - 6.0) / 6.0, 1.0]
                } else {
                    vec![0.3 + spread(g, 1), -0.2 + spread(g, 2)]
                }
            })
            .collect();
        Sensitive::new(Answers::new(2, rows.iter().map(|row| Some(row.as_slice()))).unwrap())
    }

    #[test]
    fn the_mean_of_answers_that_agree_is_released_within_the_budget() {
        let budget = Budget::new(2.0, 1e-6).unwrap();
        for relation in [Relation::ZeroOut, Relation::ReplaceOne, Relation::AddOrRemove] {
            for radius in [Some(0.04), None] {
                let problem = problem(800, radius, relation);
                let plan = AgreedPlan::new(&problem, budget).unwrap();
                assert!(plan.certificate.bound().upper <= 2.0);
                let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(5));
                let found = plan.run(&problem, &answers(800), &mut curator).unwrap().into_inner();
                assert!(curator.is_spent());
                let (mean, radius) = (found.mean.unwrap(), found.radius.unwrap());
                // answers are within .0283 of each other, so that what is found is not far above 1.5 times that
                assert!((0.02..0.09).contains(&radius), "{radius}");
                assert!(found.noise_std < 0.15 * radius, "{} {radius}", found.noise_std);
                let bound = 5.0 * found.noise_std + 0.002;
                assert!((mean[0] - 0.3).abs() < bound && (mean[1] + 0.2).abs() < bound, "{mean:?}");
            }
        }
    }

    #[test]
    fn answers_that_do_not_agree_are_an_answer_too() {
        let budget = Budget::new(2.0, 1e-6).unwrap();
        let problem = problem(400, Some(0.001), Relation::ZeroOut);
        let plan = AgreedPlan::new(&problem, budget).unwrap();
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(5));
        let found = plan.run(&problem, &answers(400), &mut curator).unwrap().into_inner();
        assert!(found.mean.is_none() && found.noise_std.is_nan());
        // nobody answers: no radius is found
        let nobody = Sensitive::new(Answers::new(2, (0..400).map(|_| None)).unwrap());
        let problem = AgreedProblem { radius: None, ..problem };
        let plan = AgreedPlan::new(&problem, budget).unwrap();
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(5));
        assert_eq!(plan.run(&problem, &nobody, &mut curator).unwrap().into_inner().radius, None);
    }

    #[test]
    fn too_few_groups_are_refused_with_the_number_that_would_do() {
        let told = |groups, epsilon, delta| {
            let problem = problem(groups, Some(0.1), Relation::ReplaceOne);
            AgreedPlan::new(&problem, Budget::new(epsilon, delta).unwrap()).unwrap_err().to_string()
        };
        let text = told(50, 2.0, 1e-6);
        let fewest: u64 = text.split("about ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((100..250).contains(&fewest), "{text}");
        let enough = problem(fewest, Some(0.1), Relation::ReplaceOne);
        assert!(AgreedPlan::new(&enough, Budget::new(2.0, 1e-6).unwrap()).is_ok());
        assert!(told(300, 2.0, 0.0).contains("delta > 0"));
        let problem = AgreedProblem { radius: Some(7.0), ..problem(300, None, Relation::ZeroOut) };
        assert!(AgreedPlan::new(&problem, Budget::new(2.0, 1e-6).unwrap()).unwrap_err().to_string().contains("radius"));
    }

    #[test]
    fn the_least_noise_is_near_that_of_the_specification() {
        // groups and test of Liu 2024, Algorithm 31: C = 329, ε = 2, δ = 1e-6, half of ε for the test, half of δ for misses: σ/τ = .1085. Here misses
        // have a tenth of δ
        let problem = AgreedProblem { outliers: 0.0, ..problem(329, Some(0.1), Relation::ReplaceOne) };
        let plan = AgreedPlan::new(&problem, Budget::new(2.0, 1e-6).unwrap()).unwrap();
        assert!(plan.schedule.noise_over_radius < 0.1086, "{}", plan.schedule.noise_over_radius);
        assert!(plan.schedule.noise_over_radius > 0.05);
    }
}
