//! What a fitted model promises, stage by stage, in a form that can be recomputed.

use dpopt_objective::objective::Evidence;
use dpopt_optimize::plan::Grade;
use dpopt_privacy::accountant::pld::Quality;
use dpopt_privacy::accountant::{self, Accountant, AccountingError};
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::rounding::{foreign, probability_up, protected, six_digits_up};
use dpopt_privacy::{Bound, Budget, Certificate, Event, Neighbours, Relation, Shown, Terms, Unit};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use thiserror::Error;

/// The (ε, δ) guarantee of everything a run released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guarantee {
    /// The privacy unit: a row, a unit of several rows, or a user.
    pub unit: Unit,
    /// The column whose values are the units, where rows of one value are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_column: Option<String>,
    /// Who owns which rows, and so who shares rows with whom, is taken as known and not protected: a row may have several owners.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub public_ownership: bool,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// ε that the user allowed.
    pub epsilon: f64,
    /// δ that the user allowed.
    pub delta: f64,
    /// Certified ε of the whole run: the sum over stages (basic composition), rounded up.
    pub certified_epsilon: f64,
    /// How far the claim can be trusted: the weakest of its parts.
    pub grade: Grade,
    /// What a grade below certified rests on, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// A fixed seed makes noise predictable: no guarantee against who knows it.
    pub insecure_seed: bool,
    /// The parts, in order. Later stages were planned after earlier ones' outputs.
    pub stages: Vec<Stage>,
}

/// One stage of a run with its share of the budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// `labels`, `bounds` or `model`.
    pub name: String,
    /// ε of its share.
    pub epsilon: f64,
    /// δ of its share.
    pub delta: f64,
    /// The privacy event of what the stage released.
    pub event: Event,
    /// Certified ε of the event at the stage's δ, by which accountant, with what slack.
    pub bound: Bound,
}

/// What a lattice of this version is asked for where a stated ε is exceeded by less than [`NEARLY`] of it.
const FINER: Quality = Quality { tolerance: 1e-9, most_points: 1 << 22, bracket: true };
const NEARLY: f64 = 1e-2;
/// How far a bound from below may lie above a true one by rounding, as the accountants' own gate has it.
const ROUNDED: f64 = 1e-9;

/// A guarantee accounted anew.
#[derive(Clone, Debug)]
pub struct Recomputed {
    /// Certified ε of each stage's event at the stage's δ, which may be more than the stage's ε; or why there is none.
    pub stages: Vec<Result<Bound, String>>,
    /// Sum of the ε of all stages, rounded up; infinite if a stage has none.
    pub epsilon: f64,
    /// Sum of the stages' δ, rounded up.
    pub delta: f64,
    /// What does not agree with what is stated; empty if the guarantee holds.
    pub faults: Vec<String>,
}

/// A stage that was certified for other neighbours than the run promises: two relations, or two units, never add up.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "stage {stage} is certified for {certified}, and the run guarantees {promised}; plan all stages for the same \
     neighbours"
)]
pub struct OtherNeighbours {
    /// Name of the stage.
    pub stage: String,
    /// The neighbours for which the stage's plan is certified.
    pub certified: Neighbours,
    /// The neighbours for which the run promises its guarantee.
    pub promised: Neighbours,
}

impl Stage {
    /// Describes a certified stage.
    fn new(name: &str, certificate: &Certificate) -> Self {
        Self {
            name: name.into(),
            epsilon: certificate.budget().epsilon(),
            delta: certificate.budget().delta(),
            event: certificate.event().clone(),
            bound: certificate.bound().clone(),
        }
    }
}

impl Guarantee {
    /// What is not protected where a row may have several owners.
    pub const OWNERSHIP: &str = "who owns which rows, and so who shares rows with whom, is not protected";

    /// The guarantee of a run that has not released anything.
    pub fn new(terms: Terms, insecure_seed: bool) -> Self {
        let Terms { budget, neighbours: Neighbours { unit, relation } } = terms;
        Self {
            unit,
            unit_column: None,
            public_ownership: false,
            relation,
            epsilon: budget.epsilon(),
            delta: budget.delta(),
            certified_epsilon: 0.0,
            grade: Grade::Certified,
            evidence: Vec::new(),
            insecure_seed,
            stages: Vec::new(),
        }
    }

