//! A sweep as TOML: a setting with a list of values spans the grid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::keys;
use super::point::Point;
use crate::methods;
use crate::{Error, Result};

/// What an experiment consists of. In a file, settings that stand above the first `[[grid]]` hold for every grid; a file
/// without `[[grid]]` is one grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweep {
    pub title: String,
    /// What the experiment asks or shows, in the report
    pub about: String,
    pub grids: Vec<Grid>,
}

/// A product of lists, and how it is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    pub title: String,
    pub about: String,
    /// The setting along the horizontal axis; that with the most numbers if empty
    pub x: String,
    /// The setting that gives the lines; the method if empty
    pub lines: String,
    /// Each setting and its values, one or several
    pub settings: BTreeMap<String, Vec<Value>>,
}

/// Keys of a grid that are no settings.
const WORDS: [&str; 4] = ["title", "about", "x", "lines"];
/// More points than anybody waits for: a slip of the keyboard.
const MOST_POINTS: usize = 100_000;

#[derive(Serialize, Deserialize)]
struct File {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grid: Vec<Table>,
    #[serde(flatten)]
    common: Table,
}

impl Sweep {
    /// Reads a file; `full` takes what stands in its `[full]` tables instead of the settings above them.
    ///
    /// # Errors
    /// If the file cannot be read, is no TOML, or names a setting that no run has.
    pub fn read(path: &Path, full: bool) -> Result<Self> {
        let text = crate::files::read_text(path)?;
        Self::parse(&text, full).map_err(|(key, reason)| {
            let names = |line: &str| {
                let line = line.trim_start();
                key.as_ref().is_some_and(|key| {
                    let bare = line.trim_start_matches('"');
                    bare.strip_prefix(key.as_str())
                        .is_some_and(|rest| rest.trim_start_matches('"').trim_start().starts_with('='))
                })
            };
            match text.lines().position(names) {
                Some(line) => Error::bad_file(path, format!("line {}: {reason}", line + 1)),
                None => Error::bad_file(path, reason),
            }
        })
    }

    /// The sweep in a text; else the key that is wrong, and why.
    fn parse(text: &str, full: bool) -> Result<Self, (Option<String>, String)> {
        let File { grid, mut common } = toml::from_str(text).map_err(|e: toml::de::Error| {
            let line = e
                .span()
                .map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            (None, format!("line {line}: {}", e.message().replace('\n', " ")))
        })?;
        let title = word(&mut common, "title")?;
        let about = word(&mut common, "about")?;
        let tables = if grid.is_empty() { vec![Table::new()] } else { grid };
        let mut grids = Vec::new();
        for own in tables {
            let mut all = common.clone();
            let full_of_all = all.remove("full");
            all.extend(own);
            for instead in [full_of_all, all.remove("full")].into_iter().flatten() {
                match instead {
                    Value::Table(instead) if full => all.extend(instead),
                    Value::Table(_) => {}
                    other => return Err((Some("full".to_owned()), format!("full is a table, not {other}"))),
                }
            }
            grids.push(Grid::parse(all)?);
        }
        Ok(Self { title, about, grids })
    }

    /// A sweep of one grid, from nothing but flags.
    pub fn of_flags() -> Self {
        Self {
            grids: vec![Grid::default()],
            ..Self::default()
        }
    }

    /// Puts a setting with its values over every grid.
    ///
    /// # Errors
    /// If no run has such a setting.
    pub fn set(&mut self, key: &str, values: Vec<Value>) -> Result<()> {
        for grid in &mut self.grids {
            grid.set(key, values.clone())?;
        }
        Ok(())
    }

    /// As a file that [`Sweep::read`] takes back.
    pub fn to_toml(&self) -> String {
        let mut common = Table::new();
        for (key, text) in [("title", &self.title), ("about", &self.about)] {
            if !text.is_empty() {
                common.insert(key.to_owned(), Value::String(text.clone()));
            }
        }
        let file = File {
            grid: self.grids.iter().map(Grid::to_table).collect(),
            common,
        };
        toml::to_string(&file).expect("texts, numbers and lists are TOML")
    }

    /// Every run of the sweep, in the order of the grids; points that come out as the same run stay, as they are drawn twice.
    ///
    /// # Errors
    /// If there are none, or absurdly many.
    pub fn points(&self) -> Result<Vec<Point>> {
        let sizes = self.grids.iter().map(|grid| {
            let lists = grid.settings.values().map(Vec::len);
            lists.fold(1usize, usize::saturating_mul)
        });
        let size = sizes.fold(0, usize::saturating_add);
        if size == 0 || size > MOST_POINTS {
            return Err(Error::usage(format!(
                "the grid has {size} points: at least 1 and at most {MOST_POINTS}"
            )));
        }
        let of_grid = |(index, grid): (usize, &Grid)| {
            grid.combinations()
                .into_iter()
                .map(move |settings| Point::new(index, grid, settings))
                .collect::<Vec<_>>()
        };
        Ok(self.grids.iter().enumerate().flat_map(of_grid).collect())
    }
}

