//! Outputs of the graph that are parts of a Split, as tensors of their own: some providers give out a strided view of the whole.

use super::edit::Edit;
use super::{Rewritten, Site, SiteInput};
use crate::infer::Types;
use crate::model::Model;
use crate::view::{self, View, int, is, node_label};

pub(super) fn apply(model: &Model, view: &View<'_>, types: &Types) -> Rewritten {
    let mut edit = Edit::new(view);
    let (mut sites, mut skipped) = (Vec::new(), Vec::new());
    for (index, node) in view.graph.node.iter().enumerate() {
        if !is(node, "Split") || !node.output.iter().any(|o| view.is_output(o)) {
            continue;
        }
        let sizes: Option<Vec<usize>> = (node.output.iter())
            .map(|o| {
                let shape = types.get(o).shape?;
                let axis = view::axis(int(node, "axis", 0), shape.len())?;
                if let crate::Dim::Fixed(n) = shape[axis] { Some(n) } else { None }
            })
            .collect();
        let (Some(sizes), Some(whole), true) = (sizes, node.input.first(), view.opset >= 10) else {
            skipped.push((node_label(node), "the sizes of its parts are not known".to_owned()));
            continue;
        };
        edit.at(node);
        let mut from = 0;
        for (output, size) in node.output.iter().zip(&sizes) {
            let bounds = [from, from + *size as i64, int(node, "axis", 0), 1].map(|v| edit.ints("bound", &[v]));
            let [start, end, axis, step] = bounds;
            if view.is_used(output) {
                edit.makes("part", "Slice", &[whole, &start, &end, &axis, &step], vec![], output);
            }
            from += *size as i64;
        }
        edit.replace(index);
        let outputs = node.output.iter().filter(|o| view.is_used(o)).cloned().collect();
        sites.push(Site { node: node_label(node), inputs: vec![SiteInput::any(whole)], outputs });
    }
    Rewritten { model: edit.finish(model), sites, skipped }
}
