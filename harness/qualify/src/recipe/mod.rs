//! Recipes: pinned software environments as data, and the prefixes they become on disk.
