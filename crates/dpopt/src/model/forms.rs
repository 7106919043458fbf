//! Which forms of the encoder a plan compares (docs/decisions/0011).

use dpopt_data::{EncoderForm, FeatureKind, Layout, Pairs, Schema, TextForm};

/// Products of more pairs than this (of sixteen columns) are made only if they are asked for, or if a first private model says which: each has up to
/// four entries of a row.
const MAX_PAIRS: u64 = 120;

/// And of more than this (of thirty-two columns) only if they are asked for.
const MAX_PRIVATE_PAIRS: u64 = 496;

/// Rows with more entries in all than this, of products of all pairs, are too many for two models that go over them again and again: half a minute on
/// one core for squared loss.
const MAX_PAIRED_ENTRIES: u64 = 30_000_000;

/// Whether a first model can be fitted for a choice among the pairs of `said`'s columns.
pub(super) fn first_model_is_cheap(said: &Layout, rows: u64) -> bool {
    // a product of two numbers has four entries
    rows.saturating_mul(said.count_products()).saturating_mul(4) <= MAX_PAIRED_ENTRIES
}

/// And more features than this only if they are asked for, whatever the number of classes turns out to be.
const MAX_FEATURES: u64 = 1 << 16;

/// Knots on one scale and on a finer one. All forms are centred: on generated tables that was better everywhere.
const ALONE: [(u32, u32); 4] = [(8, 0), (0, 0), (4, 0), (8, 32)];
/// Knots of products and their share of the norm.
const TOGETHER: [(u32, f64); 4] = [(0, 0.0), (4, 0.5), (8, 0.3), (8, 0.5)];

/// Bits of the hash of a text's words; counts have this share of a text's norm, and public vectors one of those, without words the whole rest.
const TEXT_BITS: [u32; 3] = [16, 14, 12];
const COUNTS_SHARE: f64 = 0.3;
const VECTORS_SHARE: [f64; 2] = [0.3, 0.5];

/// The forms of texts that agree with what is said.
fn texts(said: &Layout, schema: &Schema) -> Vec<Option<TextForm>> {
    if !said.has_text() {
        return vec![None];
    }
    let counts = schema.form.counts_share.unwrap_or(COUNTS_SHARE);
    let shares = match (said.vectors.is_some(), schema.form.vectors_share) {
        (false, _) => vec![0.0],
        (true, Some(share)) => vec![share],
        (true, None) => VECTORS_SHARE.iter().map(|share| share.min(1.0 - counts)).chain([1.0 - counts]).collect(),
    };
    let bits = schema.options.text_bits.map_or_else(|| TEXT_BITS.to_vec(), |bits| vec![bits]);
    let mut forms: Vec<Option<TextForm>> = Vec::new();
    for vectors in shares {
        for &bits in &bits {
            let without = vectors + counts >= 1.0 && schema.options.text_bits.is_none();
            let form = Some(TextForm { bits: if without { 0 } else { bits }, counts, vectors });
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

/// The columns in every form that agrees with what is said. Where a method is named, or an option of
/// one set (`tuned`), products are made only if they are asked for too: they repeat what columns say alone, and with a tiny λ a solver takes
/// minutes to tell them apart. Whether a first model can be fitted for a choice among them, `first_model` says.
pub(super) fn possible(said: &Layout, schema: &Schema, tuned: bool, first_model: bool) -> Vec<Layout> {
    let asked = &schema.form;
    let pairs = said.count_products();
    let private = pairs > MAX_PAIRS;
    let most = if first_model { MAX_PRIVATE_PAIRS } else { MAX_PAIRS };
    let wanted = match asked.pairs {
        Some(Pairs::None) => Some(false),
        Some(_) => Some(true),
        None if tuned => Some(false),
        None if pairs > most => Some(false),
        None if said.product_features(8) > MAX_FEATURES => Some(false),
        None => None,
    };
    let (centred, additive) = (true, said.form.additive);
    let spreads: &[bool] = if asked.spread.is_some() { &[false] } else { &[true, false] };
    let numbers = said.features.iter().any(|(_, kind)| matches!(kind, FeatureKind::Numeric { .. }));
    // B-splines say nothing of texts; tables of levels alone have always listed them
    let alone = if said.has_text() && !numbers { &ALONE[..1] } else { &ALONE };
    let mut layouts: Vec<Layout> = Vec::new();
    for (&(knots, fine_knots), text) in
        alone.iter().flat_map(|one| texts(said, schema).into_iter().map(move |t| (one, t)))
    {
        for ((pair_knots, pair_share), &spread) in TOGETHER.iter().flat_map(|pairs| spreads.iter().map(|s| (*pairs, s)))
        {
            let paired = pair_knots > 0;
            if wanted.is_some_and(|wanted| wanted != paired) {
                continue;
            }
            let form = match paired {
                true => asked.or(EncoderForm {
                    knots,
                    fine_knots,
                    centred,
                    additive,
                    spread,
                    pair_knots,
                    pair_share,
                    private_pairs: private,
                    text,
                }),
                false => EncoderForm {
                    pair_knots: 0,
                    pair_share: 0.0,
                    ..asked.or(EncoderForm { knots, fine_knots, centred, additive, spread, text, ..said.form })
                },
            };
            let layout = said.with_form(form);
            if layout.form.check().is_ok() && layouts.iter().all(|other| other.form != layout.form) {
                layouts.push(layout);
            }
        }
    }
    layouts
}
