//! "Did you mean": the nearest of the known names to one that is not known.

/// The known name most like `name`, if any is alike enough to be a slip of the keyboard.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// ` (did you mean `X`?)`, or nothing: to be put behind a message.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |n| format!(" (did you mean `{n}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_mended_and_nonsense_is_not() {
        assert_eq!(nearest("provder", ["provider", "artifact"]), Some("provider"));
        assert_eq!(nearest("zzz", ["provider", "artifact"]), None);
        assert_eq!(hint("artefact", ["provider", "artifact"]), " (did you mean `artifact`?)");
    }
}
