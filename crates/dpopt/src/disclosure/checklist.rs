//! What to ask of a guarantee, by the pyramid of NIST SP 800-226 (Guidelines for Evaluating Differential Privacy Guarantees, initial public draft, 2023), and what
//! this release answers. docs/disclosure.md says which question belongs to which hazard of that text.

use super::attack::FALSE_POSITIVE_RATES;
use super::audits::AUDITS;
use super::mechanisms::{may_fail, mechanisms, records_of_a_unit};
use super::release::{Product, Release};
use crate::guarantee::{Guarantee, Stage};
use crate::recall::Recalls;
use dpopt_privacy::rounding::{count, detection_bound, foreign, neighbours, number, probability_up, rounded_up};
use dpopt_privacy::{Relation, Unit};

/// One question with its answer, in plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The part of the pyramid that it belongs to.
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
    /// An item that the file or the library answers.
    fn known(layer: &'static str, question: &'static str, answer: &str, fact: Option<&'static str>) -> Self {
        Self { layer, question, known: true, answer: foreign(answer), fact }
    }

    /// An item that only the publisher can answer.
    fn open(layer: &'static str, question: &'static str, missing: &str, fact: &'static str) -> Self {
        Self { layer, question, known: false, answer: foreign(missing), fact: Some(fact) }
    }

    /// The answer, marked where dpopt has none.
    pub fn told(&self) -> String {
        if self.known { self.answer.clone() } else { format!("Not known to dpopt: {}", self.answer) }
    }
}

/// All items, from the top of the pyramid to its base. `recalls` are the faults of earlier versions that the release is held against.
pub fn checklist(release: &Release, recalls: &Recalls) -> Vec<Item> {
    [
        epsilon(release),
        unit_of_privacy(release),
        utility(release),
        bias(release),
        algorithms(release, recalls),
        query_model(release),
        threat_model(),
        side_channels(release),
        security(),
        access_control(),
        data_collection(),
    ]
    .concat()
}

fn epsilon(release: &Release) -> Vec<Item> {
    const LAYER: &str = "ε";
    vec![
        Item::known(LAYER, "What are ε and δ?", &parameters(release), None),
        Item::known(LAYER, "What does this ε mean?", &meaning(release), None),
        Item::open(
            LAYER,
            "Is ε small enough for these data?",
            "why this ε was chosen, and which harm it leaves possible.",
            "justification",
        ),
        Item::known(LAYER, "Can δ disclose a unit as a whole?", &failure(release), None),
        Item::known(LAYER, "Can it be compared with other guarantees?", COMPARISON, None),
    ]
}

fn unit_of_privacy(release: &Release) -> Vec<Item> {
    const LAYER: &str = "Unit of Privacy";
    let g = &release.guarantee;
    let missing = match g.unit {
        Unit::Record => "how many rows a person has, and whether a row (a text, an image) is about several people.",
        Unit::User => "whether a person has several units, and whether a row (a text, an image) is about others too.",
        Unit::Round => "in how many rounds a person is.",
    };
    vec![
        Item::known(LAYER, "What is the unit of privacy?", &unit(release), None),
        Item::known(LAYER, "Which definition, and which data sets are neighbours?", &definition(g), None),
        Item::open(LAYER, "Is each person one unit?", missing, "contributions"),
    ]
}

fn utility(release: &Release) -> Vec<Item> {
    const LAYER: &str = "Utility";
    const QUESTION: &str = "How accurate is it?";
    vec![if release.quality.is_empty() {
        Item::open(LAYER, QUESTION, "the file holds no score and no bound on the error.", "evaluation")
    } else {
        Item::known(LAYER, QUESTION, &release.quality.join(" "), Some("evaluation"))
    }]
}

fn bias(release: &Release) -> Vec<Item> {
    const LAYER: &str = "Bias";
    const SHIFTED: &str = "Is the answer shifted?";
    const FACT: &str = "statistical_bias";
    vec![
        Item::open(
            LAYER,
            "Is it less accurate for some groups?",
            "no error of a group is in the file. Noise weighs more on the small groups, and clipping on the rare \
             values.",
            "bias",
        ),
        match shift(&release.product) {
            Some(shift) => Item::known(LAYER, SHIFTED, &format!("{shift} {NOT_CHANGED}"), Some(FACT)),
            None => Item::open(
                LAYER,
                SHIFTED,
                "how far its mean is from the answer without noise, and whether it was rounded or changed after the \
                 release.",
                FACT,
            ),
        },
    ]
}

