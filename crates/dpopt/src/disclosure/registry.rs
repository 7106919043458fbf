//! An entry for the public registry of deployments of differential privacy: github.com/opendp/deployments-registry-data, as its schema stood on 2026-07-15.

use super::checklist::{FLOATING_POINT, SIDE_CHANNELS, definition, other_releases, randomness, stages, unit};
use super::facts::{ACCESS, FILL_IN, Facts, RELEASES, SECTORS, SOURCES};
use super::markdown::{escape, own};
use super::release::{Product, Release};
use super::yaml::{Yaml, number};
use crate::recall::Recalls;
use dpopt_privacy::rounding::six_digits_up;

/// An entry under construction, with what its publisher states.
struct Entry<'a> {
    yaml: Yaml,
    release: &'a Release,
    recalls: &'a Recalls,
    facts: &'a Facts,
}

/// The entry of a release.
pub(super) fn entry(release: &Release, recalls: &Recalls, facts: &Facts) -> String {
    let mut entry = Entry { yaml: Yaml::default(), release, recalls, facts };
    entry.head();
    entry.yaml.map(0, "deployment");
    entry.basic();
    entry.variant();
    entry.loss();
    entry.model();
    entry.accounting();
    entry.implementation();
    entry.administrative();
    entry.yaml.finish()
}

impl Entry<'_> {
    /// A text that the publisher states, or the mark with what is missing.
    fn stated(&mut self, key: &str, missing: &str) {
        let text = self.facts.get(key).map_or_else(|| format!("{FILL_IN}: {missing}"), own);
        self.yaml.text(2, key, &text);
    }

    /// A text that may be left out.
    fn optional(&mut self, key: &str) {
        if let Some(text) = self.facts.get(key) {
            self.yaml.text(2, key, &own(text));
        }
    }

    /// One of the registry's values, or a comment with all of them.
    fn choice(&mut self, key: &str, values: &[&str], known: Option<&str>) {
        match self.facts.get(key).or(known) {
            Some(value) => self.yaml.text(2, key, value),
            None => self.yaml.comment(2, &format!("{key}: {FILL_IN}, one of \"{}\"", values.join("\", \""))),
        }
    }

    fn head(&mut self) {
        if let Some(why) = self.release.no_guarantee() {
            self.yaml.comment(0, &format!("NO PRIVACY GUARANTEE: {why}.\nDo not register this release."));
        }
        self.yaml.comment(
            0,
            &format!(
                "An entry for https://registry.opendp.org, written by dpopt disclose from a released file. What has \
                 to be written by hand is marked {FILL_IN}.\nThe registry takes names of files in lower case with \
                 underscores, and sets url_slug from name, curators and year."
            ),
        );
        let slug = self.facts.get("url_slug").map_or_else(|| FILL_IN.to_lowercase().replace(' ', "-"), own);
        self.yaml.text(0, "url_slug", &slug);
        self.yaml.plain(0, "status", "Draft");
        self.yaml.plain(0, "tier", "3");
    }

    fn basic(&mut self) {
        self.yaml.map(1, "basic");
        self.stated("name", "the name of the data product");
        let stated = |name: &str, missing: &str| {
            let all = self.facts.all(name);
            if all.is_empty() {
                vec![format!("{FILL_IN}: {missing}")]
            } else {
                all.iter().map(|text| own(text)).collect()
            }
        };
        let curators = stated("data_curators", "who publishes it");
        self.yaml.list(2, "data_curators", &curators);
        self.stated("intended_use", "what it is for");
        self.yaml.text(2, "data_product_type", product_type(&self.release.product));
        self.stated("data_product_region", "the region that the data describe, or whose laws apply");
        let what = escape(&what(self.release));
        let description = match (self.release.no_guarantee(), self.facts.get("description")) {
            (Some(why), _) => format!("NO PRIVACY GUARANTEE: {}. {what}", escape(why)),
            (None, Some(stated)) => format!("{what}\n\n{}", own(stated)),
            (None, None) => format!("{what} {FILL_IN}: what the data are and who published them"),
        };
        self.yaml.text(2, "description", &description);
        match self.facts.get("publication_date") {
            Some(day) => self.yaml.text(2, "publication_date", day),
            None => {
                self.yaml.comment(2, &format!("{FILL_IN}: the day of publication"));
                self.yaml.text(2, "publication_date", "1900-01-01");
            }
        }
        self.choice("data_product_sector", SECTORS, None);
    }

    fn variant(&mut self) {
        self.yaml.map(1, "dp_variant");
        if self.release.no_guarantee().is_none() {
            let pure = self.release.guarantee.delta == 0.0;
            self.yaml.text(2, "variant_name", if pure { "Pure DP" } else { "Approximate DP" });
        }
        self.stated("data_domain", "which data sets could have been given");
        self.yaml.text(2, "unprotected_quantities", &escape(&unprotected(self.release)));
    }

    fn loss(&mut self) {
        let g = &self.release.guarantee;
        self.yaml.map(1, "privacy_loss");
        self.yaml.text(2, "privacy_unit", &escape(g.protected()));
        self.yaml.text(2, "privacy_unit_details", &escape(&format!("{} {}", unit(self.release), definition(g))));
        let details = match self.release.no_guarantee() {
            Some(why) => format!("NO PRIVACY GUARANTEE: {why}. No ε and no δ hold for this release."),
            None => {
                self.yaml.map(2, "privacy_parameters");
                self.yaml.plain(3, "epsilon", &number(g.epsilon));
                self.yaml.plain(3, "delta", &number(g.delta));
                let grade =
                    g.reservation().map_or(String::new(), |reservation| format!(" The guarantee is {reservation}."));
                format!(
                    "For everything that the run released, over all of its stages. Its events cost ε = {}, computed by \
                     accountants and rounded up.{grade}",
                    six_digits_up(g.certified_epsilon)
                )
            }
        };
        self.yaml.text(2, "privacy_parameters_details", &escape(&details));
    }

    fn model(&mut self) {
        self.yaml.map(1, "deployment_model");
        self.yaml.text(2, "model_name", self.facts.get("model_name").unwrap_or("Central"));
        self.optional("model_name_details");
        self.stated("actors", "who sees the records and the release, and who is trusted with what");
        self.choice("release_type", RELEASES, None);
        self.optional("release_type_details");
        self.choice("data_source_type", SOURCES, None);
        self.optional("data_source_type_details");
        let answers = matches!(self.release.product, Product::Game | Product::Unknown);
        self.choice("access_type", ACCESS, (!answers).then_some("Non-interactive"));
        self.optional("access_type_details");
    }

    fn accounting(&mut self) {
        self.yaml.map(1, "accounting");
        self.yaml.text(2, "post_processing", &escape(post_processing(&self.release.product)));
        let g = &self.release.guarantee;
        let composition = format!("{} {}", stages(g), other_releases(self.release));
        self.yaml.text(2, "composition", &escape(&composition));
    }

    fn implementation(&mut self) {
        self.yaml.map(1, "implementation");
        self.stated(
            "preprocessing_and_hyperparameter_tuning",
            "what was done with the records before, and how ranges and hyper-parameters were chosen",
        );
        let mut text = vec![format!("- {} {SOURCE}", escape(&software(self.release)))];
        let g = &self.release.guarantee;
        text.extend(
            g.stages
                .iter()
                .map(|stage| escape(&format!("Event of the stage {}: {}.", stage.name, stage.event)))
                .map(|line| format!("- {line}")),
        );
        for (about, answer) in [
            ("Floating-point arithmetic", FLOATING_POINT),
            ("Randomness", &randomness(g)),
            ("Time and other side channels", SIDE_CHANNELS),
        ] {
            text.push(format!("- {about}: {}", escape(answer)));
        }
        text.push(match self.facts.get("access_control") {
            Some(stated) => format!("- Access to the records: {}", own(stated)),
            None => format!("- {FILL_IN}: who has access to the records"),
        });
        self.yaml.text(2, "mechanisms", &text.join("\n"));
        self.stated("justification", "why this unit, this ε and this method");
    }

    fn administrative(&mut self) {
        self.yaml.map(1, "administrative");
        self.stated("sources", "where the release and its report can be read");
        self.notes();
        let authors = self.facts.all("registry_authors");
        let authors: Vec<String> = match authors {
            [] => vec![format!("{FILL_IN}: who wrote this entry")],
            authors => authors.iter().map(|text| own(text)).collect(),
        };
        self.yaml.list(2, "registry_authors", &authors);
    }

    /// What the publisher notes, and the recalls that concern the release, or may.
    fn notes(&mut self) {
        let stated = self.facts.get("notes").map(own);
        let notices = self.release.notices(self.recalls);
        let faults = notices.iter().map(|notice| escape(&format!("Known fault: {notice}")));
        let notes: Vec<String> = stated.into_iter().chain(faults).collect();
        if !notes.is_empty() {
            self.yaml.text(2, "notes", &notes.join("\n\n"));
        }
    }
}

