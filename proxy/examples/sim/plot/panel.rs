//! One chart: two axes, marks along them, and a line for each series.

use super::axis::Axis;
use super::svg::{Anchor, Drawing, Point, Stroke, Style};

/// One line.
pub struct Series {
    pub colour: &'static str,
    pub width: f64,
    /// x and y; without y the line is interrupted.
    pub points: Vec<(f64, Option<f64>)>,
}

/// A chart before it has a place.
pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// Of the marks.
    pub x_unit: &'static str,
    pub y_unit: &'static str,
    /// Values of x at which something changes, and what.
    pub turns: Vec<(f64, &'static str)>,
    pub series: Vec<Series>,
}

const INK: &str = "#1f2933";
const QUIET: &str = "#7b8794";
const GRID: Stroke = Stroke {
    colour: "#e4e7eb",
    width: 1.0,
    dashes: "",
};
const TURN: Stroke = Stroke {
    colour: QUIET,
    width: 1.0,
    dashes: "4 3",
};

impl Panel {
    /// Draws it between two corners.
    pub fn draw(&self, out: &mut Drawing, from: Point, to: Point) {
        let place = |x: f64, y: f64| Point {
            x: from.x + self.x.place(x) * (to.x - from.x),
            y: to.y - self.y.place(y) * (to.y - from.y),
        };
        self.title(out, from);
        for tick in self.y.ticks() {
            let y = place(0.0, tick).y;
            out.path(&[Point { x: from.x, y }, Point { x: to.x, y }], GRID);
            let at = Point {
                x: from.x - 6.0,
                y: y + 4.0,
            };
            let label = format!("{}{}", number(tick), self.y_unit);
            out.text(at, &label, quiet(Anchor::End));
        }
        for tick in self.x.ticks() {
            let x = place(tick, 0.0).x;
            out.path(&[Point { x, y: from.y }, Point { x, y: to.y }], GRID);
            let at = Point { x, y: to.y + 15.0 };
            let label = format!("{}{}", number(tick), self.x_unit);
            out.text(at, &label, quiet(Anchor::Middle));
        }
        for (at, name) in &self.turns {
            let x = place(*at, 0.0).x;
            out.path(&[Point { x, y: from.y }, Point { x, y: to.y }], TURN);
            let label = Point {
                x: x + 4.0,
                y: from.y + 11.0,
            };
            out.text(label, name, quiet(Anchor::Start));
        }
        for series in &self.series {
            let stroke = Stroke {
                colour: series.colour,
                width: series.width,
                dashes: "",
            };
            for piece in series.points.split(|(_, y)| y.is_none()) {
                let points = piece.iter();
                let points = points.filter_map(|(x, y)| y.map(|y| place(*x, y)));
                let points: Vec<Point> = points.collect();
                if points.len() > 1 {
                    out.path(&points, stroke);
                }
            }
        }
    }

    fn title(&self, out: &mut Drawing, from: Point) {
        let at = Point {
            x: from.x,
            y: from.y - 8.0,
        };
        let style = Style {
            size: 12.0,
            colour: INK,
            anchor: Anchor::Start,
            is_bold: true,
        };
        out.text(at, &self.title, style);
    }
}

fn quiet(anchor: Anchor) -> Style {
    Style {
        size: 11.0,
        colour: QUIET,
        anchor,
        is_bold: false,
    }
}

/// As short as it can be written without an error in the third digit.
fn number(value: f64) -> String {
    if value == 0.0 || value.abs() >= 100.0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
