//! A chart as SVG. Colours are classes, so that a page, or the file itself, can give them for light and for dark.

use std::fmt::Write;

use super::palette::{Ink, Marker, STYLES, dark, light};
use super::{Anchor, SIZE, Surface};
use crate::output::picture::Colour;

/// Where the drawing will stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Alone,
    InPage,
}

#[derive(Default)]
pub(super) struct Svg {
    body: String,
}

/// Half the size of a marker.
const RADIUS: f64 = 4.0;

impl Svg {
    pub fn finish(self, title: &str, standing: Standing) -> String {
        let (width, height) = SIZE;
        let (xmlns, size, style) = match standing {
            Standing::Alone => (
                " xmlns=\"http://www.w3.org/2000/svg\"",
                format!(" width=\"{width}\" height=\"{height}\""),
                format!(
                    "<style>{}</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
                    style_sheet()
                ),
            ),
            Standing::InPage => ("", String::new(), String::new()),
        };
        format!(
            "<svg{xmlns} class=\"chart\" viewBox=\"0 0 {width} {height}\"{size} role=\"img\" aria-label=\"{}\">\n{style}{}</svg>\n",
            escaped(title),
            self.body
        )
    }
}

impl Surface for Svg {
    fn stroke(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let Some((first, rest)) = points.split_first() else {
            return;
        };
        let mut path = format!("M{} {}", number(first.0), number(first.1));
        for point in rest {
            let _ = write!(path, "L{} {}", number(point.0), number(point.1));
        }
        let class = class(ink);
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" d=\"{path}\" stroke-width=\"{width}\"/>"
        );
    }

    fn marker(&mut self, at: (f64, f64), marker: Marker, ink: Ink) {
        let (x, y, r) = (at.0, at.1, RADIUS);
        let class = class(ink);
        let polygon = |points: &[(f64, f64)]| {
            let points: Vec<String> = points
                .iter()
                .map(|point| format!("{},{}", number(x + point.0), number(y + point.1)))
                .collect();
            format!("<polygon class=\"{class} mark\" points=\"{}\"/>", points.join(" "))
        };
        let shape = match marker {
            Marker::Circle => format!(
                "<circle class=\"{class} mark\" cx=\"{}\" cy=\"{}\" r=\"{r}\"/>",
                number(x),
                number(y)
            ),
            Marker::Square => polygon(&[(-r, -r), (r, -r), (r, r), (-r, r)]),
            Marker::Triangle => polygon(&[(0.0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r)]),
            Marker::Diamond => polygon(&[(0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)]),
            Marker::Cross => {
                self.stroke(&[(x - r, y - r), (x + r, y + r)], ink, 2.0);
                return self.stroke(&[(x - r, y + r), (x + r, y - r)], ink, 2.0);
            }
        };
        self.body += &shape;
        self.body.push('\n');
    }

    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str, ink: Ink) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            class(ink),
            number(at.0),
            number(at.1),
            escaped(text)
        );
    }
}

/// A tenth of a unit is finer than anybody sees.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn class(ink: Ink) -> String {
    match ink {
        Ink::Text => "ink".to_owned(),
        Ink::Muted => "muted".to_owned(),
        Ink::Hairline => "hair".to_owned(),
        Ink::Series(style) => format!("s{}", style % STYLES),
    }
}

/// Text as XML and HTML hold it.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() && c != '\n' => {}
            c => out.push(c),
        }
    }
    out
}

/// The classes' colours: light ones, and dark ones where the reader prefers them and does not print.
pub(super) fn style_sheet() -> String {
    let rules = |colour: fn(Ink) -> Colour, page: &str| {
        let hex = |ink: Ink| {
            let [r, g, b] = colour(ink);
            format!("#{r:02x}{g:02x}{b:02x}")
        };
        let mut text = format!(".chart .page{{fill:{page}}}");
        for ink in [Ink::Text, Ink::Muted, Ink::Hairline]
            .into_iter()
            .chain((0..STYLES).map(Ink::Series))
        {
            let (class, hex) = (class(ink), hex(ink));
            let _ = write!(
                text,
                ".chart path.{class}{{stroke:{hex}}}.chart text.{class},.chart .{class}.mark{{fill:{hex}}}"
            );
        }
        text
    };
    format!(
        ".chart{{font:12px system-ui,sans-serif}}.chart path{{fill:none;stroke-linejoin:round;stroke-linecap:round}}{}\n\
         @media screen and (prefers-color-scheme:dark){{{}}}",
        rules(light, "#ffffff"),
        rules(dark, "#202124")
    )
}
