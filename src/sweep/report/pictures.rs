//! Picture grids: truth, each line's reconstructions, deviations.

use std::path::{Path, PathBuf};

use super::figures::{file_name, line_of, slug};
use crate::files::npy;
use crate::output::{Grid as PictureGrid, Series, Style};
use crate::sweep::{Collected, Row};
use crate::{ImageShape, Images, Result};

/// Images of a point that are shown.
const MOST_IMAGES: usize = 8;
/// Values along the axis for which pictures are shown: the ends and the middle.
const MOST_PLACES: usize = 3;

/// The reconstructions of the points that differ in their line only.
pub(super) struct Pictures {
    pub caption: String,
    pub name: String,
    truth: Option<Images>,
    shown: Vec<Shown>,
}

struct Shown {
    title: String,
    note: Option<String>,
    images: Images,
    captions: Option<Vec<String>>,
    deviation: Option<Images>,
}

impl Pictures {
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.png", self.name))
    }

    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut series = Vec::new();
        if let Some(truth) = &self.truth {
            series.push(Series {
                title: "Truth".to_owned(),
                note: None,
                images: truth,
                captions: None,
                style: Style::Intensity,
            });
        }
        for one in &self.shown {
            series.push(Series {
                title: one.title.clone(),
                note: one.note.clone(),
                images: &one.images,
                captions: one.captions.clone(),
                style: Style::Intensity,
            });
            if let Some(deviation) = &one.deviation {
                series.push(Series {
                    title: format!("{} deviation", one.title),
                    note: None,
                    images: deviation,
                    captions: None,
                    style: Style::Heat,
                });
            }
        }
        PictureGrid::new(series).write(self.path(folder))
    }
}

impl Collected {
    /// Pictures of a grid: for each facet, at a few places of the axis.
    pub(super) fn pictures(&self, grid: usize) -> Result<Vec<Pictures>> {
        let of = &self.sweep.grids[grid];
        let mut all = Vec::new();
        for (facet, rows) in self.facets(grid) {
            let x = of.x().unwrap_or_default();
            let mut places: Vec<String> = Vec::new();
            for row in &rows {
                let place = row.point.shown(x);
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            let chosen: Vec<&String> = if places.len() <= MOST_PLACES {
                places.iter().collect()
            } else {
                vec![&places[0], &places[places.len() / 2], &places[places.len() - 1]]
            };
            for place in chosen {
                let here: Vec<&Row> = rows
                    .iter()
                    .copied()
                    .filter(|row| row.point.shown(x) == *place)
                    .collect();
                let at = if x.is_empty() {
                    String::new()
                } else {
                    format!("{x} = {place}")
                };
                let caption: Vec<&str> = [facet.as_str(), at.as_str()]
                    .into_iter()
                    .filter(|s| !s.is_empty())
                    .collect();
                let name = slug(&[&file_name(of, grid), &facet, &at, "pictures"], all.len());
                let caption = caption.join(", ");
                let shown = here
                    .iter()
                    .map(|row| shown(&line_of(of, row).0, row))
                    .collect::<Result<Vec<_>>>()?;
                let shown: Vec<Shown> = shown.into_iter().flatten().collect();
                // Points of other images, or of other shapes, do not stand side by side.
                let same = shown.windows(2).all(|pair| {
                    pair[0].images.shape == pair[1].images.shape && pair[0].images.count() == pair[1].images.count()
                });
                if same && !shown.is_empty() {
                    let truth = read(&here[0].folder.truth())?;
                    all.push(Pictures {
                        caption,
                        name,
                        truth,
                        shown,
                    });
                }
            }
        }
        Ok(all)
    }
}

/// The first images of a point; `None` if they are neither grey nor RGB, or are not to be shown.
fn shown(title: &str, row: &Row) -> Result<Option<Shown>> {
    // The sweep decides, not a run that may have been there before.
    if row.point.shown("pictures") == "none" {
        return Ok(None);
    }
    let metrics = row.metrics();
    let folder = row.folder.path().join(&metrics.method);
    let estimate = match read(&folder.join("mean.npy"))? {
        Some(mean) => Some(mean),
        None => read(&folder.join("samples.npy"))?,
    };
    let captions = |images: &Images| {
        let of_image = row.report.images.iter().take(images.count());
        of_image
            .map(|image| image.psnr.map(|psnr| format!("{psnr:.1} dB")))
            .collect()
    };
    let Some(images) = estimate else { return Ok(None) };
    Ok(Some(Shown {
        title: title.to_owned(),
        note: metrics.psnr.map(|psnr| format!("{:.1} dB", psnr.mean)),
        captions: captions(&images),
        images,
        deviation: read(&folder.join("std.npy"))?,
    }))
}

/// The first images of an array `[B, C, H, W]`, or `[B, 1, C, H, W]`.
fn read(path: &Path) -> Result<Option<Images>> {
    if !path.exists() {
        return Ok(None);
    }
    let array = npy::read(path)?;
    let [count, .., channels, height, width] = array.shape[..] else {
        return Ok(None);
    };
    let shape = ImageShape::new(channels, height, width);
    if !matches!(channels, 1 | 3) {
        return Ok(None);
    }
    let values = array.to_f32();
    let shown = count.min(MOST_IMAGES) * shape.len();
    Ok(Some(Images::new(shape, values[..shown].to_vec())))
}
