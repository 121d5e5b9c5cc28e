//! A share of a run's images, for arrays of independent jobs. Noise is keyed by image, so shards together are the whole run.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A share of `count`. As people write it, the first is 1/8 and the last 8/8; `index` counts from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Shard {
    pub index: usize,
    pub count: usize,
}

/// What the names of shards' folders begin with.
const PREFIX: &str = "shard-";

impl Shard {
    /// The share of a task of a Slurm array, from the variables that Slurm sets.
    ///
    /// # Errors
    /// If this is no task of an array.
    pub fn of_slurm() -> Result<Self> {
        Self::of_variables(|name| std::env::var(name).ok())
    }

    fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let number = |name: &'static str, default: Option<usize>| {
            let text = variable(name).filter(|text| !text.is_empty());
            match (text, default) {
                (Some(text), _) => text
                    .parse::<usize>()
                    .map_err(|_| Error::setting("shard", format!("auto: {name} is {text:?}, not a number"))),
                (None, Some(default)) => Ok(default),
                (None, None) => Err(Error::setting(
                    "shard",
                    format!("auto: {name} is not set: this is no task of a Slurm array"),
                )),
            }
        };
        let (id, count) = (
            number("SLURM_ARRAY_TASK_ID", None)?,
            number("SLURM_ARRAY_TASK_COUNT", None)?,
        );
        let (least, step) = (
            number("SLURM_ARRAY_TASK_MIN", Some(0))?,
            number("SLURM_ARRAY_TASK_STEP", Some(1))?,
        );
        let index = id.checked_sub(least).map(|past| past / step.max(1));
        match index {
            Some(index) if index < count => Ok(Self { index, count }),
            _ => Err(Error::setting(
                "shard",
                format!("auto: task {id} is none of {count} from {least} on in steps of {step}"),
            )),
        }
    }

    /// Which of so many images are its own: a block, as large as the others' or one less.
    pub fn images(self, images: usize) -> Range<usize> {
        let end = |index: usize| (index as u128 * images as u128 / self.count as u128) as usize;
        end(self.index)..end(self.index + 1)
    }

    /// Its folder in the run's.
    pub fn folder(self, run: &Path) -> PathBuf {
        run.join(format!("{PREFIX}{}-of-{}", self.index + 1, self.count))
    }

    /// The shards whose folders lie in a run's, in order.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn found(run: &Path) -> Result<Vec<Self>> {
        let entries = std::fs::read_dir(run).map_err(|e| Error::io(run, "read", e))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let shard = |name: String| {
            let (index, count) = name.strip_prefix(PREFIX)?.split_once("-of-")?;
            format!("{index}/{count}").parse().ok()
        };
        let names: Vec<String> = names.collect();
        if let Some(old) = names.iter().find(|name| name.starts_with(&format!("{PREFIX}0-of-"))) {
            return Err(Error::usage(format!(
                "{}: shards are counted from 1; {old} is of a version that counted from 0: run the shards again",
                run.display()
            )));
        }
        let mut found: Vec<Self> = names.into_iter().filter_map(shard).collect();
        found.sort();
        Ok(found)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(index, count)| {
            let (number, count): (usize, usize) = (index.parse().ok()?, count.parse().ok()?);
            let index = number.checked_sub(1)?;
            (index < count).then_some(Self { index, count })
        });
        parsed.ok_or_else(|| format!("{text} is no share like 1/8, the first of eight, or 8/8, the last"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_blocks_that_hold_every_image_once() {
        for (images, count) in [(10, 3), (8, 8), (100, 7), (5, 1), (3, 5)] {
            let blocks: Vec<Range<usize>> = (0..count).map(|index| Shard { index, count }.images(images)).collect();
            assert_eq!(
                blocks.iter().cloned().flatten().collect::<Vec<_>>(),
                (0..images).collect::<Vec<_>>()
            );
            let sizes: Vec<usize> = blocks.iter().map(Range::len).collect();
            assert!(
                sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1,
                "{sizes:?}"
            );
        }
    }

    #[test]
    fn a_share_is_read_as_it_is_written() {
        let shard: Shard = "3/8".parse().unwrap();
        assert_eq!(
            (shard, shard.to_string().as_str()),
            (Shard { index: 2, count: 8 }, "3/8")
        );
        assert_eq!(shard.folder(Path::new("out")), Path::new("out/shard-3-of-8"));
        assert_eq!("8/8".parse(), Ok(Shard { index: 7, count: 8 }));
        for wrong in ["0/8", "9/8", "3", "a/b", "1/0", "-1/3", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn slurm_says_which_task_of_how_many_this_is() {
        let of = |pairs: &[(&str, &str)]| {
            let find = |name: &str| {
                pairs
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            Shard::of_variables(find)
                .map(|shard| shard.to_string())
                .map_err(|e| e.to_string())
        };
        let (id, count, min, step) = (
            "SLURM_ARRAY_TASK_ID",
            "SLURM_ARRAY_TASK_COUNT",
            "SLURM_ARRAY_TASK_MIN",
            "SLURM_ARRAY_TASK_STEP",
        );
        assert_eq!(of(&[(id, "3"), (count, "8"), (min, "1")]), Ok("3/8".to_owned()));
        assert_eq!(
            of(&[(id, "6"), (count, "4"), (min, "0"), (step, "2")]),
            Ok("4/4".to_owned())
        );
        assert!(of(&[]).unwrap_err().contains("SLURM_ARRAY_TASK_ID is not set"));
        assert!(
            of(&[(id, "9"), (count, "8"), (min, "0")])
                .unwrap_err()
                .contains("task 9 is none of 8")
        );
        assert!(of(&[(id, "x"), (count, "8")]).unwrap_err().contains("not a number"));
    }
}
