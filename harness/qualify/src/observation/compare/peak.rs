//! The largest of a figure, and the pair it was seen at.

/// The largest value so far, never below 0, and the first pair that had it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    pub value: f64,
    pub pair: Option<Pair>,
}

/// A pair of values and its place in the array, row-major.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub flat: usize,
    pub got: f64,
    pub reference: f64,
}

impl Peak {
    /// Takes a block's largest value if it is larger; `find` then looks for the first pair that has it.
    #[inline]
    pub fn raise(&mut self, value: f64, find: impl FnOnce() -> Option<Pair>) {
        if value > self.value {
            *self = Self { value, pair: find() };
        }
    }
}
