//! A network that was pickled whole: its parameters and buffers, by the names that its state dict would have. EDM's files hold such a
//! one, with the source of its classes, which nobody here looks at.

use std::collections::HashSet;

use super::state_dict::bare;
use crate::files::quoted;
use crate::files::torch::{Node, Pickle, Strided, Value};

/// Attributes and tensors that are looked at in all, and how deep modules may stand: what refers to the same module again and again
/// would never end.
const MOST_VISITS: usize = 1 << 20;
const DEEPEST: usize = 32;

/// Whether a value is a module of PyTorch.
pub(super) fn is_module(pickle: &Pickle<'_>, value: Value<'_>) -> bool {
    let heap = &pickle.heap;
    matches!(heap.node(value), Some(Node::Object { .. }))
        && heap.get(value, "_parameters").is_some()
        && heap.get(value, "_modules").is_some()
}

/// A way through modules, of limited length.
pub(super) struct Walk<'p, 'a> {
    pickle: &'p Pickle<'a>,
    left: usize,
}

impl<'p, 'a> Walk<'p, 'a> {
    pub fn new(pickle: &'p Pickle<'a>) -> Self {
        let left = MOST_VISITS;
        Self { pickle, left }
    }

    /// Whether a tensor of the module has such a name.
    pub fn any(&mut self, module: Value<'a>, mut is: impl FnMut(&str) -> bool) -> bool {
        let mut found = false;
        is_module(self.pickle, module) && self.visit(module, "", 0, &mut |name, _| found |= is(name)).is_some() && found
    }

    /// Tells of every tensor; none if there are too many.
    fn visit(
        &mut self,
        module: Value<'a>,
        prefix: &str,
        depth: usize,
        tell: &mut impl FnMut(&str, Value<'a>),
    ) -> Option<()> {
        let heap = &self.pickle.heap;
        let parts = |name: &str| {
            heap.get(module, name)
                .and_then(|part| heap.entries(part))
                .unwrap_or_default()
        };
        for &(key, value) in parts("_parameters").iter().chain(parts("_buffers")) {
            self.left = self.left.checked_sub(1)?;
            if let (Value::Str(key), Some(_)) = (key, heap.tensor(value)) {
                tell(&format!("{prefix}{key}"), value);
            }
        }
        for &(key, value) in parts("_modules") {
            self.left = self.left.checked_sub(1 + heap.entries(value).map_or(0, <[_]>::len))?;
            if let (Value::Str(key), true) = (key, is_module(self.pickle, value)) {
                if depth == DEEPEST {
                    return None;
                }
                self.visit(value, &format!("{prefix}{key}."), depth + 1, tell)?;
            }
        }
        Some(())
    }
}

/// The parameters and buffers of a module. The error is the reason in words.
pub(super) fn tensors<'a>(
    pickle: &Pickle<'a>,
    module: Value<'a>,
    entry: &str,
) -> Result<Vec<(String, Strided<'a>)>, String> {
    check_frame(pickle, module)?;
    let (mut found, mut names) = (Vec::new(), HashSet::new());
    let mut twice = None;
    let visited = Walk::new(pickle).visit(module, "", 0, &mut |name, value| {
        let name = bare(name).to_owned();
        let tensor = pickle.heap.tensor(value).expect("a walk tells of tensors");
        if !names.insert(name.clone()) {
            twice = Some(name.clone());
        }
        found.push((name, tensor.clone()));
    });
    match (visited, twice) {
        (None, _) => Err(format!("{entry} holds modules without end")),
        (_, Some(name)) => Err(format!("{entry} holds {} twice", quoted(&name))),
        _ => Ok(found),
    }
}

/// Refuses what stands around EDM's networks and is not EDM's own frame: the same weights would mean something else.
fn check_frame<'a>(pickle: &Pickle<'a>, module: Value<'a>) -> Result<(), String> {
    let Some(Node::Object { class, .. }) = pickle.heap.node(module) else {
        return Ok(());
    };
    if !class.name.ends_with("Precond") {
        return Ok(());
    }
    if class.name != "EDMPrecond" {
        let class = quoted(class.name);
        return Err(format!("its network stands in {class}: only EDMPrecond is supported"));
    }
    match pickle.heap.get(module, "sigma_data") {
        Some(Value::Float(0.5)) => Ok(()),
        Some(Value::Float(deviation)) => Err(format!("its `sigma_data` is {deviation}: only 0.5 is supported")),
        _ => Err("its EDMPrecond has no `sigma_data`".into()),
    }
}
