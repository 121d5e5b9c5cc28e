//! Whether a list of units is a network: what a file says is believed only after it has been gone through.

use super::{Resample, Unit, UnitNetwork};
use crate::prior::frame::continued;
use crate::prior::registry::check_halvings;
use crate::{Error, ImageShape, Result};

/// Channels are whole blocks of eight: maps are joined and heads are cut at them.
const BLOCK: usize = 8;
const WIDEST: usize = 1 << 14;
/// Side of a map
const LARGEST: usize = 1 << 14;
const MOST_TERMS: usize = 1 << 20;
const MOST_UNITS: usize = 4096;

impl UnitNetwork {
    /// # Errors
    /// [`Error::Usage`], naming the first unit that does not fit.
    pub fn check(&self) -> Result<()> {
        let refuse = |reason: String| Err(Error::usage(format!("this is no network: {reason}")));
        let ImageShape {
            channels,
            height,
            width,
        } = self.image;
        if channels != self.channels || !(1..=256).contains(&channels) || height * width == 0 {
            return refuse(format!(
                "images of {} channels, but it works on {}",
                channels, self.channels
            ));
        }
        if self.units.len() > MOST_UNITS || self.groups == 0 || self.least_of_group == 0 {
            return refuse("too many units, or norms without groups".into());
        }
        if !(self.epsilon > 0.0 && self.epsilon < 1.0 && self.factor > 0.0 && self.factor <= 1.0) {
            return refuse("a floor or a factor that is none".into());
        }
        if let Some(level) = &self.level {
            let even = |width: usize| (4..=WIDEST).contains(&width) && width.is_multiple_of(2);
            if !even(level.width) || !(1..=WIDEST).contains(&level.hidden) || !(0.0..=1.0).contains(&level.shift) {
                return refuse("an embedding of no width".into());
            }
            level.steps.as_ref().map_or(Ok(()), |steps| steps.check())?;
            if self.terms() == 0 || self.terms() > MOST_TERMS {
                return refuse("a level that no block asks for, or too many do".into());
            }
        }
        check_halvings("the network", self.halvings())?;
        let tells = usize::from(self.level.is_none());
        let ImageShape { height, width, .. } = continued(self.image, self.halvings());
        let mut map = (channels + tells, height, width);
        let mut stack = Vec::new();
        for (at, unit) in self.units.iter().enumerate() {
            map = self
                .after(unit, map, &mut stack)
                .map_err(|reason| Error::usage(format!("{reason} (unit {at} of the network)")))?;
            if map.1.max(map.2) > LARGEST {
                return refuse(format!("a map of {}×{} pixels", map.1, map.2));
            }
        }
        if map != (channels, height, width) || !stack.is_empty() {
            return refuse(format!("it makes {map:?} of an image, and leaves {} maps", stack.len()));
        }
        Ok(())
    }

    /// Channels, height and width behind a unit.
    fn after(
        &self,
        unit: &Unit,
        (channels, height, width): Map,
        stack: &mut Vec<Map>,
    ) -> std::result::Result<Map, String> {
        let whole = |width: usize| match width {
            1..=WIDEST if width.is_multiple_of(BLOCK) => Ok(width),
            _ => Err(format!(
                "{width} feature maps: a multiple of {BLOCK} is needed, of at most {WIDEST}"
            )),
        };
        let halved = || match (height % 2, width % 2) {
            (0, 0) => Ok((height / 2, width / 2)),
            _ => Err(format!(
                "the network halves maps of {height}×{width}: the image's sides must allow that"
            )),
        };
        let normed = |channels: usize| match channels.is_multiple_of(self.groups_of(channels)) {
            true => Ok(()),
            false => Err(format!(
                "{channels} channels are no {} groups",
                self.groups_of(channels)
            )),
        };
        match unit {
            Unit::Conv { width: wide, .. } => {
                // The last one of a network without norms is as wide as an image.
                let wide = if *wide == self.channels { *wide } else { whole(*wide)? };
                Ok((wide, height, width))
            }
            Unit::Push => {
                stack.push((channels, height, width));
                Ok((channels, height, width))
            }
            Unit::Join | Unit::Add => {
                let top = stack.pop().ok_or("the stack of maps is empty")?;
                let is_sum = matches!(unit, Unit::Add);
                if (top.1, top.2) != (height, width) || is_sum && top.0 != channels {
                    return Err(format!(
                        "maps of {channels}×{height}×{width} and {}×{}×{} meet: do the image's sides allow all halvings?",
                        top.0, top.1, top.2
                    ));
                }
                let wide = if is_sum { channels } else { channels + top.0 };
                whole(wide)?;
                Ok((whole(channels).map(|_| wide)?, height, width))
            }
            Unit::Block {
                width: wide,
                resample,
                skip,
                ..
            } => {
                normed(channels)?;
                normed(whole(*wide)?)?;
                if !skip && *wide != channels {
                    return Err(format!("{wide} feature maps are added to {channels}"));
                }
                if self.level.is_none() {
                    return Err("a block wants a level, and the network tells none".into());
                }
                let (height, width) = match resample {
                    Resample::Keep => (height, width),
                    Resample::Halve => halved()?,
                    Resample::Double => (2 * height, 2 * width),
                };
                Ok((*wide, height, width))
            }
            Unit::Plain { .. } => Ok((whole(channels)?, height, width)),
            Unit::Attention { heads, .. } => {
                normed(whole(channels)?)?;
                if *heads == 0 || !channels.is_multiple_of(heads * BLOCK) {
                    return Err(format!(
                        "{channels} channels are no {heads} heads of whole blocks of {BLOCK}"
                    ));
                }
                Ok((channels, height, width))
            }
            Unit::Shrink { .. } => halved().map(|(height, width)| (channels, height, width)),
            Unit::Grow { .. } => Ok((whole(channels)?, 2 * height, 2 * width)),
            Unit::Unfold { width: wide, .. } => {
                whole(channels)?;
                let (height, width) = halved()?;
                Ok((whole(*wide)?, height, width))
            }
            Unit::Fold { width: wide, .. } => Ok((whole(*wide)?, 2 * height, 2 * width)),
            Unit::End { .. } => {
                normed(whole(channels)?)?;
                Ok((self.channels, height, width))
            }
        }
    }
}

/// Channels, height and width.
type Map = (usize, usize, usize);
