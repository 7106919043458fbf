//! Which of the planned methods runs, and why.

use crate::options::MethodOptions;
use crate::plan::{Grade, NotApplicable};
use crate::prepared::Candidate;
use dpopt_privacy::accountant::AccountingError;
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::rounding::number;
use dpopt_refusal::{Part, text};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

/// The candidate that runs, and why it and no other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Selection {
    /// Place of the method among the candidates.
    #[serde(rename = "chosen")]
    pub place: usize,
    /// Why it was taken.
    pub reason: Reason,
}

/// Why a method was taken. `Display` is what follows "because".
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It was asked for by name.
    ByName,
    /// No other method applies.
    Only,
    /// The predicted error is the smallest of so many methods.
    SmallestRisk {
        /// Number of methods that apply.
        of: usize,
    },
    /// The predicted error is within a factor of two of the smallest, and the method comes first in the tie-break order.
    TieBreakOrder {
        /// The method with the smallest predicted error.
        best: String,
        /// The predicted error of the method.
        risk: f64,
    },
    /// Rows are so few for their features that only an error that grows with ln d is of use.
    Sparse {
        /// The method with the smallest predicted error.
        best: String,
        /// The predicted error of the method.
        risk: f64,
    },
    /// Records are remote, and it passes over them less often than a method that is hardly better.
    FewerPasses {
        /// How often it passes over the records.
        passes: u64,
        /// The method that would run if records were local.
        other: String,
        /// How often that one does.
        of_other: u64,
    },
    /// The method is the first that applies.
    First {
        /// The method with the smallest predicted error.
        best: String,
        /// The predicted error of the method.
        risk: f64,
    },
    /// A rule for this kind of answer, as text.
    Rule(Cow<'static, str>),
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByName => f.write_str("it was chosen by name"),
            Self::Only => f.write_str("it is the only method that applies"),
            Self::SmallestRisk { of } => {
                write!(f, "its predicted error is the smallest of the {of} methods that apply")
            }
            Self::TieBreakOrder { best, risk } => write!(
                f,
                "its predicted error is within 2× of the smallest ({best}, {}). Predictions are no more accurate than \
                 that, so a fixed order decides among such methods: in general the fewest noisy releases first",
                number(*risk)
            ),
            Self::Sparse { best, risk } => write!(
                f,
                "there are many features for so few rows, and only methods whose error grows with ln d are useful \
                 there; the predictions of the other methods (the smallest: {best}, {}) are too optimistic in this \
                 regime",
                number(*risk)
            ),
            Self::FewerPasses { passes, other, of_other } => write!(
                f,
                "the records are remote, and it passes over them {passes} times; {other} passes {of_other} times for \
                 a predicted error that is at most 5 % smaller"
            ),
            Self::First { best, risk } => {
                write!(
                    f,
                    "it is the first that applies; the smallest predicted error is that of {best}, {}",
                    number(*risk)
                )
            }
            Self::Rule(words) => f.write_str(words),
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is compared of a method that applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared<'a> {
    /// Name of the method.
    pub method: &'a str,
    /// Predicted error of the method.
    pub risk: f64,
    /// Gradients of one record that it takes.
    pub gradients: f64,
    /// Place of the method in the tie-break order.
    pub tie_break: usize,
    /// Whether its proved error grows with ln d.
    pub logarithmic: bool,
    /// Whether it stands after all methods that predictions cannot tell from it.
    pub stands_last: bool,
}

