//! The chosen tensors against the network they should be the weights of.

use std::collections::HashMap;

use super::state_dict::{Chosen, FIRST, SIGMAS};
use crate::files::quoted;
use crate::prior::{Depth, Ncsnv2, parameters, square};

/// The widest network believed; the published ones have ngf = 128.
const WIDEST: usize = 4096;
const MOST_CHANNELS: usize = 256;
/// A side that every depth can halve.
pub(super) const ANY_SIZE: usize = 8;

/// Width, depth and channels, the latter as those of an image of any size, after comparing every name and shape; the error is the reason in words.
pub(super) fn check(chosen: &Chosen<'_>) -> Result<Ncsnv2, String> {
    let entry = &chosen.entry;
    let shapes: HashMap<&str, &[usize]> = chosen
        .tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.shape.as_slice()))
        .collect();
    let first = shapes.get(FIRST).copied().unwrap_or_default();
    let &[ngf @ 2..=WIDEST, channels @ 1..=MOST_CHANNELS, 3, 3] = first else {
        return Err(format!(
            "`{FIRST}` in {entry} has shape {first:?}, not NCSNv2's [ngf, channels, 3, 3]"
        ));
    };
    // The weights do not depend on the size of the images.
    let image = square(channels, ANY_SIZE);
    let depth = Depth::of(|name| shapes.contains_key(name));
    let (network, what) = (Ncsnv2 { ngf, depth, image }, depth.name());
    let expected = parameters(&network);

    let missing: Vec<&str> = expected
        .iter()
        .map(|param| param.name.as_str())
        .filter(|name| !shapes.contains_key(name))
        .collect();
    let names: HashMap<&str, &[usize]> = expected
        .iter()
        .map(|param| (param.name.as_str(), param.shape.as_slice()))
        .collect();
    let is_unknown = |name: &&str| *name != SIGMAS && !names.contains_key(name);
    let unknown: Vec<&str> = chosen
        .tensors
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(is_unknown)
        .collect();
    if !missing.is_empty() || !unknown.is_empty() {
        let parts: Vec<String> = [("lacks", missing), ("has besides", unknown)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(verb, names)| format!("{verb} {}", list(&names)))
            .collect();
        return Err(format!(
            "{entry} is not {what} with ngf = {ngf}: it {}",
            parts.join(" and ")
        ));
    }
    for (name, shape) in &shapes {
        if names.get(name).is_some_and(|expected| expected != shape) {
            let expected = names[name];
            return Err(format!(
                "tensor `{name}` in {entry} has shape {shape:?}, but {what} with ngf = {ngf} needs {expected:?}"
            ));
        }
    }
    if let Some(shape) = shapes.get(SIGMAS).filter(|shape| shape.len() != 1) {
        return Err(format!(
            "tensor `{SIGMAS}` in {entry} has shape {shape:?}, not a list of noise levels"
        ));
    }
    Ok(network)
}

/// The first few names, and how many more there are.
fn list(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| quoted(name)).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether a network of this depth works on squares of this side.
pub(super) fn is_image_size(depth: Depth, size: usize) -> bool {
    (2..=4096).contains(&size) && size.is_multiple_of(1 << depth.halvings())
}

/// The side of the images that the published network with these levels was trained on.
pub(super) fn published_image_size(channels: usize, levels: &[f32]) -> Option<usize> {
    // Channels, levels, the first level, and the side: MNIST, CIFAR-10, CelebA, LSUN bedrooms and towers, FFHQ.
    const PUBLISHED: [(usize, usize, f32, usize); 5] = [
        (1, 232, 50.0, 28),
        (3, 232, 50.0, 32),
        (3, 500, 90.0, 64),
        (3, 1086, 190.0, 128),
        (3, 2311, 348.0, 256),
    ];
    let begin = *levels.first()?;
    let same = |first: f32| (begin / first - 1.0).abs() < 1e-3;
    PUBLISHED
        .into_iter()
        .find(|&(depth, count, first, _)| (depth, count) == (channels, levels.len()) && same(first))
        .map(|(.., size)| size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prior::Schedule;

    #[test]
    fn the_published_networks_are_known_by_their_levels() {
        let size = |channels, begin, count| {
            let levels = Schedule::geometric(begin, 0.01, count).unwrap();
            published_image_size(channels, levels.levels())
        };
        assert_eq!(size(1, 50.0, 232), Some(28));
        assert_eq!(size(3, 50.0, 232), Some(32));
        assert_eq!(size(3, 90.0, 500), Some(64));
        assert_eq!((size(3, 190.0, 1086), size(3, 348.0, 2311)), (Some(128), Some(256)));
        assert_eq!(
            (size(1, 90.0, 500), size(3, 50.0, 231), size(3, 49.0, 232)),
            (None, None, None)
        );
    }
}
