//! What to ask of a guarantee, by the layers of NIST SP 800-226 (Guidelines for Evaluating Differential Privacy Guarantees, 2025), and what this release answers.

use super::attack::FALSE_POSITIVE_RATES;
use super::audits::AUDITS;
use super::mechanisms::mechanisms;
use super::release::Release;
use crate::guarantee::Guarantee;
use dpopt_privacy::rounding::{count, detection_bound, foreign, neighbours, number, probability_up, rounded_up};
use dpopt_privacy::{Relation, Unit};

/// One question with its answer, in plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What of a guarantee it belongs to, from what is promised down to who is trusted.
    pub layer: &'static str,
    /// What a reader asks of it.
    pub question: &'static str,
    /// Whether the file or the library answers it.
    pub known: bool,
    /// The answer; of an item that is not known, what is missing.
    pub answer: String,
    /// Name of the fact by which a publisher answers it.
    pub fact: Option<&'static str>,
}

impl Item {
    /// The answer, marked where dpopt has none.
    pub fn told(&self) -> String {
        if self.known { self.answer.clone() } else { format!("Not known to dpopt: {}", self.answer) }
    }
}

const PROMISE: &str = "Promise";
const MECHANISMS: &str = "Mechanisms";
const UTILITY: &str = "Utility";
const IMPLEMENTATION: &str = "Implementation";
const DATA: &str = "Data and trust";

/// All items, from the top of the pyramid to its base.
pub fn checklist(release: &Release) -> Vec<Item> {
    let known =
        |layer, question, answer: String, fact| Item { layer, question, known: true, answer: foreign(&answer), fact };
    let open = |layer, question, answer: &str, fact| Item {
        layer,
        question,
        known: false,
        answer: answer.into(),
        fact: Some(fact),
    };
    let utility = if release.quality.is_empty() {
        open(UTILITY, "How accurate is it?", "the file holds no score and no bound on the error.", "evaluation")
    } else {
        known(UTILITY, "How accurate is it?", release.quality.join(" "), Some("evaluation"))
    };
    vec![
        known(PROMISE, "What are ε and δ?", parameters(release), None),
        known(PROMISE, "What is the unit of privacy?", unit(&release.guarantee), None),
        known(PROMISE, "Which definition, and which data sets are neighbours?", definition(&release.guarantee), None),
        known(PROMISE, "What does this ε mean?", meaning(release), None),
        known(PROMISE, "What else was released about the same people?", other_releases(release), Some("notes")),
        known(MECHANISMS, "Which mechanisms ran, and who accounts for them?", stages(&release.guarantee), None),
        known(MECHANISMS, "Why should they be believed?", belief(release), None),
        utility,
        open(
            UTILITY,
            "Is it less accurate for some groups?",
            "no error of a group is in the file. Noise weighs more on the small groups, and clipping on the rare \
             values.",
            "bias",
        ),
        known(IMPLEMENTATION, "Does floating-point arithmetic leak?", FLOATING_POINT.into(), None),
        known(IMPLEMENTATION, "Where does randomness come from?", randomness(&release.guarantee), None),
        known(IMPLEMENTATION, "Do time and other side channels leak?", SIDE_CHANNELS.into(), Some("timing")),
        known(
            DATA,
            "What was done before the mechanisms ran?",
            preparation(release),
            Some("preprocessing_and_hyperparameter_tuning"),
        ),
        open(
            DATA,
            "Where are the data exposed while they are collected?",
            "how the records were collected, moved and stored before the run.",
            "data_collection",
        ),
        open(
            DATA,
            "Who has access to the data?",
            "who may read the table, the budget ledger and exact results, and for how long they are kept.",
            "access_control",
        ),
        known(DATA, "Who is trusted?", TRUST.into(), Some("actors")),
    ]
}

pub(super) const FLOATING_POINT: &str = "In dpopt sums over records are exact integers, so their sensitivity is exact, and noise is rounded to a public grid. \
    Where a sampler's law differs from the exact one, by less than 2^-110 per draw, δ pays for it; a guarantee with δ = 0 cannot, and tolerates 2^-50 in total. \
    Accounting rounds towards larger ε.";

pub(super) const SIDE_CHANNELS: &str = "Not protected. Loops over records end within a public number of steps, but may end earlier on some tables. \
    The guarantee holds for those who see what was published, and not for those who watch the clock, the memory or the logs of the machine.";

const TRUST: &str = "The central model: whoever runs dpopt sees the records and is trusted, and so are the machine and its generator of randomness. \
    Protection is against readers of what was published, who may know all other records and the code.";

/// ε and δ, or that there are none.
fn parameters(release: &Release) -> String {
    let g = &release.guarantee;
    if let Some(why) = release.no_guarantee() {
        return format!(
            "NO GUARANTEE: {why}. The numbers in the file (ε = {}, δ = {}) do not protect anybody.",
            rounded_up(g.epsilon),
            probability_up(g.delta)
        );
    }
    let mut told = format!(
        "ε is at most {} and δ at most {}, for everything that the run released; its events cost ε = {}.",
        rounded_up(g.epsilon),
        probability_up(g.delta),
        rounded_up(g.certified_epsilon)
    );
    // under add-or-remove these are guesses
    let size = release.units.or(release.rows).filter(|n| *n > 0 && g.relation != Relation::AddOrRemove);
    if let Some(n) = size.filter(|_| g.delta > 0.0) {
        let below = g.delta * (n as f64) < 1.0;
        told.push_str(&format!(
            " δ is {} 1/n for n = {} {}.",
            if below { "below" } else { "NOT below" },
            count(n),
            if release.units.is_some() { "units" } else { "rows" }
        ));
    }
    told
}