fn word(table: &mut Table, key: &str) -> Result<String, (Option<String>, String)> {
    match table.remove(key) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err((Some(key.to_owned()), format!("{key} is a text, not {other}"))),
    }
}

impl Grid {
    fn parse(mut table: Table) -> Result<Self, (Option<String>, String)> {
        let mut grid = Self {
            title: word(&mut table, "title")?,
            about: word(&mut table, "about")?,
            x: word(&mut table, "x")?,
            lines: word(&mut table, "lines")?,
            settings: BTreeMap::new(),
        };
        for (key, value) in table {
            // `[ep]` with `xi = 1` below it is the same as `"ep.xi" = 1`.
            let entries = match value {
                Value::Table(of_method) => of_method
                    .into_iter()
                    .map(|(name, value)| (format!("{key}.{name}"), value))
                    .collect(),
                value => vec![(key, value)],
            };
            for (key, value) in entries {
                let values = match value {
                    Value::Array(values) => values,
                    value => vec![value],
                };
                let at = |e: Error| (Some(key.rsplit('.').next().unwrap_or(&key).to_owned()), e.to_string());
                grid.set(&key, values).map_err(at)?;
            }
        }
        for (word, key) in [("x", &grid.x), ("lines", &grid.lines)] {
            if !key.is_empty() && key != keys::METHOD && !grid.settings.contains_key(key) {
                return Err((
                    Some(word.to_owned()),
                    format!("{word} = {key:?} names no setting of this grid"),
                ));
            }
        }
        Ok(grid)
    }

    fn set(&mut self, key: &str, values: Vec<Value>) -> Result<()> {
        keys::check(key)?;
        if values.is_empty() {
            return Err(Error::usage(format!("{key} has no values")));
        }
        let values = if key == keys::METHOD {
            methods_of(&values)?
        } else {
            values
        };
        if let Some(other) = values.iter().find(|value| value.is_table() || value.is_array()) {
            return Err(Error::usage(format!(
                "{key} has {other} as a value: a number or a text is meant"
            )));
        }
        let distinct: BTreeSet<String> = values.iter().map(ToString::to_string).collect();
        if distinct.len() < values.len() {
            return Err(Error::usage(format!("{key} has a value twice")));
        }
        self.settings.insert(key.to_owned(), values);
        Ok(())
    }

    fn to_table(&self) -> Table {
        let words = WORDS.into_iter().zip([&self.title, &self.about, &self.x, &self.lines]);
        let words = words
            .filter(|(_, text)| !text.is_empty())
            .map(|(key, text)| (key.to_owned(), Value::String(text.clone())));
        let settings = self.settings.iter().map(|(key, values)| match &values[..] {
            [one] => (key.clone(), one.clone()),
            several => (key.clone(), Value::Array(several.to_vec())),
        });
        words.chain(settings).collect()
    }

    /// The settings with several values, in the order of their names, but the method last: so points of one problem follow
    /// each other.
    pub fn axes(&self) -> Vec<&str> {
        let mut axes: Vec<&str> = self
            .settings
            .iter()
            .filter(|(_, values)| values.len() > 1)
            .map(|(key, _)| key.as_str())
            .collect();
        axes.sort_by_key(|&key| key == keys::METHOD);
        axes
    }

    /// The setting whose values are the lines.
    pub fn lines(&self) -> &str {
        if self.lines.is_empty() {
            keys::METHOD
        } else {
            &self.lines
        }
    }

    /// The setting along the horizontal axis, if there is one with several values.
    pub fn x(&self) -> Option<&str> {
        if !self.x.is_empty() {
            return Some(&self.x);
        }
        let others = || {
            self.axes()
                .into_iter()
                .filter(|&axis| axis != self.lines() && axis != keys::METHOD)
        };
        let numeric = |axis: &&str| self.settings[*axis].iter().all(|value| keys::number(value).is_some());
        // The first of those with the most values.
        let longest = |axes: Vec<&'_ str>| {
            let most = axes.iter().map(|&axis| self.settings[axis].len()).max();
            axes.iter().position(|&axis| Some(self.settings[axis].len()) == most)
        };
        let numbers: Vec<&str> = others().filter(numeric).collect();
        let all: Vec<&str> = others().collect();
        let chosen = if numbers.is_empty() { all } else { numbers };
        longest(chosen.clone()).map(|at| chosen[at])
    }

    /// The settings that neither the axis nor the lines show: a chart to each of their combinations.
    pub fn facets(&self) -> Vec<&str> {
        let shown = [self.x().unwrap_or_default(), self.lines()];
        self.axes().into_iter().filter(|axis| !shown.contains(axis)).collect()
    }

    fn combinations(&self) -> Vec<BTreeMap<String, Value>> {
        let fixed = self.settings.iter().filter(|(_, values)| values.len() == 1);
        let fixed: BTreeMap<String, Value> = fixed.map(|(key, values)| (key.clone(), values[0].clone())).collect();
        self.axes().into_iter().fold(vec![fixed], |points, axis| {
            let with = |point: BTreeMap<String, Value>| {
                self.settings[axis].iter().map(move |value| {
                    let mut point = point.clone();
                    point.insert(axis.to_owned(), value.clone());
                    point
                })
            };
            points.into_iter().flat_map(with).collect()
        })
    }
}

