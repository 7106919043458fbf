//! The nearest known name to a mistyped one (Damerau–Levenshtein distance), for "did you mean" in error messages.

/// ", did you mean `x`?" for the nearest candidate within a third of the name's length (at least 1), else nothing.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let folded = name.to_lowercase();
    let allowed = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&folded, &c.to_lowercase()), c))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, c)| format!(", did you mean `{c}`?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        assert_eq!(did_you_mean("incmoe", ["age", "income"]), ", did you mean `income`?");
        assert_eq!(did_you_mean("Income", ["age", "income"]), ", did you mean `income`?");
        assert_eq!(did_you_mean("zzz", ["age", "income"]), "");
    }
}
