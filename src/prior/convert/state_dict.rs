//! Which of a checkpoint's dicts is the network's state dict, and what they are called.
//!
//! Known roots: NCSNv2's list [model, optimiser, epoch, step, EMA], a dict with entries such as `model` and `ema`, and
//! a bare state dict. A network that was pickled whole, as EDM's, is the set of its parameters and buffers (`module`). A set of weights is recognised by its first convolution, not by its place.

use std::collections::HashMap;

use super::Weights;
use super::module::{self, Walk};
use crate::files::quoted;
use crate::files::torch::{Id, Node, Pickle, Strided, Value};
use crate::prior::published::FIRSTS;

/// The tensor by which NCSNv2's weights are recognised.
pub(super) const FIRST: &str = "begin_conv.weight";
/// The noise levels, a buffer of the model that an EMA of its parameters lacks.
pub(super) const SIGMAS: &str = "sigmas";
/// Entries and attributes under which wrappers keep a state dict.
const WRAPPERS: [&str; 5] = ["shadow", "shadow_params", "state_dict", "model", "module"];

/// The set of weights that was asked for.
pub(super) struct Chosen<'a> {
    /// By name, without `module.`.
    pub tensors: Vec<(String, Strided<'a>)>,
    pub weights: Weights,
    /// Where in the checkpoint they are.
    pub entry: String,
}

/// A set of weights in the checkpoint.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    key: Value<'a>,
    weights: Value<'a>,
    averaged: bool,
}

/// Picks the EMA, or the plain weights if `raw`; the only set if there is but one. The error is the reason in words.
pub(super) fn choose<'a>(pickle: &Pickle<'a>, raw: bool) -> Result<Chosen<'a>, String> {
    let search = &mut Search {
        pickle,
        known: HashMap::new(),
        walk: Walk::new(pickle),
        scanned: 0,
    };
    if let Some(weights) = search.weights(pickle.root, 0) {
        return Ok(Chosen {
            tensors: named_tensors(pickle, weights, "the saved object")?,
            weights: Weights::Only,
            entry: "the saved object".into(),
        });
    }
    let candidates = search.candidates();
    let single = |averaged: bool| {
        let mut of_kind = candidates.iter().filter(|candidate| candidate.averaged == averaged);
        match (of_kind.next(), of_kind.next()) {
            (Some(a), Some(b)) => Err(format!(
                "holds several sets of weights of one kind, among them {} and {}: save the one you want alone",
                entry_name(a.key),
                entry_name(b.key)
            )),
            (first, _) => Ok(first.copied()),
        }
    };
    let (model, ema) = (single(false)?, single(true)?);
    let (picked, weights) = match (model, ema) {
        (_, Some(ema)) if !raw => (ema, Weights::Ema),
        (Some(model), _) => (model, Weights::Raw),
        (None, Some(ema)) => {
            let entry = entry_name(ema.key);
            return Err(format!("holds averaged weights only ({entry}), not the raw ones"));
        }
        (None, None) => {
            return Err(format!(
                "holds no weights of a network that is known: its root is {}",
                outline(pickle)
            ));
        }
    };
    let entry = entry_name(picked.key);
    let tensors = match pickle.heap.entries(picked.weights) {
        Some(_) => named_tensors(pickle, picked.weights, &entry)?,
        None => names_by_order(pickle, picked.weights, model, &entry)?,
    };
    let mut chosen = Chosen {
        tensors,
        weights,
        entry,
    };
    chosen.add_levels(pickle, model)?;
    Ok(chosen)
}

impl<'a> Chosen<'a> {
    /// Takes the noise levels from the model if the EMA lacks them.
    fn add_levels(&mut self, pickle: &Pickle<'a>, model: Option<Candidate<'a>>) -> Result<(), String> {
        let Some(model) = model.filter(|_| self.tensors.iter().all(|(name, _)| name != SIGMAS)) else {
            return Ok(());
        };
        let tensors = named_tensors(pickle, model.weights, &entry_name(model.key))?;
        self.tensors
            .extend(tensors.into_iter().find(|(name, _)| name == SIGMAS));
        Ok(())
    }
}

