//! Selecting cases: by a part of the name or a glob over it, and by tag.

use super::Case;
use crate::nearest;
use globset::Glob;

/// Which cases are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// A part of the name, or a glob (`mlpf/*/padded`) over all of it; `None` for all.
    pub text: Option<String>,
    /// Tags that must all be there.
    pub tags: Vec<String>,
    /// The recipe that the cases must be for; `None`: any.
    pub recipe: Option<String>,
}

/// A selection that selects nothing, or a glob that is none.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// Nothing is left.
    #[error("no case matches {what}{hint}; `ort-qualify list` shows all {total} cases")]
    Nothing {
        /// The filter in words.
        what: String,
        /// The nearest name, if any.
        hint: String,
        /// How many cases there are.
        total: usize,
    },
    /// The glob cannot be read.
    #[error("the filter is no glob: {0}")]
    Glob(#[from] globset::Error),
}

impl Filter {
    /// The cases that match, in order; none at all is an error.
    pub fn select(&self, cases: Vec<Case>) -> Result<Vec<Case>, FilterError> {
        let total = cases.len();
        let names: Vec<String> = cases.iter().map(|c| c.name.clone()).collect();
        let glob = match &self.text {
            Some(text) if text.contains(['*', '?', '[', '{']) => Some(Glob::new(text)?.compile_matcher()),
            _ => None,
        };
        let wanted = |case: &Case| match (&glob, &self.text) {
            (Some(glob), _) => glob.is_match(&case.name),
            (None, Some(part)) => case.name.contains(part.as_str()),
            (None, None) => true,
        };
        let selected: Vec<Case> = cases
            .into_iter()
            .filter(|c| wanted(c) && self.tags.iter().all(|tag| c.tags.contains(tag)))
            .filter(|c| self.recipe.as_ref().is_none_or(|recipe| c.is_for(recipe)))
            .collect();
        if selected.is_empty() {
            let text = self.text.as_deref().unwrap_or_default();
            let mut what = if text.is_empty() { "the filter".to_owned() } else { format!("`{text}`") };
            if let Some(recipe) = &self.recipe {
                what = format!("{what} on recipe `{recipe}`");
            }
            if !self.tags.is_empty() {
                what = format!("{what} with tags {:?}", self.tags);
            }
            return Err(FilterError::Nothing {
                what,
                hint: nearest::hint(text, names.iter().map(String::as_str)),
                total,
            });
        }
        Ok(selected)
    }
}
