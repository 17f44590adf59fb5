//! What a scrape says.

use std::collections::BTreeMap;

/// What a scrape of `/metrics` said.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Reads the text format of Prometheus; label values here hold no quotes.
    pub(super) fn parse(text: &str) -> Self {
        let samples = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.strip_suffix('}')?;
            Some(Sample {
                name: name.to_owned(),
                labels: labels
                    .split("\",")
                    .filter_map(|label| label.split_once("=\""))
                    .map(|(key, value)| (key.to_owned(), value.trim_end_matches('"').to_owned()))
                    .collect(),
                value: value.parse().ok()?,
            })
        });
        Self {
            samples: samples.collect(),
        }
    }

    /// The sum of all series of that name with these labels; nothing if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut matching = self
            .samples
            .iter()
            .filter(|sample| sample.name == name)
            .filter(|sample| {
                labels
                    .iter()
                    .all(|(key, value)| sample.labels.get(*key).is_some_and(|has| has == value))
            })
            .map(|sample| sample.value)
            .peekable();
        matching.peek()?;
        Some(matching.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_sum_over_the_labels_that_are_not_named() {
        let metrics = Metrics::parse(
            "# HELP a b\na{x=\"1\",y=\"2\"} 3\na{x=\"1\",y=\"3\"} 4\na{x=\"2\",y=\"2\"} 8\nplain 0.5\n",
        );
        assert_eq!(metrics.sum("a", &[("x", "1")]), Some(7.0));
        assert_eq!(metrics.sum("a", &[]), Some(15.0));
        assert_eq!(metrics.sum("a", &[("x", "9")]), None);
        assert_eq!(metrics.sum("plain", &[]), Some(0.5));
    }
}
