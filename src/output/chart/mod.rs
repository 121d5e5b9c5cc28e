//! Charts: a metric against what was swept, a line to each method. One drawing, as SVG and as PNG.

mod palette;
mod raster;
mod scale;
mod svg;
#[cfg(feature = "cli")]
pub(crate) use svg::escaped;

use std::path::Path;

use self::palette::{Ink, Marker};
pub use self::scale::Scale;
use super::png;
use crate::Result;

/// A chart in units of about a pixel.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub title: String,
    pub x: Scale,
    /// What the vertical axis shows, with its unit
    pub y: String,
    pub lines: Vec<Line>,
    /// From point to point: where the lines should lie, behind them; may be empty
    pub guide: Vec<(f64, f64)>,
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    /// Which colour and marker of the palette: a method has the same in every chart
    pub style: usize,
    /// From left to right
    pub points: Vec<Point>,
    pub form: Form,
}

/// How the points of a line are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Form {
    #[default]
    Straight,
    /// A step of this width to each
    Steps(f64),
    /// Not at all
    Dots,
}

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub error: Option<f64>,
}

/// Width and height of a chart.
pub const SIZE: (f64, f64) = (560.0, 360.0);
/// Sides of the field that the lines are drawn in.
const LEFT: f64 = 58.0;
const RIGHT: f64 = SIZE.0 - 18.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = SIZE.1 - 50.0;
/// Room that a letter takes, at most.
const LETTER: f64 = 7.0;
/// Half the width of an error bar's ends.
const CAP: f64 = 3.0;

/// Where text stands in relation to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// What a chart is drawn on.
trait Surface {
    /// Straight from point to point.
    fn stroke(&mut self, points: &[(f64, f64)], ink: Ink, width: f64);
    fn marker(&mut self, at: (f64, f64), marker: Marker, ink: Ink);
    /// One line of text on the baseline `at.1`.
    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str, ink: Ink);
}

impl Chart {
    /// As a file that stands alone: its colours follow the reader's light or dark mode.
    pub fn svg(&self) -> String {
        let mut surface = svg::Svg::default();
        self.draw(&mut surface);
        surface.finish(&self.title, svg::Standing::Alone)
    }

    /// As part of a page, whose style sheet has [`Chart::style_sheet`].
    pub fn inline_svg(&self) -> String {
        let mut surface = svg::Svg::default();
        self.draw(&mut surface);
        surface.finish(&self.title, svg::Standing::InPage)
    }

    /// The colours of all charts of a page, light and dark.
    pub fn style_sheet() -> String {
        svg::style_sheet()
    }

    /// # Errors
    /// If the file cannot be written.
    pub fn write_png(&self, path: &Path) -> Result<()> {
        let mut surface = raster::Raster::new(SIZE);
        self.draw(&mut surface);
        png::write_picture(path, &surface.picture())
    }

    /// Values of the vertical axis that must be seen: the means with their errors, and the guide.
    fn extent(&self) -> Option<(f64, f64)> {
        let guide = self.guide.iter().map(|point| point.1);
        let ends = self.lines.iter().flat_map(|line| &line.points).flat_map(|point| {
            let error = point.error.unwrap_or(0.0);
            [point.y - error, point.y + error]
        });
        ends.chain(guide)
            .filter(|y| y.is_finite())
            .fold(None, |extent, y| match extent {
                None => Some((y, y)),
                Some((low, high)) => Some((f64::min(low, y), f64::max(high, y))),
            })
    }

