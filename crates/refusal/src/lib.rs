//! Refusals as values. A message of the library names an option by its identifier and a way out by what it does, and holds no word of a
//! command line or of Python. Whoever shows it does so [`in_words`] of a [`Face`]: `--clip-norm 0.5` on the command line,
//! `clip_norm=0.5` in Python, `` `clip_norm` = 0.5 `` in the library's own words.
//!
//! ```
//! use dpopt_refusal::{Refusal, Remedy, option};
//!
//! let refusal = Refusal::of(option("clip_norm")).given("-1").allowed("a positive, finite number");
//! assert_eq!(refusal.to_string(), "`clip_norm` is -1; give a positive, finite number");
//! let refusal = Refusal::of("pairs are found with all rows in memory").or(Remedy::LeaveOut("memory")).or("name the pairs");
//! assert_eq!(refusal.to_string(), "pairs are found with all rows in memory; leave out `memory`, or name the pairs");
//! ```

#![deny(missing_docs)]

mod face;
mod refusal;

pub use face::{Face, Step, in_words};
pub use refusal::{OneOf, Part, Refusal, Remedy, Text, option, setting};

#[cfg(test)]
mod tests {
    use super::*;

    struct Shouting;

    impl Face for Shouting {
        fn option(&self, id: &str) -> String {
            id.to_uppercase()
        }

        fn setting(&self, id: &str, value: &str) -> String {
            format!("{}:{value}", id.to_uppercase())
        }

        fn step(&self, step: Step) -> Option<&'static str> {
            (step != Step::NoHeader).then_some("SHOUT")
        }
    }

    #[test]
    fn a_refusal_is_rendered_in_the_words_of_its_interface() {
        let refusal = Refusal::of(text!["it has no ", option("momentum")])
            .or(Remedy::Set("method", "dp-sgd".into()))
            .or(Remedy::Lower("steps"))
            .or(Step::NoHeader)
            .or(Step::DeclareRanges);
        let own = refusal.to_string();
        assert!(own.starts_with("it has no `momentum`; give `method` = dp-sgd, or lower `steps`, or "), "{own}");
        assert_eq!(
            in_words(&Shouting, || refusal.to_string()),
            "it has no MOMENTUM; give METHOD:dp-sgd, or lower STEPS, or SHOUT"
        );
        assert_eq!(refusal.to_string(), own, "and the face is gone afterwards");
        assert!(refusal.by("dp-sgd").to_string().starts_with("dp-sgd: it has no `momentum`; "));
    }

    #[test]
    fn a_panic_does_not_leave_a_face_behind() {
        let shown = std::panic::catch_unwind(|| in_words(&Shouting, || panic!("no")));
        assert!(shown.is_err());
        assert_eq!(option("steps").to_string(), "`steps`");
    }

    #[test]
    fn what_a_face_cannot_do_is_left_out_of_a_list() {
        let ways = Remedy::one_of([Step::NoHeader.into(), "rename one of them".into(), Remedy::Raise("columns")]);
        assert_eq!(in_words(&Shouting, || ways.to_string()), "rename one of them, or raise COLUMNS");
    }
}