fn algorithms(release: &Release, recalls: &Recalls) -> Vec<Item> {
    const LAYER: &str = "Algorithms & Correctness";
    let g = &release.guarantee;
    let mut items = vec![
        Item::known(LAYER, "Which mechanisms ran, and who accounts for them?", &stages(g), None),
        Item::known(LAYER, "Why should they be believed?", &belief(release), None),
        Item::known(LAYER, "Does a known fault of an earlier version concern it?", &faults(release, recalls), None),
        Item::known(LAYER, "Is what one unit contributes bounded?", &bound(g), None),
        Item::known(
            LAYER,
            "What was done before the mechanisms ran?",
            &preparation(release),
            Some("preprocessing_and_hyperparameter_tuning"),
        ),
    ];
    if matches!(release.product, Product::Classifier(_) | Product::Regressor | Product::Model | Product::Minimum) {
        let answer = release.no_guarantee().map_or(MEMORY, |_| "NO GUARANTEE: nothing bounds it.");
        items.push(Item::known(LAYER, "Can it repeat the records that it learned from?", answer, None));
    }
    items
}

fn query_model(release: &Release) -> Vec<Item> {
    const LAYER: &str = "Query Model";
    const QUESTION: &str = "Is it one release, or are questions answered?";
    const FACT: &str = "release_type_details";
    let queries = match release.product {
        Product::Unknown => Item::open(LAYER, QUESTION, "whether the file is all that its budget paid for.", FACT),
        Product::Game => Item::known(LAYER, QUESTION, GAME, Some(FACT)),
        _ => Item::known(LAYER, QUESTION, ONE_RELEASE, Some(FACT)),
    };
    let others = format!("{} {NOT_PRIVATE}", other_releases(release));
    vec![queries, Item::known(LAYER, "What else was released about the same people?", &others, Some("other_releases"))]
}

fn threat_model() -> Vec<Item> {
    vec![Item::known("Threat Model", "Who is trusted?", TRUST, Some("actors"))]
}

fn side_channels(release: &Release) -> Vec<Item> {
    const LAYER: &str = "Side Channels";
    vec![
        Item::known(LAYER, "Does floating-point arithmetic leak?", FLOATING_POINT, None),
        Item::known(LAYER, "Where does randomness come from?", &randomness(&release.guarantee), None),
        Item::known(LAYER, "Do time and other side channels leak?", SIDE_CHANNELS, Some("timing")),
    ]
}

fn security() -> Vec<Item> {
    let missing = "how the records, the budget ledger and the machine are protected, also while the program runs. No \
                   guarantee is left to records that are stolen.";
    vec![Item::open("Security", "How are the records kept safe?", missing, "security")]
}

fn access_control() -> Vec<Item> {
    let missing = "who may read the table, the budget ledger and exact results, and for how long they are kept.";
    vec![Item::open("Access Control", "Who has access to the data?", missing, "access_control")]
}

fn data_collection() -> Vec<Item> {
    let missing = "how the records were collected, moved and stored before the run, and whether all of them were \
                   needed.";
    let question = "Where are the data exposed while they are collected?";
    vec![Item::open("Data Collection Exposure", question, missing, "data_collection")]
}

const COMPARISON: &str = "Only with one for the same unit and relation, at the same δ. The events with their noise are in the file, so anyone can \
    compute ε at another δ (dpopt account).";

const MEMORY: &str = "Only within the bound of ε: all that it holds of the records went through the mechanisms. Declared levels, public data and public \
    vectors are in it as they are.";

const GAME: &str = "Questions are answered: a play in each round. The guarantee is for all plays together, also where later losses are chosen by \
    earlier plays.";

const ONE_RELEASE: &str = "One release, whose budget was fixed before the first record was read. Predictions and all else that is computed from it cost \
    nothing more.";

const NOT_CHANGED: &str = "Not known to dpopt: whether it was rounded or changed after the release.";

const NOT_PRIVATE: &str =
    "Releases from the same records without noise are not known to dpopt, and the guarantee says nothing of them.";

pub(super) const FLOATING_POINT: &str = "In dpopt sums over records are exact integers, so their sensitivity is exact, and noise is rounded to a public grid. \
    Where a sampler's law differs from the exact one, by less than 2^-110 per draw, δ pays for it; a guarantee with δ = 0 cannot, and tolerates 2^-50 in total. \
    Accounting rounds towards larger ε.";

pub(super) const SIDE_CHANNELS: &str = "Not protected. Loops over records end within a public number of steps, but may end earlier on some tables. \
    The guarantee holds for those who see what was published, and not for those who watch the clock, the memory or the logs of the machine.";

const TRUST: &str = "The central model, if the publisher states no other: the person who runs dpopt sees the records and is trusted, and so are the machine and its generator of \
    randomness. Protection is against readers of what was published, who may know all other records and the code. That this trust is deserved is assumed.";

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
    let mut text = format!(
        "ε is at most {} and δ at most {}, for everything that the run released; its events cost ε = {}.",
        rounded_up(g.epsilon),
        probability_up(g.delta),
        rounded_up(g.certified_epsilon)
    );
    // under add-or-remove these are guesses
    let size = release.units.or(release.rows).filter(|n| *n > 0 && g.relation != Relation::AddOrRemove);
    if let Some(n) = size.filter(|_| g.delta > 0.0) {
        let below = g.delta * (n as f64) < 1.0;
        text.push_str(&format!(
            " δ is {} 1/n for n = {} {}.",
            if below { "below" } else { "NOT below" },
            count(n),
            if release.units.is_some() { "units" } else { "rows" }
        ));
    }
    text
}

