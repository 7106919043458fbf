//! Pages in Markdown: the checklist, and a model card with the fields of Mitchell et al. (2019), "Model Cards for Model Reporting".

use super::attack::attack_bounds;
use super::audits::AUDITS;
use super::checklist::{checklist, definition, percent_up, stages, unit};
use super::facts::{FILL_IN, Facts};
use super::markdown::{escape, own, own_line};
use super::registry::{SOURCE, post_processing, software, unprotected, what};
use super::release::{Product, Release};
use crate::recall::Recalls;
use dpopt_privacy::Relation;
use dpopt_privacy::rounding::{count, probability_up, rounded_up};
use std::fmt::Write;

/// Columns that a card lists.
const COLUMNS: usize = 200;

/// A page under construction. Writing to it cannot fail.
struct Page<'a> {
    text: String,
    facts: &'a Facts,
}

impl Page<'_> {
    fn heading(&mut self, title: &str) {
        let _ = write!(self.text, "\n## {title}\n\n");
    }

    fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}\n");
    }

    fn item(&mut self, name: &str, text: &str) {
        let colon = if name.ends_with('?') { "" } else { ":" };
        let _ = writeln!(self.text, "- **{name}{colon}** {text}");
    }

    /// What the publisher states, or what is missing.
    fn stated(&self, fact: &str, missing: &str) -> String {
        self.facts.get(fact).map_or_else(|| format!("{FILL_IN}: {missing}"), own)
    }

    /// Said before anything else of what nobody is protected by.
    fn warning(&mut self, release: &Release) {
        if let Some(why) = release.no_guarantee() {
            self.paragraph(&format!(
                "> **NO PRIVACY GUARANTEE:** {}. Treat the release as if it held the records themselves, and do not \
                 publish it as private.",
                escape(why)
            ));
        }
    }
}

/// The checklist as a page.
pub(super) fn checklist_page(release: &Release, recalls: &Recalls, facts: &Facts) -> String {
    let mut page = Page { text: "# Privacy checklist\n\n".into(), facts };
    page.warning(release);
    page.paragraph(&format!(
        "{} Made with {} {SOURCE}. The questions follow the pyramid of NIST SP 800-226, Guidelines for Evaluating Differential Privacy \
         Guarantees (initial public draft, 2023), from its top to its base. Answers come from the released file and from what dpopt does; *stated* is the \
         publisher's word.",
        escape(&what(release)),
        escape(&software(release))
    ));
    let mut layer = "";
    for item in checklist(release, recalls) {
        if item.layer != layer {
            layer = item.layer;
            page.text.pop();
            page.heading(layer);
        }
        let stated = item.fact.and_then(|fact| facts.get(fact)).map(|text| format!("*Stated:* {}", own_line(text)));
        let answer = match (item.known, stated) {
            (true, None) => escape(&item.answer),
            (true, Some(stated)) => format!("{} {stated}", escape(&item.answer)),
            (false, Some(stated)) => stated,
            (false, None) => escape(&item.told()),
        };
        page.item(item.question, &answer);
        page.text.push('\n');
    }
    page.text.pop();
    audits(&mut page);
    page.text
}

/// The table of audits of the library's code.
fn audits(page: &mut Page<'_>) {
    page.heading("Audits of the library's code");
    page.text.push_str("| page | came with commit | BLAKE3 of the page | result |\n|---|---|---|---|\n");
    for audit in AUDITS {
        let _ = writeln!(page.text, "| {} | `{}` | `{}` | {} |", audit.page, audit.commit, audit.blake3, audit.result);
    }
}

/// The model card as a page.
pub(super) fn model_card(release: &Release, recalls: &Recalls, facts: &Facts) -> String {
    let name = facts.get("name").map_or_else(|| format!("{FILL_IN}: name"), own_line);
    let mut page = Page { text: format!("# {} of {name}\n\n", title(&release.product)), facts };
    page.warning(release);
    details(&mut page, release);
    page.heading("Intended use");
    let (used, not) = (
        page.stated("intended_use", "what it is for, and for whom"),
        page.stated("out_of_scope_uses", "what it must not be used for"),
    );
    page.item("Primary uses and users", &used);
    page.item("Out-of-scope uses", &not);
    page.heading("Factors and metrics");
    let groups =
        page.stated("bias", "which groups matter, and whether errors differ between them (not known to dpopt)");
    page.item("Groups", &groups);
    for line in &release.quality {
        page.item("Quality", &escape(line));
    }
    page.heading("Evaluation data and quantitative analyses");
    let evaluated = page.stated(
        "evaluation",
        "on which data it was tested and with which result; scores of a table of sensitive records are exact and not private",
    );
    page.paragraph(&evaluated);
    page.text.pop();
    training_data(&mut page, release);
    guarantee(&mut page, release, recalls);
    meaning(&mut page, release);
    page.heading("Ethical considerations");
    let ethical =
        page.stated("ethical_considerations", "risks for the people in the data and for those about whom it decides");
    page.paragraph(&ethical);
    page.text.pop();
    limitations(&mut page, release);
    page.text
}

