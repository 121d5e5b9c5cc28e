//! Writing a published network down: units, and beside them where each weight comes from.

use std::collections::HashMap;

use super::Translation;
use crate::ImageShape;
use crate::prior::units::{Level, Output, Resample, Unit, UnitNetwork};

/// A tensor of the file as a part of a weight, in front of the parts that follow.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: String,
    pub arrangement: Arrangement,
    pub factor: f32,
}

/// In which order the numbers of a tensor stand in the weight.
#[derive(Clone, Debug)]
pub enum Arrangement {
    /// As they are, or these rows
    Rows(Option<Vec<usize>>),
    /// A 2×2 convolution of stride 2, `[out, in, 2, 2]`, as a matrix of unfolded pixels
    Unfolded,
    /// A transposed one, `[in, out, 2, 2]`, as a matrix to unfolded pixels
    Folded,
}

impl Part {
    pub fn new(name: String) -> Self {
        Self {
            name,
            arrangement: Arrangement::Rows(None),
            factor: 1.0,
        }
    }
}

/// What a family calls the layers of a block and of an attention, behind the block's own name.
pub struct Leaves {
    pub norm1: &'static str,
    pub conv1: &'static str,
    pub level: &'static str,
    pub norm2: &'static str,
    pub conv2: &'static str,
    pub skip: &'static str,
    pub norm: &'static str,
    pub proj: &'static str,
}

pub struct Builder {
    leaves: Leaves,
    /// Of the map at hand
    pub channels: usize,
    stack: Vec<usize>,
    units: Vec<Unit>,
    parts: HashMap<String, Vec<Part>>,
    factor: f32,
    pub ignored: Vec<String>,
    pub notes: Vec<String>,
}

/// What a network is beside its units.
pub struct Frame {
    pub family: String,
    pub image: ImageShape,
    /// Height and width of the images of the training, where they are known
    pub trained: Option<(usize, usize)>,
    pub output: Output,
    pub level: Option<Level>,
    pub groups: usize,
    pub least_of_group: usize,
    pub epsilon: f64,
}