/// Where the program's source is.
pub(super) const SOURCE: &str = env!("CARGO_PKG_REPOSITORY");

/// The program that wrote the file, and the method that ran.
pub(super) fn software(release: &Release) -> String {
    let version = release.software.as_ref().map_or_else(String::new, |version| format!(" {version}"));
    let method = release.method.as_ref().map_or_else(String::new, |method| format!(", method {method}"));
    format!("dpopt{version}{method}:")
}

/// The registry's word for it.
fn product_type(product: &Product) -> &'static str {
    match product {
        Product::Classifier(_) | Product::Regressor | Product::Model | Product::Minimum => "Machine learning model",
        Product::Game => "Interactive API",
        Product::Mean | Product::Means(_) | Product::Agreed | Product::Unknown => "Summary statistics",
    }
}

/// One sentence that says what was released.
pub(super) fn what(release: &Release) -> String {
    let of = |what: &str| match &release.target {
        Some(target) => format!("{what} of “{target}”"),
        None => what.to_string(),
    };
    let told = match &release.product {
        Product::Classifier(Some(classes)) => of(&format!("A linear model for {classes} classes")),
        Product::Classifier(None) => of("A linear classification model"),
        Product::Regressor => of("A linear regression model"),
        Product::Model => of("A linear model"),
        Product::Mean => "The mean of vectors".into(),
        Product::Means(1) => "The mean of one column".into(),
        Product::Means(columns) => format!("The means of {columns} columns"),
        Product::Minimum => "Parameters at which a loss is small".into(),
        Product::Agreed => "The numbers that a program's answers for groups of records agree on".into(),
        Product::Game => "The plays of an online game".into(),
        Product::Unknown => "A release".into(),
    };
    format!("{told}.")
}

/// What is not protected by the guarantee, of what anybody can see.
pub(super) fn unprotected(release: &Release) -> String {
    let mut all = release.public_quantities();
    all.push("names of columns, declared ranges, levels and kinds, the settings and the plan");
    format!("Taken as public: {}.", all.join("; "))
}

/// What is computed from released values.
pub(super) fn post_processing(product: &Product) -> &'static str {
    match product {
        Product::Classifier(_) | Product::Regressor | Product::Model => {
            "Steps of the optimization, averages and projections are computed from released sums and public facts; \
             predictions, effects of columns and the report from the released model."
        }
        _ => "Everything in the answer is computed from released values and public facts.",
    }
}
