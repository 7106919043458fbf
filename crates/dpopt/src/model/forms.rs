//! Which forms of the encoder a plan compares (docs/decisions/0011).

use dpopt_data::{AskedForm, EncoderForm, Layout, Pairs};

/// Products of more pairs than this (of sixteen columns) are made only if they are asked for: each has up to four entries of a row.
const MOST_PAIRS: u64 = 120;

/// And more features than this only if they are asked for, whatever the number of classes turns out to be.
const MOST_FEATURES: u64 = 1 << 16;

/// Knots on one scale and on a finer one. All forms are centred: on generated tables that was better everywhere.
const ALONE: [(u32, u32); 4] = [(8, 0), (0, 0), (4, 0), (8, 32)];
/// Knots of products and their share of the norm.
const TOGETHER: [(u32, f64); 4] = [(0, 0.0), (4, 0.5), (8, 0.3), (8, 0.5)];

/// The columns in every form that agrees with what is said. Where a method is named, or an option of
/// one set (`tuned`), products are made only if they are asked for too: they repeat what columns say alone, and with a tiny λ a solver takes
/// minutes to tell them apart.
pub(super) fn possible(said: &Layout, asked: &AskedForm, tuned: bool) -> Vec<Layout> {
    let wanted = match asked.pairs {
        Some(Pairs::None) => Some(false),
        Some(_) => Some(true),
        None if tuned => Some(false),
        None if said.count_products() > MOST_PAIRS => Some(false),
        None if said.product_features(8) > MOST_FEATURES => Some(false),
        None => None,
    };
    let centred = true;
    let spreads: &[bool] = if asked.spread.is_some() { &[false] } else { &[true, false] };
    let mut layouts: Vec<Layout> = Vec::new();
    for (knots, fine_knots) in ALONE {
        for ((pair_knots, pair_share), &spread) in TOGETHER.iter().flat_map(|pairs| spreads.iter().map(|s| (*pairs, s)))
        {
            let paired = pair_knots > 0;
            if wanted.is_some_and(|wanted| wanted != paired) {
                continue;
            }
            let form = match paired {
                true => asked.or(EncoderForm { knots, fine_knots, centred, spread, pair_knots, pair_share }),
                false => EncoderForm {
                    pair_knots: 0,
                    pair_share: 0.0,
                    ..asked.or(EncoderForm { knots, fine_knots, centred, spread, ..said.form })
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