    /// With one more stage, which may be believed for no better reason than `rests_on`.
    ///
    /// # Errors
    /// If its certificate is for other neighbours.
    pub fn with(&self, name: &str, rests_on: Evidence, certificate: &Certificate) -> Result<Self, OtherNeighbours> {
        let (certified, promised) = (certificate.neighbours(), self.neighbours());
        if certified != promised {
            return Err(OtherNeighbours { stage: name.into(), certified, promised });
        }
        let mut with = self.clone();
        with.rest_on(rests_on);
        with.stages.push(Stage::new(name, certificate));
        with.certified_epsilon = with.epsilon_of_first(with.stages.len());
        Ok(with)
    }

    /// Notes that what it promises rests on this too.
    pub(crate) fn rest_on(&mut self, evidence: Evidence) {
        self.grade = self.grade.max(Grade::resting_on(evidence));
    }

    /// Notes that it rests on this too, and says why.
    pub(crate) fn rest_on_evidence(&mut self, evidence: Evidence, why: &str) {
        self.rest_on(evidence);
        let known = self.evidence.iter().any(|known| known == why);
        if Grade::resting_on(evidence) > Grade::Certified && !known {
            self.evidence.push(why.into());
        }
    }

    /// What stands before a promise of a lower grade, and why; nothing of a certified one.
    pub fn reservation(&self) -> Option<String> {
        let grade = match self.grade {
            Grade::Certified => return None,
            Grade::Checked => "checked, not proved",
            Grade::Research => "research grade: not proved, or based on an assumption that was not checked",
        };
        Some(std::iter::once(grade).chain(self.evidence.iter().map(String::as_str)).collect::<Vec<_>>().join("; "))
    }

    /// The guarantee with every stage accounted by `accountant`.
    ///
    /// # Errors
    /// If the accountant has no bound for a stage.
    pub fn accounted_by(mut self, accountant: &dyn Accountant) -> Result<Self, AccountingError> {
        for stage in &mut self.stages {
            stage.bound = accountant.epsilon(&stage.event, self.relation, stage.delta)?;
        }
        self.certified_epsilon = self.epsilon_of_first(self.stages.len());
        Ok(self)
    }

    /// Who is protected: `row`, or the column whose values are the units.
    pub fn protected(&self) -> &str {
        self.unit_column.as_deref().unwrap_or(protected(self.unit))
    }

    /// Which data sets are neighbours.
    pub fn neighbours(&self) -> Neighbours {
        Neighbours { unit: self.unit, relation: self.relation }
    }

