//! The few shapes a plot is made of, written as SVG.

use std::fmt::{Display, Write};

/// A drawing that grows.
pub struct Drawing {
    body: String,
    width: f64,
    height: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub struct Stroke {
    pub colour: &'static str,
    pub width: f64,
    /// As `stroke-dasharray` has it; empty for a solid line.
    pub dashes: &'static str,
}

/// Which end of a text stands at its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub size: f64,
    pub colour: &'static str,
    pub anchor: Anchor,
    pub is_bold: bool,
}

impl Drawing {
    pub fn new(width: f64, height: f64) -> Self {
        Self {
            body: String::new(),
            width,
            height,
        }
    }

    /// Lines from point to point.
    pub fn path(&mut self, points: &[Point], stroke: Stroke) {
        let mut path = String::new();
        for (number, point) in points.iter().enumerate() {
            let step = if number == 0 { 'M' } else { 'L' };
            // Writing to a String cannot fail.
            let _ = write!(path, "{step}{:.1} {:.1}", point.x, point.y);
        }
        let Stroke {
            colour,
            width,
            dashes,
        } = stroke;
        self.add(format_args!(
            r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes}" stroke-linejoin="round"/>"#
        ));
    }

    pub fn text(&mut self, at: Point, text: &str, style: Style) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if style.is_bold { "600" } else { "400" };
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        self.add(format_args!(
            r#"<text x="{:.1}" y="{:.1}" font-size="{}" fill="{}" text-anchor="{anchor}" font-weight="{weight}">{text}</text>"#,
            at.x, at.y, style.size, style.colour
        ));
    }

    /// The whole document.
    pub fn finish(self) -> String {
        let Self {
            body,
            width,
            height,
        } = self;
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif">
<rect width="100%" height="100%" fill="#ffffff"/>
{body}</svg>
"##
        )
    }

    fn add(&mut self, shape: impl Display) {
        let _ = writeln!(self.body, "{shape}");
    }
}