/// Who is protected, in words.
pub(super) fn unit(g: &Guarantee) -> String {
    let mut told = match &g.unit_column {
        Some(column) => format!("All rows of one unit, which is one value of “{column}”. People who share a value are protected together, and a person with two values not as a whole."),
        None => match g.unit {
            Unit::Record => "One row. Of a person with several rows each is protected by itself: with k rows their ε is up to k times as large, and their δ grows faster still.".into(),
            Unit::User => "All rows of one user.".into(),
            Unit::Round => "Everything that one round tells the learner.".into(),
        },
    };
    if g.unit == Unit::User && g.relation != Relation::AddOrRemove {
        told.push_str(" How many rows a unit has is not protected.");
    }
    if g.public_ownership {
        told.push_str(&format!(" Not protected either: {}.", Guarantee::OWNERSHIP));
    }
    told
}

/// The definition with its relation, in words.
pub(super) fn definition(g: &Guarantee) -> String {
    let definition = if g.delta == 0.0 { "ε-differential privacy" } else { "(ε, δ)-differential privacy" };
    format!("{definition} under the relation {}: {}.", g.relation.name(), neighbours(g.relation, g.unit))
}

/// A bound as percent, rounded up.
pub(super) fn percent_up(share: f64) -> String {
    format!("{} %", number((share * 1000.0).ceil() / 10.0))
}

fn meaning(release: &Release) -> String {
    if release.no_guarantee().is_some() {
        return "NO GUARANTEE: nothing bounds what an attacker learns.".into();
    }
    let g = &release.guarantee;
    let listed = |of: &dyn Fn(f64) -> f64| FALSE_POSITIVE_RATES.map(|rate| percent_up(of(rate))).join(", ");
    format!(
        "Someone who knows all other records and tests whether those of one unit were used, with false-positive rates \
         of {}, finds them with probabilities of at most {}, whatever mechanism has this ε and δ.",
        listed(&|rate| rate),
        listed(&|rate| detection_bound(g.epsilon, g.delta, rate))
    )
}

/// What a ledger knows of other releases.
pub(super) fn other_releases(release: &Release) -> String {
    match &release.receipt {
        Some(receipt) => format!(
            "The run is charge {} of a budget ledger (identity {}, check {}), written before it used a record. The \
             total of the ledger is not in the file; dpopt ledger shows it.",
            receipt.number, receipt.id, receipt.check
        ),
        None => "No budget ledger was charged, so nothing adds up what this and other releases cost together.".into(),
    }
}

/// Mechanisms and accountant of each stage.
pub(super) fn stages(g: &Guarantee) -> String {
    let told = |stage: &crate::guarantee::Stage| {
        format!(
            "Stage {}: {}; ε = {} at δ = {} by the accountant {}.",
            stage.name,
            mechanisms(&stage.event).join(", "),
            rounded_up(stage.bound.upper),
            probability_up(stage.delta),
            stage.bound.accountant
        )
    };
    let mut all: Vec<String> = g.stages.iter().map(told).collect();
    if g.stages.len() > 1 {
        all.push("Stages add up by basic composition.".into());
    }
    all.join(" ")
}

fn belief(release: &Release) -> String {
    let g = &release.guarantee;
    let grade = match g.reservation() {
        None => "Grade certified: the guarantee holds by construction of the code, and each mechanism has a proof note (docs/proofs).".into(),
        Some(reservation) => format!("{reservation}."),
    };
    let audits: Vec<String> = AUDITS.iter().map(|audit| format!("{} ({})", audit.page, audit.result)).collect();
    let build = match &release.build {
        Some(build) => format!("The program that made it: {build}."),
        None => "The file does not say from which build of the library it came.".into(),
    };
    format!(
        "{grade} Anyone can recompute ε from the events in the file (dpopt verify). The library's own code was \
         audited empirically: {}; an audit can refute a guarantee and never prove one. {build}",
        audits.join(", ")
    )
}

/// Where the noise comes from, and what is assumed of it.
pub(super) fn randomness(g: &Guarantee) -> String {
    if g.insecure_seed {
        return "NO GUARANTEE: from a fixed seed. Whoever knows or guesses it computes the noise.".into();
    }
    "From ChaCha20 under keys that BLAKE3 derives from the operating system's generator. That nobody tells their output \
     from independent uniform bits is assumed, and not part of δ. That no seed was fixed is the file's word."
        .into()
}

fn preparation(release: &Release) -> String {
    let mut told = String::from(
        "Methods, noise and hyper-parameters that nobody gave follow from public facts; labels, ranges and histograms \
         that are learned from records are part of the events.",
    );
    for line in &release.preparation {
        told.push(' ');
        told.push_str(line);
    }
    told.push_str(
        " Not known to dpopt: whether declared ranges, levels or given hyper-parameters were chosen by looking at the \
         records, and whether this release was picked out of several.",
    );
    told
}