    fn draw(&self, surface: &mut dyn Surface) {
        surface.text((LEFT - 42.0, 20.0), Anchor::Start, &self.title, Ink::Text);
        self.draw_legend(surface);
        let (low, high) = self.extent().unwrap_or((0.0, 1.0));
        let ticks = scale::linear_ticks(low, high, 6);
        let (low, high) = (ticks[0].value, ticks[ticks.len() - 1].value);
        let y = |value: f64| BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP);
        let x = |value: f64| LEFT + 12.0 + self.x.position(value) * (RIGHT - LEFT - 24.0);
        for tick in &ticks {
            let y = y(tick.value);
            surface.stroke(&[(LEFT, y), (RIGHT, y)], Ink::Hairline, 1.0);
            surface.text((LEFT - 8.0, y + 4.0), Anchor::End, &tick.label, Ink::Muted);
        }
        for tick in self.x.ticks() {
            let x = x(tick.value);
            surface.stroke(&[(x, BOTTOM), (x, BOTTOM + 4.0)], Ink::Muted, 1.0);
            surface.text((x, BOTTOM + 18.0), Anchor::Middle, &tick.label, Ink::Muted);
        }
        surface.text((LEFT - 42.0, TOP - 12.0), Anchor::Start, &self.y, Ink::Muted);
        let middle = f64::midpoint(LEFT, RIGHT);
        surface.text((middle, BOTTOM + 38.0), Anchor::Middle, self.x.label(), Ink::Muted);
        let guide: Vec<(f64, f64)> = self.guide.iter().map(|point| (x(point.0), y(point.1))).collect();
        surface.stroke(&guide, Ink::Muted, 1.0);
        for line in &self.lines {
            let ink = Ink::Series(line.style);
            let points = line.points.iter().filter(|point| point.y.is_finite());
            let places: Vec<(f64, f64)> = points.clone().map(|point| (x(point.x), y(point.y))).collect();
            match line.form {
                Form::Straight => surface.stroke(&places, ink, 2.0),
                Form::Steps(width) => {
                    let ends = |point: &Point| {
                        let end = |sign: f64| (x(point.x + sign * width / 2.0), y(point.y));
                        [end(-1.0), end(1.0)]
                    };
                    surface.stroke(&points.clone().flat_map(ends).collect::<Vec<_>>(), ink, 2.0);
                }
                Form::Dots => {}
            }
            for (point, at) in points.zip(places) {
                if let Some(error) = point.error.filter(|error| error.is_finite()) {
                    let (above, below) = (y(point.y + error), y(point.y - error));
                    surface.stroke(&[(at.0, above), (at.0, below)], ink, 1.0);
                    for end in [above, below] {
                        surface.stroke(&[(at.0 - CAP, end), (at.0 + CAP, end)], ink, 1.0);
                    }
                }
                surface.marker(at, Marker::of(line.style), ink);
            }
        }
    }

    /// The lines' names, above the field.
    fn draw_legend(&self, surface: &mut dyn Surface) {
        let mut left = LEFT - 42.0;
        for line in &self.lines {
            let ink = Ink::Series(line.style);
            if line.form != Form::Dots {
                surface.stroke(&[(left, 39.0), (left + 22.0, 39.0)], ink, 2.0);
            }
            surface.marker((left + 11.0, 39.0), Marker::of(line.style), ink);
            surface.text((left + 28.0, 43.0), Anchor::Start, &line.name, Ink::Text);
            left += 46.0 + LETTER * line.name.chars().count() as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let point = |x, y| Point { x, y, error: Some(0.5) };
        Chart {
            title: "PSNR & kappa".to_owned(),
            x: Scale::of("kappa", &[1.0, 1e3, 1e6]),
            y: "PSNR (dB)".to_owned(),
            lines: vec![
                Line {
                    name: "QCS-SGM+".to_owned(),
                    style: 1,
                    points: vec![point(1.0, 20.0), point(1e3, f64::NAN), point(1e6, 15.0)],
                    form: Form::Straight,
                },
                Line {
                    name: "turbo".to_owned(),
                    style: 2,
                    points: vec![point(1.0, 26.0), point(1e3, 24.0), point(1e6, f64::INFINITY)],
                    form: Form::Straight,
                },
            ],
            guide: Vec::new(),
        }
    }

    #[test]
    fn a_chart_names_its_axes_and_lines_and_escapes_its_title() {
        let svg = chart().svg();
        for text in [
            "PSNR &amp; kappa",
            ">kappa<",
            ">PSNR (dB)<",
            ">QCS-SGM+<",
            ">turbo<",
            ">10³<",
            ">24<",
        ] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(
            !svg.contains("NaN") && !svg.contains("inf"),
            "what is no number is not drawn: {svg}"
        );
    }

    #[test]
    fn the_picture_shows_each_line_in_its_colour() {
        let mut surface = raster::Raster::new(SIZE);
        chart().draw(&mut surface);
        let picture = surface.picture();
        assert_eq!((picture.width(), picture.height()), (1120, 720));
        for style in [1, 2] {
            let colour = palette::light(Ink::Series(style));
            assert!(picture.pixels().iter().filter(|&&pixel| pixel == colour).count() > 500);
        }
    }

    #[test]
    fn steps_have_width_dots_are_not_joined_and_a_guide_is_seen_whole() {
        let paths = |chart: &Chart| chart.svg().matches("<path").count();
        let (mut dots, mut steps, mut guided) = (chart(), chart(), chart());
        dots.lines.iter_mut().for_each(|line| line.form = Form::Dots);
        // Two lines of the field, and two of the legend.
        assert_eq!(paths(&chart()) - paths(&dots), 4);
        steps.x = Scale::of("rank", &[0.0, 1.0]);
        for line in &mut steps.lines {
            line.form = Form::Steps(0.5);
            line.points = [0.25, 0.75]
                .map(|x| Point {
                    x,
                    y: 20.0,
                    error: None,
                })
                .to_vec();
        }
        let svg = steps.svg();
        let field = RIGHT - LEFT - 24.0;
        assert!(svg.contains(&format!("L{}", LEFT + 12.0 + 0.5 * field)), "{svg}");
        guided.guide = vec![(1.0, 20.0), (1e6, 60.0)];
        assert!(guided.svg().contains(">60<"), "{}", guided.svg());
        let muted = |chart: &Chart| chart.svg().matches("<path class=\"muted\"").count();
        assert_eq!(muted(&guided) - muted(&chart()), 1);
    }

    #[test]
    fn an_empty_chart_is_drawn_all_the_same() {
        let empty = Chart {
            lines: Vec::new(),
            x: Scale::of("m", &[]),
            ..chart()
        };
        assert!(empty.svg().contains("PSNR (dB)"));
    }
}