impl Builder {
    /// For images of so many channels; sums have this factor.
    pub fn new(leaves: Leaves, channels: usize, factor: f32) -> Self {
        Self {
            leaves,
            channels,
            stack: Vec::new(),
            units: Vec::new(),
            parts: HashMap::new(),
            factor,
            ignored: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// A weight is one tensor of the file.
    fn one(&mut self, to: String, from: String, factor: f32) {
        let part = Part {
            factor,
            ..Part::new(from)
        };
        self.parts.insert(to, vec![part]);
    }

    /// Weight and bias of a layer.
    fn layer(&mut self, to: &str, from: &str, factor: f32) {
        for what in ["weight", "bias"] {
            self.one(format!("{to}.{what}"), format!("{from}.{what}"), factor);
        }
    }

    /// Where a weight comes from.
    pub fn parts(&mut self, to: &str, parts: Vec<Part>) {
        self.parts.insert(to.to_owned(), parts);
    }

    /// The two dense layers of the level.
    pub fn level(&mut self, first: &str, second: &str) {
        self.layer("level.0", first, 1.0);
        self.layer("level.1", second, 1.0);
    }

    pub fn push(&mut self) {
        self.stack.push(self.channels);
        self.units.push(Unit::Push);
    }

    /// The error is the reason in words.
    pub fn join(&mut self) -> Result<(), String> {
        let more = self.stack.pop();
        self.channels += more.ok_or("the network takes more maps than it has kept")?;
        self.units.push(Unit::Join);
        Ok(())
    }

    pub fn conv(&mut self, name: &str, width: usize) {
        self.layer(name, name, 1.0);
        self.channels = width;
        let (name, bias) = (name.to_owned(), true);
        self.units.push(Unit::Conv { name, width, bias });
    }

    /// A unit whose weights are seen to elsewhere.
    pub fn unit(&mut self, unit: Unit, channels: usize) {
        self.units.push(unit);
        self.channels = channels;
    }

    /// A block; one that changes its width has a convolution in the way of its input, others where `skip` says so.
    pub fn block(&mut self, name: &str, width: usize, resample: Resample, skip: bool) {
        let skip = skip || self.channels != width;
        let Leaves {
            norm1,
            conv1,
            level,
            norm2,
            conv2,
            skip: shortcut,
            ..
        } = self.leaves;
        for (to, from, factor) in [
            ("norm1", norm1, 1.0),
            ("conv1", conv1, 1.0),
            ("norm2", norm2, 1.0),
            ("conv2", conv2, self.factor),
        ] {
            self.layer(&format!("{name}.{to}"), &format!("{name}.{from}"), factor);
        }
        if skip {
            self.layer(&format!("{name}.skip"), &format!("{name}.{shortcut}"), self.factor);
        }
        for what in ["weight", "bias"] {
            let part = Part::new(format!("{name}.{level}.{what}"));
            let terms = format!("level.terms.{what}");
            self.parts.entry(terms).or_default().push(part);
        }
        self.channels = width;
        self.units.push(Unit::Block {
            name: name.to_owned(),
            width,
            resample,
            skip,
        });
    }

    /// An attention whose q, k and v are tensors of their own.
    pub fn attention_of(&mut self, name: &str, heads: usize, qkv: [&str; 3], proj: &str) {
        for what in ["weight", "bias"] {
            let parts = qkv.map(|part| Part::new(format!("{name}.{part}.{what}")));
            self.parts.insert(format!("{name}.qkv.{what}"), parts.to_vec());
        }
        self.finish_attention(name, heads, proj);
    }

    /// One whose q, k and v are rows of one tensor, in this order.
    pub fn attention(&mut self, name: &str, heads: usize, rows: impl Fn(usize) -> usize) {
        let order: Vec<usize> = (0..3 * self.channels).map(rows).collect();
        for what in ["weight", "bias"] {
            let part = Part {
                arrangement: Arrangement::Rows(Some(order.clone())),
                ..Part::new(format!("{name}.qkv.{what}"))
            };
            self.parts.insert(format!("{name}.qkv.{what}"), vec![part]);
        }
        let proj = self.leaves.proj;
        self.finish_attention(name, heads, proj);
    }

    fn finish_attention(&mut self, name: &str, heads: usize, proj: &str) {
        let norm = self.leaves.norm;
        self.layer(&format!("{name}.norm"), &format!("{name}.{norm}"), 1.0);
        self.layer(&format!("{name}.proj"), &format!("{name}.{proj}"), self.factor);
        let name = name.to_owned();
        self.units.push(Unit::Attention { name, heads });
    }

    pub fn shrink(&mut self, name: &str, one_sided: bool) {
        self.layer(name, name, 1.0);
        let name = name.to_owned();
        self.units.push(Unit::Shrink { name, one_sided });
    }

    pub fn grow(&mut self, name: &str) {
        self.layer(name, name, 1.0);
        self.units.push(Unit::Grow { name: name.to_owned() });
    }

    /// The last layers, of which as many outputs are taken as an image has channels.
    pub fn end(&mut self, norm: &str, name: &str, channels: usize) {
        self.layer(norm, norm, 1.0);
        for what in ["weight", "bias"] {
            let part = Part {
                arrangement: Arrangement::Rows(Some((0..channels).collect())),
                ..Part::new(format!("{name}.{what}"))
            };
            self.parts.insert(format!("{name}.{what}"), vec![part]);
        }
        let (norm, name) = (norm.to_owned(), name.to_owned());
        self.units.push(Unit::End { norm, name });
    }

    pub fn finish(self, frame: Frame) -> Translation {
        Translation {
            network: UnitNetwork {
                family: frame.family,
                channels: frame.image.channels,
                image: frame.image,
                output: frame.output,
                level: frame.level,
                groups: frame.groups,
                least_of_group: frame.least_of_group,
                epsilon: frame.epsilon,
                factor: self.factor,
                units: self.units,
            },
            parts: self.parts,
            ignored: self.ignored,
            notes: self.notes,
            trained: frame.trained,
            entry: None,
        }
    }
}