    /// What neighbouring data sets have in common beside the plan, so that it is public and not protected: noun phrases, none under add-or-remove.
    /// Without `counts_rows` a run over units has no use for the number of rows, and nobody learns it.
    pub(crate) fn public_quantities(&self, counts_rows: bool) -> Vec<&'static str> {
        let mut public = match (self.relation, self.unit) {
            (Relation::AddOrRemove, _) => Vec::new(),
            (_, Unit::Record) => vec!["the number of rows"],
            (_, Unit::User) if counts_rows => {
                vec!["the number of rows", "the number of units", "how many rows a unit has"]
            }
            (_, Unit::User) => vec!["the number of units"],
            (_, Unit::Round) => vec!["the number of rounds"],
        };
        if self.public_ownership {
            public.extend([Self::OWNERSHIP.trim_end_matches(", is not protected"), "the number of rows that are kept"]);
        }
        public
    }

    /// Certified ε of the first `count` stages, added up and rounded up.
    pub fn epsilon_of_first(&self, count: usize) -> f64 {
        self.stages
            .iter()
            .take(count)
            .map(|s| s.bound.upper)
            .fold(0.0, |sum, e| if sum == 0.0 { e } else { (sum + e).next_up() })
    }

    /// Says who is protected, where it is not rows: the name of a unit, and whether a row may have several.
    pub(crate) fn of_units(&mut self, unit: Option<(String, bool)>) {
        if let Some((name, shares_rows)) = unit {
            self.unit_column = Some(name);
            self.public_ownership = shares_rows;
        }
    }

    /// Accounts every stage anew, from its event alone, and holds the result against what is stated.
    pub fn recompute(&self) -> Recomputed {
        let stages: Vec<Result<Bound, String>> = self.stages.iter().map(|stage| self.cost_of(stage)).collect();
        // rounded up, and no stage is no promise
        let sum = |parts: &mut dyn Iterator<Item = f64>| {
            parts.fold(0.0, |sum: f64, part| if sum == 0.0 { part } else { (sum + part).next_up() })
        };
        let epsilon = sum(&mut stages.iter().map(|s| s.as_ref().map_or(f64::INFINITY, |b| b.upper)));
        let delta = sum(&mut self.stages.iter().map(|s| s.delta));
        // versions of the accountants may differ in the last digits, never by more; less than what is attained is a fault by however little
        let stated = |stated: f64, found: f64| found <= stated * (1.0 + 1e-6);
        let refuted = |stated: f64, attained: f64| attained > stated * (1.0 + ROUNDED);
        let attained = |bound: &Bound| bound.lower.unwrap_or(0.0);
        let mut faults = Vec::new();
        if self.stages.is_empty() {
            faults.push("it lists no release".into());
        }
        for (stage, found) in self.stages.iter().zip(&stages) {
            let name = foreign(&stage.name);
            match found {
                Err(why) => faults.push(format!("stage {name}: {why}")),
                Ok(bound) => {
                    let within = bound.upper <= stage.epsilon;
                    let claim = if within { stage.bound.upper } else { stage.epsilon };
                    if !within || !stated(claim, bound.upper) || refuted(claim, attained(bound)) {
                        let cost = cost_at(bound.upper, stage.delta);
                        faults
                            .push(format!("stage {name} states epsilon {}, but its event costs {cost}", Shown(claim)));
                    }
                }
            }
        }
        // what is wrong with a stage is wrong with the sums, and said once
        if faults.is_empty() {
            let cost = cost_at(epsilon, delta);
            if !(epsilon <= self.epsilon) {
                faults.push(format!("it states epsilon {}, but the events in it cost {cost}", Shown(self.epsilon)));
            } else if !stated(self.certified_epsilon, epsilon)
                || refuted(self.certified_epsilon, stages.iter().flatten().map(attained).sum())
            {
                let certified = Shown(self.certified_epsilon);
                faults.push(format!("it states a certified epsilon of {certified}, but the events in it cost {cost}"));
            }
            // the shares were rounded down, their sum here up
            if !stated(self.delta, delta) {
                let (own, found) = (Shown(self.delta), probability_up(delta));
                faults.push(format!("it states delta {own}, but the events in it have delta {found} together"));
            }
        }
        Recomputed { stages, epsilon, delta, faults }
    }

    /// Certified ε of a stage's event at the stage's δ, also where it is more than the stage's ε.
    fn cost_of(&self, stage: &Stage) -> Result<Bound, String> {
        let budget = Budget::new(stage.epsilon, stage.delta).map_err(|e| e.to_string())?;
        let account = |quality| accountant::epsilon_at(&stage.event, self.relation, stage.delta, quality);
        let bound = match dpopt_privacy::certify(&stage.event, self.neighbours().within(budget)) {
            Ok(certificate) => certificate.bound().clone(),
            Err(CertifyError::OverBudget { .. }) => account(Quality::BRACKET).map_err(|e| e.to_string())?,
            Err(other) => return Err(other.to_string()),
        };
        // lattices of two versions are off by some 1e-6 of ε (1e-3 at rare samples), one a little more than the other: a finer one before that is a fault
        let barely = |limit: f64| bound.upper > limit && bound.upper <= limit * (1.0 + NEARLY);
        if !(barely(stage.epsilon) || barely(stage.bound.upper)) {
            return Ok(bound);
        }
        Ok(account(FINER).ok().filter(|finer| finer.upper < bound.upper).unwrap_or(bound))
    }

    /// δ at ε for the whole run: δ of the model stage at what the other stages leave, plus their δ. `None` if no
    /// accountant has a number.
    pub fn delta_at(&self, epsilon: f64) -> Option<f64> {
        self.deltas_at(&[epsilon]).into_iter().next().flatten()
    }

    /// [`delta_at`](Self::delta_at) each of `epsilons`, in a fraction of the time that one after the other takes.
    pub fn deltas_at(&self, epsilons: &[f64]) -> Vec<Option<f64>> {
        let Some((last, earlier)) = self.stages.split_last() else { return vec![None; epsilons.len()] };
        let spent: f64 = self.epsilon_of_first(earlier.len());
        let delta_spent: f64 = earlier.iter().map(|s| s.delta).sum();
        let left: Vec<f64> = epsilons.iter().map(|epsilon| epsilon - spent).collect();
        let asked: Vec<f64> = left.iter().copied().filter(|left| *left >= 0.0).collect();
        let mut found = match accountant::deltas(&last.event, self.relation, &asked) {
            Ok(deltas) => deltas.into_iter().map(Some).collect(),
            // where there is no number for one of them
            Err(_) => {
                let one = |left: &f64| Some(accountant::delta(&last.event, self.relation, *left).ok()?.upper);
                asked.iter().map(one).collect::<Vec<_>>()
            }
        }
        .into_iter();
        let at = |left: f64| if left >= 0.0 { found.next().flatten() } else { None };
        left.into_iter().map(at).map(|delta| Some((delta? + delta_spent).min(1.0))).collect()
    }
}

