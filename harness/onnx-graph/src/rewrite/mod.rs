//! Passes: local changes of a graph that keep what it computes, within a bound that each pass declares.
//!
//! A pass finds its sites, replaces those it understands and says why it left others alone. Whether the new nodes compute
//! the same is not asserted here but proven by running both: [`Site`] says between which tensors.

mod atan2;
mod edit;
mod finite_guard;
mod safe_softmax;
mod split_heads;
mod unique_sort;

pub(crate) use atan2::find as find_atan2;
pub(crate) use edit::{read, useful};
pub(crate) use finite_guard::find as find_guards;
pub(crate) use safe_softmax::find as find_softmax_guards;
pub(crate) use unique_sort::needs as sort_needs;

use crate::infer::Types;
use crate::model::Model;
use crate::view::View;

/// A change of a graph by rule.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name on the command line.
    pub name: &'static str,
    /// One sentence: what is replaced by what.
    pub about: &'static str,
    /// How far apart old and new may be.
    pub bound: Bound,
    /// Inputs on which old and new need not agree, with the reason.
    pub outside: &'static [(Kind, &'static str)],
    /// Makes the change.
    pub apply: fn(&Model, &View<'_>, &Types) -> Rewritten,
    /// The meaning of the old nodes where they themselves fail to compute it: what the new ones are held against.
    pub meaning: Option<Meaning>,
}

/// A repair: the smallest change that makes the old nodes compute what they are meant to.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// What is repaired.
    pub about: &'static str,
    /// Makes the repair.
    pub apply: fn(&Model, &View<'_>, &Types) -> Rewritten,
}

/// How far old and new may be apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Bit for bit, but for the sign of zero and the payload of NaN.
    Exact,
    /// Steps of the float type.
    Ulp(u64),
}

/// Kinds of values that a proof feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Ordinary numbers.
    Plain,
    /// Many equal ones.
    Ties,
    /// Zeros of both signs.
    Zeros,
    /// Infinities.
    Infinities,
    /// NaN.
    Nan,
    /// Smaller than the smallest normal number.
    Denormals,
    /// As large as the type goes.
    Largest,
    /// Points on axes and diagonals.
    Axes,
    /// Whole rows of minus infinity, as a mask without keys makes them.
    EmptyRows,
}

/// A model after a pass.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The model.
    pub model: Model,
    /// What was replaced.
    pub sites: Vec<Site>,
    /// What was left alone though it is of the pass's kind: the node, and why.
    pub skipped: Vec<(String, String)>,
}

/// One replaced place: the same tensors go in and come out before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The old node that names the place.
    pub node: String,
    /// Tensors that go in.
    pub inputs: Vec<SiteInput>,
    /// Tensors that come out.
    pub outputs: Vec<String>,
}

/// A tensor that goes into a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteInput {
    /// Its name.
    pub tensor: String,
    /// Does it always hold each of 0..n once along this axis?
    pub permutation_along: Option<usize>,
}

impl SiteInput {
    fn any(tensor: &str) -> Self {
        Self { tensor: tensor.to_owned(), permutation_along: None }
    }
}

/// Every pass, in the order in which they are best applied.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "safe-softmax",
        about: "a Softmax with IsNaN and Where behind it becomes one that never makes a NaN: rows without a finite score are \
                found by their maximum, fed zeros and set to zero",
        bound: Bound::Exact,
        outside: &[],
        apply: safe_softmax::apply,
        meaning: None,
    },
    Pass {
        name: "finite-guard",
        about: "IsNaN and IsInf become comparisons; a whole nan_to_num becomes one comparison and one Where",
        bound: Bound::Exact,
        outside: &[],
        apply: finite_guard::apply,
        meaning: None,
    },
    Pass {
        name: "atan2",
        about: "atan2 written as Atan of a quotient becomes a polynomial in Add, Mul, Div, Where, Abs and comparisons, right at \
                zeros, infinities and on the axes",
        bound: Bound::Ulp(3),
        outside: &[],
        apply: atan2::apply,
        meaning: Some(Meaning {
            about: "atan2(0, 0) is 0 and not NaN, of two infinities it is a diagonal, and a zero's sign picks the side of the cut",
            apply: atan2::meaning,
        }),
    },
    Pass {
        name: "unique-sort",
        about: "a TopK that orders floats, or whose values nobody reads, becomes one over unique integers: ties by the lower \
                index, no infinity or NaN among the keys, both outputs used",
        bound: Bound::Exact,
        outside: &[(Kind::Nan, "where a NaN sorts to is left open by ONNX; the new order puts NaN last")],
        apply: unique_sort::apply,
        meaning: None,
    },
    Pass {
        name: "split-heads",
        about: "an output of the graph that is a part of a Split becomes a tensor of its own, made by a Slice",
        bound: Bound::Exact,
        outside: &[],
        apply: split_heads::apply,
        meaning: None,
    },
];

/// The pass of that name.
pub fn pass(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|p| p.name == name)
}

impl Pass {
    /// Applies the pass.
    pub fn run(&self, model: &Model) -> Rewritten {
        let view = View::new(model);
        (self.apply)(model, &view, &Types::of(&view))
    }

    /// The model with this pass's sites computing what they are meant to; the model itself where they do anyway.
    pub fn meaning_of(&self, model: &Model) -> Model {
        let view = View::new(model);
        self.meaning.map_or_else(|| model.clone(), |m| (m.apply)(model, &view, &Types::of(&view)).model)
    }
}