/// Names of methods; "all" and "both" stand for several.
fn methods_of(values: &[Value]) -> Result<Vec<Value>> {
    let mut kinds = Vec::new();
    for value in values {
        let Value::String(list) = value else {
            return Err(Error::setting("method", format!("{value} is no method's name")));
        };
        kinds.extend(methods::parse_list(list)?);
    }
    Ok(kinds.iter().map(|kind| Value::String(kind.key().to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        title = 'Kappa'
        images = 'bundled:digits'
        method = ['diag', 'ep']
        [ep]
        ep_iters = 3
        [[grid]]
        title = 'ill'
        matrix = 'ill-conditioned'
        kappa = [1, 1e3, 1e6]
        bits = [1, 3]
        [[grid]]
        matrix = 'correlated'
        rho = [0.0, 0.4]
        method = 'all'
    ";

    #[test]
    fn lists_span_grids_and_what_is_common_holds_for_all() {
        let sweep = Sweep::parse(TEXT, false).unwrap();
        assert_eq!((sweep.title.as_str(), sweep.grids.len()), ("Kappa", 2));
        let [ill, correlated] = &sweep.grids[..] else { panic!() };
        assert_eq!(ill.axes(), ["bits", "kappa", "method"]);
        assert_eq!(
            (ill.x(), ill.lines(), ill.facets()),
            (Some("kappa"), "method", vec!["bits"])
        );
        assert_eq!(correlated.settings["method"].len(), methods::own().len());
        let points = sweep.points().unwrap();
        assert_eq!(points.len(), 12 + 2 * methods::own().len());
        let configs: Vec<_> = points.iter().map(|point| point.config().unwrap()).collect();
        assert_eq!(configs[0].methods, ["diag"]);
        let ep = methods::QcsSgmPlus {
            ep_iters: Some(3),
            ..Default::default()
        };
        assert_eq!(configs[1].settings.of(methods::QCS_SGM_PLUS), ep.into());
        assert_eq!(configs[1].measure.as_ref().unwrap().kappa, Some(1.0));
    }

    #[test]
    fn the_large_version_takes_other_values() {
        let text = "count = 10\nkappa = [1, 2]\n[full]\ncount = 100\n[[grid]]\nbits = 1\n[grid.full]\nbits = [1, 2]";
        let counts = |full: bool| {
            let sweep = Sweep::parse(text, full).unwrap();
            (
                sweep.points().unwrap().len(),
                sweep.grids[0].settings["count"][0].as_integer(),
            )
        };
        assert_eq!((counts(false), counts(true)), ((2, Some(10)), (4, Some(100))));
        assert!(Sweep::parse("full = 3", false).is_err());
    }

    #[test]
    fn it_survives_being_written() {
        let sweep = Sweep::parse(TEXT, false).unwrap();
        assert_eq!(
            Sweep::parse(&sweep.to_toml(), false).unwrap(),
            sweep,
            "{}",
            sweep.to_toml()
        );
    }

    #[test]
    fn flags_make_a_grid_or_change_one() {
        let mut sweep = Sweep::of_flags();
        sweep
            .set("kappa", vec![keys::value_of("1"), keys::value_of("1e3")])
            .unwrap();
        sweep.set("method", vec![keys::value_of("all")]).unwrap();
        assert_eq!(sweep.points().unwrap().len(), 2 * methods::own().len());
        sweep.set("kappa", vec![keys::value_of("7")]).unwrap();
        assert_eq!(sweep.grids[0].axes(), ["method"]);
        assert_eq!(sweep.grids[0].x(), None);
    }

    #[test]
    fn mistakes_are_named() {
        let refused = |text: &str, key: &str, words: &str| {
            let (named, reason) = Sweep::parse(text, false).unwrap_err();
            assert_eq!(named.unwrap_or_default(), key, "{reason}");
            assert!(reason.contains(words), "{reason}");
        };
        refused("kapa = [1]", "kapa", "no setting of a run");
        refused("kappa = []", "kappa", "no values");
        refused("kappa = [1, 1]", "kappa", "twice");
        refused("kappa = [[1]]", "kappa", "a number or a text");
        refused("method = 'magic'", "method", "magic");
        refused("x = 'rho'\nkappa = 1", "x", "names no setting");
        refused("title = 3", "title", "a text");
        refused("kappa = ", "", "line 1");
        let seeds: Vec<String> = (0..1000).map(|seed| seed.to_string()).collect();
        let many = format!("seed = [{0}]\nfirst = [{0}]", seeds.join(","));
        assert!(Sweep::parse(&many, false).unwrap().points().is_err());
    }
}