/// ε and δ, rounded up.
fn cost_at(epsilon: f64, delta: f64) -> String {
    format!("epsilon {} at delta {}", six_digits_up(epsilon), probability_up(delta))
}

/// `epsilon 1 (certified 0.998712), delta 1e-6, per row, zero-out`: what is certified is rounded up. What is not protected where a row may have several
/// owners is said with it, and so is what a grade below certified rests on.
impl Display for Guarantee {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (allowed, certified) = (Shown(self.epsilon), six_digits_up(self.certified_epsilon));
        let (delta, unit) = (probability_up(self.delta), foreign(self.protected()));
        write!(f, "epsilon {allowed} (certified {certified}), delta {delta}, per {unit}, {}", self.relation)?;
        if self.public_ownership {
            write!(f, "; {}", Self::OWNERSHIP)?;
        }
        match self.reservation() {
            Some(reservation) => write!(f, "; {reservation}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_public_follows_from_relation_and_unit() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let public = |unit, relation, counts_rows| {
            let terms = Neighbours { unit, relation }.within(budget);
            Guarantee::new(terms, false).public_quantities(counts_rows).join("; ")
        };
        for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
            assert_eq!(public(Unit::Record, relation, true), "the number of rows");
            let of_units = "the number of rows; the number of units; how many rows a unit has";
            assert_eq!(public(Unit::User, relation, true), of_units);
            assert_eq!(public(Unit::User, relation, false), "the number of units");
            assert_eq!(public(Unit::Round, relation, true), "the number of rounds");
        }
        for unit in [Unit::Record, Unit::User, Unit::Round] {
            assert_eq!(public(unit, Relation::AddOrRemove, true), "");
        }
        let mut owned = Guarantee::new(Neighbours::of_users(Relation::ZeroOut).within(budget), false);
        owned.of_units(Some(("sender and recipient".into(), true)));
        let owned = owned.public_quantities(true);
        assert_eq!(
            owned[3..],
            ["who owns which rows, and so who shares rows with whom", "the number of rows that are kept"]
        );
    }

    /// A guarantee of one stage that states these ε of `event` at this δ, accounted anew.
    fn with_stated(event: &Event, delta: f64, epsilon: f64, certified: f64) -> Recomputed {
        let records = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(0.2, delta).unwrap());
        let certificate = dpopt_privacy::certify(event, records).unwrap();
        let mut guarantee = Guarantee::new(records, false).with("model", Evidence::Proved, &certificate).unwrap();
        (guarantee.epsilon, guarantee.certified_epsilon) = (epsilon, certified);
        (guarantee.stages[0].epsilon, guarantee.stages[0].bound.upper) = (epsilon, certified);
        guarantee.recompute()
    }

    /// This event's ε was said to be .11874839843 by a lattice that differs by 3e-6 of it from today's. By convolution at two lattice steps its δ is
    /// 1.800541e-7 at .1187 and 1.797862e-7 at .11874, so that its ε at 1.8e-7 is .1187081.
    #[test]
    fn a_lattice_a_little_tighter_than_ours_is_no_fault() {
        let event = Event::gaussian(0.8412).poisson_sampled(0.0003509).self_composed(344);
        let found = with_stated(&event, 1.8e-7, 0.11874839843368015, 0.11874839843368015);
        assert!(found.faults.is_empty(), "{:?} {}", found.faults, found.epsilon);
        // at a rate of 1e-6 they differ by 1.2e-4
        let rare = Event::gaussian(0.6626).poisson_sampled(1.283e-6).self_composed(309);
        let found = with_stated(&rare, 2.877e-11, 0.007278479302684793, 0.007278479302684793);
        assert!(found.faults.is_empty(), "{:?} {}", found.faults, found.epsilon);
        // a hundred-thousandth less than the truth is a fault, as what the run promises and as what is certified
        let less = 0.1187081 * (1.0 - 1e-5);
        assert!(!with_stated(&event, 1.8e-7, less, less).faults.is_empty());
        assert!(!with_stated(&event, 1.8e-7, 0.2, less).faults.is_empty());
    }

    /// What is certainly attained is never stated as less, by however little.
    #[test]
    fn less_than_what_is_attained_is_a_fault() {
        for event in [Event::gaussian(30.0), Event::gaussian(2.0).poisson_sampled(0.01).self_composed(20)] {
            let found = with_stated(&event, 1.8e-7, 0.2, 0.2);
            let bound = found.stages[0].as_ref().unwrap();
            let (lower, upper) = (bound.lower.unwrap(), bound.upper);
            assert!(with_stated(&event, 1.8e-7, 0.2, upper).faults.is_empty());
            let faults = with_stated(&event, 1.8e-7, 0.2, lower * (1.0 - 1e-8)).faults;
            assert!(faults.len() == 1 && faults[0].contains("its event costs"), "{faults:?} {lower} {upper}");
        }
        // where both bounds agree, a part in ten million is seen
        let bound = with_stated(&Event::gaussian(30.0), 1.8e-7, 0.2, 0.2).stages.remove(0).unwrap();
        assert!(!with_stated(&Event::gaussian(30.0), 1.8e-7, 0.2, bound.upper * (1.0 - 1e-7)).faults.is_empty());
    }

    #[test]
    fn stages_for_other_neighbours_are_refused_and_the_weakest_grade_counts() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let records = Neighbours::of_records(Relation::ZeroOut);
        let certified = |neighbours: Neighbours| {
            dpopt_privacy::certify(&Event::gaussian(20.0), neighbours.within(Budget::new(0.5, 5e-7).unwrap())).unwrap()
        };
        let one = Guarantee::new(records.within(budget), false).with("labels", Evidence::Proved, &certified(records));
        let one = one.unwrap();
        assert_eq!((one.grade, one.neighbours(), one.stages.len()), (Grade::Certified, records, 1));
        assert!(one.certified_epsilon > 0.0 && one.recompute().faults.is_empty());
        // never shown as less
        let text = one.to_string();
        let shown = text.split_once("(certified ").and_then(|(_, rest)| rest.split_once(')')).unwrap().0;
        assert!(shown.parse::<f64>().unwrap() >= one.certified_epsilon, "{text}");
        assert!(text.starts_with("epsilon 1 (") && text.ends_with("delta 1e-6, per row, zero-out"), "{text}");
        for other in [Neighbours::of_users(Relation::ZeroOut), Neighbours::of_records(Relation::ReplaceOne)] {
            let refused = one.clone().with("model", Evidence::Proved, &certified(other)).unwrap_err();
            assert_eq!((refused.certified, refused.promised), (other, records));
            assert!(refused.to_string().contains("zero-out of one record"), "{refused}");
        }
        for evidence in [Evidence::Enforced, Evidence::Proved, Evidence::Public] {
            assert_eq!(one.with("model", evidence, &certified(records)).unwrap().grade, Grade::Certified);
        }
        let mut tried = one.clone();
        for _ in 0..2 {
            tried.rest_on_evidence(Evidence::Checked, "tried on 14 made-up records");
        }
        assert_eq!((tried.grade, tried.evidence.len()), (Grade::Checked, 1));
        assert!(tried.to_string().ends_with("zero-out; checked, not proved; tried on 14 made-up records"), "{tried}");
        tried.rest_on_evidence(Evidence::Public, "the number of records is declared");
        assert_eq!((tried.grade, tried.evidence.len()), (Grade::Checked, 1));
        // each change is one fault, in numbers that are never less than what the events cost
        let cost = six_digits_up(one.certified_epsilon);
        let mut changed = one.clone();
        changed.epsilon = 0.1;
        let faults = changed.recompute().faults;
        assert_eq!(faults, [format!("it states epsilon 0.1, but the events in it cost epsilon {cost} at delta 5e-7")]);
        changed.stages[0].epsilon = 0.1;
        let found = changed.recompute();
        assert!(found.stages[0].as_ref().is_ok_and(|bound| bound.upper > 0.1) && found.epsilon.is_finite());
        let event = format!("but its event costs epsilon {cost} at delta 5e-7");
        assert_eq!(found.faults, [format!("stage labels states epsilon 0.1, {event}")]);
        let mut changed = one.clone();
        changed.stages[0].bound.upper = 0.1;
        assert_eq!(changed.recompute().faults, [format!("stage labels states epsilon 0.1, {event}")]);
        let mut changed = one.clone();
        changed.certified_epsilon = 0.1;
        assert!(
            changed.recompute().faults[0].starts_with("it states a certified epsilon of 0.1, but the events in it")
        );
        let mut changed = one.clone();
        changed.delta = 1e-7;
        assert_eq!(changed.recompute().faults, ["it states delta 1e-7, but the events in it have delta 5e-7 together"]);
        let two = one.with("model", Evidence::Assumed, &certified(records)).unwrap();
        let three = two.with("model", Evidence::Proved, &certified(records)).unwrap();
        assert_eq!((two.grade, three.grade), (Grade::Research, Grade::Research));
        assert!(two.certified_epsilon > one.certified_epsilon && two.recompute().faults.is_empty());
    }
}