/// Who is protected, in words, and which quantities are not.
pub(super) fn unit(release: &Release) -> String {
    let g = &release.guarantee;
    let unit = match &g.unit_column {
        Some(column) => format!("All rows of one unit, which is one value of “{column}”. People who share a value are protected together, and a person with two values not as a whole."),
        None => match g.unit {
            Unit::Record => "One row. Of a person with several rows each is protected by itself: with k rows their ε is up to k times as large, and their δ grows faster still.".into(),
            Unit::User => "All rows of one user.".into(),
            Unit::Round => "Everything that one round tells the learner.".into(),
        },
    };
    let public = release.public_quantities();
    if public.is_empty() { unit } else { format!("{unit} Public, and not protected: {}.", public.join("; ")) }
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
         of {}, finds them with probabilities of at most {}, whatever mechanism has this ε and δ. {}",
        listed(&|rate| rate),
        listed(&|rate| detection_bound(g.epsilon, g.delta, rate)),
        if g.epsilon <= 1.0 { SMALL } else { LARGE }
    )
}

const SMALL: &str = "ε is at most 1, where NIST SP 800-226 (draft, section 2.2) sees strong protection in most cases; of whom, the \
    unit of privacy says.";

const LARGE: &str = "ε is above 1, where NIST SP 800-226 (draft, section 2.2) leaves open how much protection is left.";

/// Whether the probability δ may be that of an outcome which only one of two neighbouring data sets has.
fn failure(release: &Release) -> String {
    let g = &release.guarantee;
    if release.no_guarantee().is_some() {
        return "NO GUARANTEE: nothing bounds it.".into();
    }
    if g.delta == 0.0 {
        return "No: δ is 0.".into();
    }
    let fails = g.stages.iter().any(|stage| may_fail(&stage.event));
    if fails {
        "Yes: an event of this run has a δ of its own, and with at most that probability nothing bounds what is \
         disclosed."
            .into()
    } else {
        "The definition allows it, the mechanisms of this run do not: each of their outcomes is possible on both of \
         two neighbouring data sets. δ is where their cost was read off, and pays for what samplers are off."
            .into()
    }
}

/// What moves the expected answer, where the file says of what kind it is.
fn shift(product: &Product) -> Option<&'static str> {
    Some(match product {
        Product::Means(_) => {
            "Clipping moves each mean. A bound on that, under the declared moment, is part of its interval."
        }
        Product::Mean => {
            "Yes: vectors are clipped and entries are moved towards 0. The bound on the error is about the mean of the \
             clipped vectors."
        }
        Product::Classifier(_) | Product::Regressor | Product::Model | Product::Minimum => {
            "Yes: what is larger than the clip norm is shortened. How far that moves the answer is not measured, since \
             a measurement is a release of its own."
        }
        Product::Agreed => "Yes: the numbers are a mean over groups of records, which are smaller than the table.",
        Product::Game | Product::Unknown => return None,
    })
}

/// Known faults that the release has, or may have.
fn faults(release: &Release, recalls: &Recalls) -> String {
    if release.recall_facts.is_none() {
        return "The run wrote this page itself; dpopt verify holds the files of the run against the list of known \
                faults."
            .into();
    }
    let notices = release.notices(recalls);
    if notices.is_empty() {
        return format!("None of the list of {}.", recalls.date());
    }
    let all: Vec<String> = notices.iter().map(|notice| format!("Known fault: {notice}")).collect();
    all.join(" ")
}

/// How the sensitivity of the releases is bounded.
fn bound(g: &Guarantee) -> String {
    let mut text = String::from(
        "Yes: what one unit adds to a release is bounded before noise is added, and the events account for a whole \
         unit.",
    );
    if let Some(most) = g.stages.iter().filter_map(|stage| records_of_a_unit(&stage.event)).max() {
        text.push_str(&format!(" At most {} records of a unit are used.", count(most)));
    }
    if g.reservation().is_some() {
        text.push_str(" This rests on the reservation above, too.");
    }
    text
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
    let one = |stage: &Stage| {
        format!(
            "Stage {}: {}; ε = {} at δ = {} by the accountant {}.",
            stage.name,
            mechanisms(&stage.event).join(", "),
            rounded_up(stage.bound.upper),
            probability_up(stage.delta),
            stage.bound.accountant
        )
    };
    let mut all: Vec<String> = g.stages.iter().map(one).collect();
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
    let mut text = String::from(
        "Methods, noise and hyper-parameters that nobody gave follow from public facts; labels, ranges and histograms \
         that are learned from records are part of the events.",
    );
    for line in &release.preparation {
        text.push(' ');
        text.push_str(line);
    }
    text.push_str(
        " Not known to dpopt: whether declared ranges, levels or given hyper-parameters were chosen by looking at the \
         records, and whether this release was picked out of several.",
    );
    text
}