struct Search<'p, 'a> {
    pickle: &'p Pickle<'a>,
    /// What each dict looked into was found to hold: a pickle may name the same one a million times.
    known: HashMap<Id, Option<Value<'a>>>,
    walk: Walk<'p, 'a>,
    /// Entries looked through so far: many objects may share the same ones.
    scanned: usize,
}

impl<'a> Search<'_, 'a> {
    /// The sets of weights that are items or entries of the root.
    fn candidates(&mut self) -> Vec<Candidate<'a>> {
        let heap = &self.pickle.heap;
        let root = self.pickle.root;
        let mut candidates = Vec::new();
        let mut add = |key: Value<'a>, value: Value<'a>, averaged: bool| {
            candidates.extend(
                self.weights(value, 0)
                    .map(|weights| Candidate { key, weights, averaged }),
            );
        };
        for (index, &item) in heap.items(root).unwrap_or_default().iter().enumerate() {
            add(Value::Int(index as i64), item, index > 0);
        }
        for &(key, value) in heap.entries(root).unwrap_or_default() {
            add(key, value, matches!(key, Value::Str(name) if is_average(name)));
        }
        candidates
    }

    /// The state dict in `value`, or in a wrapper around it; or a list of averaged tensors without names.
    fn weights(&mut self, value: Value<'a>, depth: usize) -> Option<Value<'a>> {
        const DEEPEST: usize = 3;
        const MOST_SCANNED: usize = 1 << 24;
        let Value::Node(id) = value else {
            return None;
        };
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let heap = &self.pickle.heap;
        self.scanned += heap.entries(value).map_or(0, <[_]>::len);
        let found = if self.scanned > MOST_SCANNED {
            None
        } else if let Some(entries) = heap.entries(value) {
            let first = |entry: &(Value<'a>, Value<'a>)| matches!(entry.0, Value::Str(key) if is_first(bare(key)));
            if entries.iter().any(first) || self.walk.any(value, |name| is_first(bare(name))) {
                Some(value)
            } else if depth < DEEPEST {
                let inside = |name| heap.get(value, name);
                // At the root, a wrapper's name may be one of several entries, which `candidates` weighs.
                let is_root = matches!(self.pickle.root, Value::Node(root) if root == id);
                let inner = WRAPPERS
                    .into_iter()
                    .filter_map(inside)
                    .find_map(|inner| self.weights(inner, depth + 1));
                inner.filter(|_| !is_root)
            } else {
                None
            }
        } else {
            let items = heap.items(value)?;
            let all_tensors = !items.is_empty() && items.iter().all(|&item| heap.tensor(item).is_some());
            (depth > 0 && all_tensors).then_some(value)
        };
        self.known.insert(id, found);
        found
    }
}

/// Whether an entry of this name holds averaged weights.
fn is_average(name: &str) -> bool {
    name.to_ascii_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| word.starts_with("ema") || word == "shadow")
}

/// Whether a network's weights are recognised by a tensor of this name.
fn is_first(name: &str) -> bool {
    name == FIRST || FIRSTS.contains(&name)
}

/// A name without the prefixes that `DataParallel` and EDM's wrapper add.
pub(super) fn bare(name: &str) -> &str {
    let mut name = name;
    while let Some(rest) = name.strip_prefix("module.").or_else(|| name.strip_prefix("model.")) {
        name = rest;
    }
    name
}