fn title(product: &Product) -> &'static str {
    match product {
        Product::Classifier(_) | Product::Regressor | Product::Model | Product::Minimum => "Model card",
        _ => "Release card",
    }
}

fn details(page: &mut Page<'_>, release: &Release) {
    page.text.pop();
    page.heading("Details");
    page.item("What it is", &escape(&what(release)));
    let publisher = match page.facts.all("data_curators") {
        [] => format!("{FILL_IN}: who publishes it"),
        all => all.iter().map(|one| own_line(one)).collect::<Vec<_>>().join(", "),
    };
    page.item("Published by", &publisher);
    let day = page.stated("publication_date", "the day of publication");
    page.item("Date", &day);
    page.item("Made with", &format!("{} {SOURCE}", escape(&software(release))));
    if let Some(loss) = &release.loss {
        page.item("Loss", &escape(loss));
    }
    let (contact, license) = (page.stated("contact", "whom to ask"), page.stated("license", "terms of use"));
    page.item("Contact", &contact);
    page.item("License", &license);
}

fn training_data(page: &mut Page<'_>, release: &Release) {
    page.heading("Training data");
    let stated = page.stated("training_data", "what the records are, who is in them, when and how they were collected");
    page.paragraph(&stated);
    let sizes =
        [release.rows.map(|n| format!("{} rows", count(n))), release.units.map(|n| format!("{} units", count(n)))];
    let sizes: Vec<String> = sizes.into_iter().flatten().collect();
    if !sizes.is_empty() {
        // nobody counts where the number is protected
        let guess = release.guarantee.relation == Relation::AddOrRemove;
        let facts = if guess { "Public guesses of its size" } else { "Public facts" };
        page.paragraph(&format!("{facts}: {}.", sizes.join(", ")));
    }
    if !release.columns.is_empty() {
        page.text.push_str("| column | declared as, or found privately |\n|---|---|\n");
        for column in release.columns.iter().take(COLUMNS) {
            let _ = writeln!(page.text, "| {} | {} |", escape(&column.name), escape(&column.kind));
        }
        if let Some(more) = release.columns.len().checked_sub(COLUMNS).filter(|more| *more > 0) {
            let _ = writeln!(page.text, "| … | and {more} more |");
        }
        page.text.push('\n');
    }
    page.text.pop();
}

fn guarantee(page: &mut Page<'_>, release: &Release, recalls: &Recalls) {
    let g = &release.guarantee;
    page.heading("Privacy guarantee");
    if let Some(why) = release.no_guarantee() {
        page.paragraph(&format!("NO GUARANTEE: {}.", escape(why)));
    } else {
        page.item("ε, at most", &rounded_up(g.epsilon));
        page.item("δ, at most", &probability_up(g.delta));
    }
    page.item("Unit of privacy", &escape(&unit(release)));
    page.item("Definition", &escape(&definition(g)));
    page.item("Mechanisms", &escape(&stages(g)));
    page.item("Post-processing", post_processing(&release.product));
    if let Some(reservation) = g.reservation() {
        page.item("Reservation", &escape(&reservation));
    }
    let charge = super::checklist::other_releases(release);
    page.item("Budget", &escape(&charge));
    for notice in release.notices(recalls) {
        page.item("Known fault", &escape(&notice.to_string()));
    }
}

fn meaning(page: &mut Page<'_>, release: &Release) {
    page.heading("What this ε means");
    if release.no_guarantee().is_some() {
        page.paragraph("NO GUARANTEE: nothing bounds what an attacker learns.");
        page.text.pop();
        return;
    }
    page.paragraph(
        "Someone knows all records but those of one unit, and tests whether these were used. How often such a test is \
         right at most (true-positive rate), by how often it is wrong about records that were not used (false-positive \
         rate). All numbers are bounds, rounded up.",
    );
    let bounds = attack_bounds(&release.guarantee);
    page.text.push_str("| false-positive rate | true-positive rate for any mechanism with this (ε, δ) | for the events of this run |\n|---|---|---|\n");
    for bound in &bounds {
        let by_events = bound.by_events.map_or_else(|| "not known".into(), percent_up);
        let (rate, by_budget) = (percent_up(bound.false_positive_rate), percent_up(bound.by_budget));
        let _ = writeln!(page.text, "| {rate} | {by_budget} | {by_events} |");
    }
}

fn limitations(page: &mut Page<'_>, release: &Release) {
    page.heading("Caveats and recommendations");
    let mut all = vec![
        unprotected(release),
        "What is true of the population is not protected: the release may show that a trait goes with an outcome, for people whose data were not used too.".into(),
        "Whoever ran the program saw the records. Run time, memory and logs are not protected.".into(),
        "The guarantee takes for granted that each person is in one unit, that what was declared as public does not come from the records, and that the noise was secret.".into(),
    ];
    if matches!(release.product, Product::Classifier(_) | Product::Regressor | Product::Model) {
        all.push(
            "Weights include the noise that was added for privacy; those that rest on few records may be noise alone."
                .into(),
        );
    }
    all.extend(release.assumptions.iter().cloned());
    for one in all {
        let _ = writeln!(page.text, "- {}", escape(&one));
    }
}
