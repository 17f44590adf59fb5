//! Prometheus' text exposition format 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>): families of samples, each family once.

use std::fmt::{Display, Write};

/// Text being written.
#[derive(Default)]
pub struct Text(String);

/// What a value means.
#[derive(Clone, Copy)]
pub enum Kind {
    Counter,
    Gauge,
    /// How often a value was within bounds.
    Histogram,
    /// Sum and count of what was measured, without quantiles.
    Summary,
}

/// Names and values of labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A family whose head is written; its samples follow.
pub struct Family<'a> {
    text: &'a mut Text,
    name: &'static str,
}

impl Text {
    pub fn family(&mut self, kind: Kind, name: &'static str, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { text: self, name }
    }

    pub fn finish(self) -> String {
        self.0
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.0.write_fmt(arguments).expect("a String takes all");
    }
}

impl Family<'_> {
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, value);
    }

    /// How often a value was at most `bound`; `None` for all there were.
    pub fn bucket(&mut self, bound: Option<f64>, count: u64) {
        let bound = bound.map_or("+Inf".to_owned(), |bound| bound.to_string());
        self.line("_bucket", &[("le", &bound)], count);
    }

    /// The two samples of a summary, and the last two of a histogram.
    pub fn sum_and_count(&mut self, labels: Labels<'_>, sum: impl Display, count: u64) {
        self.line("_sum", labels, sum);
        self.line("_count", labels, count);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        let name = self.name;
        self.text.write(format_args!("{name}{suffix}"));
        for (place, (label, value)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let value = Escaped(value);
            self.text.write(format_args!("{before}{label}=\"{value}\""));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.text.write(format_args!("{end} {value}\n"));
    }
}

/// A label's value, with the three characters escaped that would end it or the line.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => out.write_str("\\\\")?,
                '"' => out.write_str("\\\"")?,
                '\n' => out.write_str("\\n")?,
                other => out.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_its_help_its_type_and_its_samples() {
        let mut text = Text::default();
        let mut family = text.family(Kind::Counter, "x_total", "Things.");
        family.sample(&[], 3);
        family.sample(&[("a", "1"), ("b", "say \"\\\"\n")], 0.25);
        text.family(Kind::Summary, "y_seconds", "Times.")
            .sum_and_count(&[("a", "1")], 1.5, 2);
        let expected = r#"# HELP x_total Things.
# TYPE x_total counter
x_total 3
x_total{a="1",b="say \"\\\"\n"} 0.25
# HELP y_seconds Times.
# TYPE y_seconds summary
y_seconds_sum{a="1"} 1.5
y_seconds_count{a="1"} 2
"#;
        assert_eq!(text.finish(), expected);
    }
}