/// The tensors of a state dict.
fn named_tensors<'a>(
    pickle: &Pickle<'a>,
    weights: Value<'a>,
    entry: &str,
) -> Result<Vec<(String, Strided<'a>)>, String> {
    if module::is_module(pickle, weights) {
        return module::tensors(pickle, weights, entry);
    }
    let entries = pickle.heap.entries(weights).unwrap_or_default();
    let mut tensors = HashMap::with_capacity(entries.len());
    let mut order = Vec::new();
    for &(key, value) in entries {
        let Value::Str(key) = key else {
            return Err(format!(
                "{entry} has {} where a tensor's name should be",
                pickle.heap.describe(key)
            ));
        };
        let Some(tensor) = pickle.heap.tensor(value) else {
            let what = pickle.heap.describe(value);
            return Err(format!("{} in {entry} is {what}, not a tensor", quoted(key)));
        };
        if tensors.insert(bare(key), tensor).is_some() {
            return Err(format!("{entry} holds {} twice", quoted(bare(key))));
        }
        order.push(bare(key));
    }
    Ok(order
        .into_iter()
        .map(|name| (name.to_owned(), tensors[name].clone()))
        .collect())
}

/// Names for a bare list of averaged parameters (torch_ema's `shadow_params`): those of the model, in its order.
fn names_by_order<'a>(
    pickle: &Pickle<'a>,
    list: Value<'a>,
    model: Option<Candidate<'a>>,
    entry: &str,
) -> Result<Vec<(String, Strided<'a>)>, String> {
    let items = pickle.heap.items(list).unwrap_or_default();
    let model = model.ok_or_else(|| format!("{entry} is a list without names, and no model beside it gives them"))?;
    let mut named = named_tensors(pickle, model.weights, &entry_name(model.key))?;
    named.retain(|(name, _)| name != SIGMAS);
    if named.len() != items.len() {
        let (averages, parameters) = (items.len(), named.len());
        return Err(format!(
            "{entry} has {averages} averages for the model's {parameters} parameters"
        ));
    }
    for ((name, tensor), &item) in named.iter_mut().zip(items) {
        let average = pickle.heap.tensor(item).filter(|average| average.shape == tensor.shape);
        *tensor = average
            .ok_or_else(|| format!("{entry} has no average that fits {}", quoted(name)))?
            .clone();
    }
    Ok(named)
}

fn entry_name(key: Value<'_>) -> String {
    match key {
        Value::Int(index) => format!("item {index}"),
        Value::Str(name) => format!("entry {}", quoted(name)),
        _ => "an unnamed entry".into(),
    }
}

/// What the root holds, in a few words.
fn outline(pickle: &Pickle<'_>) -> String {
    const SHOWN: usize = 6;
    let heap = &pickle.heap;
    let mut text = heap.describe(pickle.root);
    let mut parts: Vec<String> = match heap.node(pickle.root) {
        Some(Node::Dict(entries)) => entries.iter().take(SHOWN).map(|entry| entry_name(entry.0)).collect(),
        Some(Node::List(items) | Node::Tuple(items)) => {
            items.iter().take(SHOWN).map(|&item| heap.describe(item)).collect()
        }
        Some(Node::Object { .. }) => {
            text.push_str(", pickled whole: save its state_dict() instead");
            Vec::new()
        }
        _ => Vec::new(),
    };
    if parts.len() == SHOWN {
        parts.push("…".into());
    }
    if parts.is_empty() {
        text
    } else {
        format!("{text} ({})", parts.join(", "))
    }
}

/// The images' size, if the checkpoint carries its training's settings: `args.image_size`, as this project's training
/// does, or `config.data.image_size`, as NCSNv2's.
pub(super) fn image_size(pickle: &Pickle<'_>) -> Option<usize> {
    let heap = &pickle.heap;
    ["args", "config"].into_iter().find_map(|name| {
        let settings = heap.get(pickle.root, name)?;
        let size = |settings| match heap.get(settings, "image_size")? {
            Value::Int(size) => usize::try_from(size).ok(),
            _ => None,
        };
        size(settings).or_else(|| size(heap.get(settings, "data")?))
    })
}
