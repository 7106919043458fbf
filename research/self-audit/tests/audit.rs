//! The audits of every commit: injected faults are caught, correct code is not. False alarm below 2e-4 in all.

use dpopt_mechanism::progress::Silent;
use dpopt_self_audit::Tier;
use dpopt_self_audit::catalogue;
use dpopt_self_audit::library;

#[test]
fn every_injected_fault_is_caught_and_its_correct_twin_passes() {
    let summary = catalogue::run(Tier::Short, 1, &Silent);
    for o in &summary.outcomes {
        assert!(!o.violation, "correct code rejected: {o:?}");
    }
    let missed: Vec<_> = summary.outcomes.iter().filter(|o| !o.caught).collect();
    assert!(missed.is_empty(), "missed: {missed:#?}");
}

#[test]
fn no_claim_of_the_library_is_refuted() {
    for o in library::run(Tier::Short, 1, &Silent) {
        println!(
            "{:52} claimed {:.3} proved {:.3} model {:?} share {:.2}",
            o.name,
            o.claimed,
            o.lower_bound,
            o.gaussian_model,
            o.share()
        );
        assert!(o.failure.is_none(), "{o:?}");
        assert!(!o.violation, "{o:?}");
    }
}

#[test]
fn the_documentation_lists_every_row() {
    let page = include_str!("../../../docs/audit.md");
    for bug in catalogue::all() {
        assert!(
            page.contains(&format!("| {} | {} |", bug.number, bug.source.name())),
            "{} is not in docs/audit.md",
            bug.number
        );
    }
    for row in library::all() {
        assert!(page.contains(&format!("| {} | {} |", row.name, row.pair)), "{} is not in docs/audit.md", row.name);
    }
}

#[test]
fn every_method_has_a_row() {
    let rows = library::all();
    for method in dpopt_methods::registry().names() {
        let audited = rows.iter().any(|row| row.name == method || row.name.starts_with(&format!("{method},")));
        assert!(audited, "--method {method} has no row in the audits: add one to research/self-audit/src/library");
    }
}

/// Which row attacks which mechanism.
const ROW_OF_MECHANISM: &[(&str, &str)] = &[
    ("Gaussian", "Gaussian sum through the curator"),
    ("PhasedPass", "phased-sgd"),
    ("CertifiedPass", "clipped-sgd"),
    ("Gaussian", "sum of vectors"),
    ("Gaussian", "second moment"),
    ("Laplace", "rounded Laplace"),
    ("ProjectedGaussian", "projected Gaussian, drawn from the top"),
    ("ProjectedLaplace", "projected Laplace"),
    ("DiscreteLaplaceNoise", "discrete Laplace"),
    ("DiscreteGaussianNoise", "discrete Gaussian"),
    ("AgreedMean", "mean of answers that agree"),
    ("AgreedMean", "whether answers agree"),
    ("Choice", "exponential mechanism, saturating pair"),
    ("Choice", "permute-and-flip"),
    ("Quantiles", "private quantile"),
    ("RangeEnd", "end of a private range"),
    ("ColumnRanges", "ranges of two columns"),
    ("LabelSelection", "label selection"),
    ("AssumedSearch", "private search"),
    ("TreeChoice", "tree, eight points"),
    ("AboveThreshold", "above-threshold, one count over"),
    ("StreamPlan", "dp-ftrl, a tree, one epoch"),
    ("RestartedPlan", "running sums that begin anew"),
    ("Blocks", "one of two blocks of records"),
    ("GibbsDraw", "exponential-mechanism, linear loss"),
    ("ObjectiveDraw", "draw from a closure's Gibbs measure"),
    ("NewtonStep", "noisy-newton, one step, added"),
    ("LastIterate", "last-iterate"),
    ("LaplaceMinimiser", "sparse-output-perturbation, pure"),
    ("PerturbedMinimiser", "output-perturbation"),
    ("PerturbedObjective", "objective-perturbation, record alone"),
    ("ProjectedGradients", "gradients of a batch and its halves"),
    ("SketchedGaussian", "sum behind a random projection"),
    ("SparseDescent", "noisy-sgd, q = 1, noise drawn lazily"),
    ("ThresholdedGaussian", "dp-gd-ht, one of 1000 features"),
    ("VertexChoice", "frank-wolfe, all vertices seen"),
    ("FeaturePick", "peeling, one pick"),
    ("SelectedRows", "embedding-sgd, chosen rows"),
    ("LazyExperts", "experts, a lazy choice"),
    ("NoisyLeader", "experts, a noisy leader"),
    ("BlockExperts", "experts, each loss in one choice"),
    ("FreshSums", "sums that each have rounds of their own"),
];

#[test]
fn every_mechanism_has_a_row() {
    let rows = library::all();
    for (_, row) in ROW_OF_MECHANISM {
        assert!(rows.iter().any(|r| r.name == *row), "no row {row}");
    }
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let (mut found, mut files) = (0, vec![crates.join("kernel/src"), crates.join("mechanism/src")]);
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(
                std::fs::read_dir(path).expect("a folder of mechanisms").map(|entry| entry.expect("an entry").path()),
            );
            continue;
        }
        let text = std::fs::read_to_string(path).expect("a source file");
        for line in text.lines().filter(|l| l.starts_with("impl")) {
            let mechanism = line.split_once("Mechanism for ").or_else(|| line.split_once("Interactive for "));
            let Some((_, name)) = mechanism else { continue };
            let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
            assert!(
                ROW_OF_MECHANISM.iter().any(|(mechanism, _)| *mechanism == name),
                "mechanism {name} has no row in the audits"
            );
            found += 1;
        }
    }
    assert!(found >= 26, "only {found} mechanisms found: has their folder moved?");
}