impl Reason {
    /// What put `all[chosen]` before the others, which are in the order of preference: each reason is given only if it holds over every one of them.
    pub fn of(all: &[Compared<'_>], chosen: usize) -> Self {
        let Some(own) = all.get(chosen).filter(|_| all.len() > 1) else { return Self::Only };
        let Some(smallest) = all.iter().min_by(|a, b| a.risk.total_cmp(&b.risk)) else { return Self::Only };
        if own.risk <= smallest.risk {
            return Self::SmallestRisk { of: all.len() };
        }
        let (best, risk) = (smallest.method.to_string(), smallest.risk);
        let mut as_good = all.iter().enumerate().filter(|(_, c)| factor_of_two_bucket(c.risk, risk) == 0);
        let fewest = as_good.clone().map(|(_, c)| c.gradients).fold(f64::INFINITY, f64::min);
        // what stands before it is passed over only for ten times the gradients, or if it stands last for the loss
        let first = as_good.all(|(place, c)| {
            c.tie_break >= own.tie_break || c.gradients >= 10.0 * fewest || (c.stands_last && place > chosen)
        });
        match own {
            own if factor_of_two_bucket(own.risk, risk) == 0 && first => Self::TieBreakOrder { best, risk },
            // the only other rule there is
            own if own.logarithmic => Self::Sparse { best, risk },
            _ => Self::First { best, risk },
        }
    }
}

/// How often `risk` is twice the `best`: 0 within a factor of two, all that predictions are good for.
pub fn factor_of_two_bucket(risk: f64, best: f64) -> u32 {
    match (risk / best.max(f64::MIN_POSITIVE)).log2() {
        doublings if doublings.is_finite() => doublings.floor().clamp(0.0, 1e6) as u32,
        _ => u32::MAX,
    }
}

/// The place of the candidate to run.
pub(crate) fn first_applicable(candidates: &[Candidate], options: &MethodOptions) -> Result<usize, NotApplicable> {
    let mut reasons = Vec::new();
    for (place, candidate) in candidates.iter().enumerate() {
        match (&candidate.plan, options.method.as_deref()) {
            (_, Some(wanted)) if wanted != candidate.method => continue,
            (Ok(_), Some(_)) => return Ok(place),
            (Err(why), Some(name)) => return Err(why.clone().of(name)),
            (Ok(plan), None) if plan.summary().grade() == Grade::Certified => return Ok(place),
            (Ok(_), None) => {}
            (Err(why), _) => reasons.push((candidate.method, why)),
        }
    }
    Err(none_applies(&reasons))
}

/// Longer reasons of one method are cut where they stand for others.
const LONGEST_REASON: usize = 320;

/// Why no method applies, in a sentence that begins with what to do: the reason that most methods share; what each lacks is for `explain`.
fn none_applies(reasons: &[(&str, &NotApplicable)]) -> NotApplicable {
    let too_weak = |why: &NotApplicable| {
        matches!(why, NotApplicable::Budget(CertifyError::Accounting(AccountingError::Unreachable(_))))
    };
    if reasons.iter().any(|(_, why)| too_weak(why)) {
        return NotApplicable::Problem(
            "no method applies: epsilon is so large that the accountants certify no guarantee at this delta; give a \
             smaller epsilon, for example 20, or a larger delta (`explain` lists what each method lacks)"
                .into(),
        );
    }
    // the same sentence with other numbers or names of options is the same reason
    let kind = |why: &NotApplicable| why.to_string().replace(|c: char| c.is_ascii_digit(), "");
    let kinds: Vec<String> = reasons.iter().map(|(_, why)| kind(why)).collect();
    let count = |kind: &String| kinds.iter().filter(|other| *other == kind).count();
    // the first of equals: candidates are in order
    let most = (0..kinds.len()).rev().max_by_key(|&i| count(&kinds[i]));
    let Some(at) = most else {
        let none = "no method applies: those that could be planned are of research grade; choose one of them by name";
        return NotApplicable::Problem(none.into());
    };
    let of = match count(&kinds[at]) {
        1 => reasons[at].0.to_string(),
        count => format!("{count} of {} methods", reasons.len()),
    };
    let reason = Part::Reason(reasons[at].1.refusal().into(), LONGEST_REASON);
    NotApplicable::Problem(
        text!["no method applies: ", reason, format!(" ({of}; `explain` lists what each method lacks)")].into(),
    )
}
