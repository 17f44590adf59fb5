//! The table of the demo: what it shows, and whether it shows what it should.

use std::fmt;
use std::time::Duration;

use weir_tests::weir::EndpointDump;

pub struct Table {
    pub elapsed: Duration,
    pub rows: Vec<Row>,
}

/// What an endpoint plays in the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Fast,
    Slow,
    Flaky,
}

pub struct Row {
    endpoint: String,
    part: Part,
    health: f64,
    is_ejected: bool,
    requests: u64,
    pending: u64,
    /// Means over the run, in milliseconds; missing until there is a sample.
    by_kernel: Option<f64>,
    by_worker: Option<f64>,
}

impl Part {
    fn words(self) -> &'static str {
        match self {
            Part::Fast => "fast: 5 ms",
            Part::Slow => "slow: 60 ms",
            Part::Flaky => "flaky: 30 %",
        }
    }

    /// Where the kernel's mean must lie, in milliseconds: the endpoint's own delay, and room for a busy machine.
    fn expected(self) -> std::ops::Range<f64> {
        match self {
            Part::Fast | Part::Flaky => 5.0..15.0,
            Part::Slow => 60.0..75.0,
        }
    }
}

impl Row {
    pub fn new(dump: EndpointDump, part: Part) -> Self {
        let by_kernel = dump.wire.first_byte.mean_ms;
        // Where the kernel measures, the worker's figure is known as what it adds; elsewhere it is all there is.
        let by_worker = match (by_kernel, dump.self_delay_ms) {
            (Some(kernel), Some(delay)) => Some(kernel + delay),
            _ => dump.latency_ms,
        };
        Self {
            part,
            health: dump.health_score,
            is_ejected: dump.ejected,
            requests: dump.attempts.started,
            pending: dump.pending,
            by_kernel,
            by_worker,
            endpoint: dump.endpoint,
        }
    }
}

impl Table {
    fn requests(&self) -> u64 {
        self.rows.iter().map(|row| row.requests).sum()
    }

    fn share(&self, row: &Row) -> f64 {
        row.requests as f64 / self.requests().max(1) as f64
    }

    /// Says in words what the table shows, or what it should have shown.
    pub fn judge(&self) -> Result<String, String> {
        const ENOUGH: u64 = 500;
        if self.requests() < ENOUGH {
            return Ok(format!(
                "Fewer than {ENOUGH} requests: let it run for longer to see the shares settle."
            ));
        }
        for row in &self.rows {
            let measured = row
                .by_kernel
                .ok_or_else(|| format!("the kernel measured nothing of {}", row.endpoint))?;
            if !row.part.expected().contains(&measured) {
                return Err(format!(
                    "the kernel measured {measured:.1} ms of {} ({})",
                    row.endpoint,
                    row.part.words()
                ));
            }
        }
        let is_fast = |row: &&Row| row.part == Part::Fast;
        let shares = |rows: Vec<&Row>| rows.into_iter().map(|row| self.share(row)).collect();
        let fast: Vec<f64> = shares(self.rows.iter().filter(is_fast).collect());
        let others: Vec<f64> = shares(self.rows.iter().filter(|row| !is_fast(row)).collect());
        let least_fast = fast.iter().copied().fold(1.0, f64::min);
        let most_other = others.iter().copied().fold(0.0, f64::max);
        if most_other >= least_fast {
            return Err(
                "the slow and the flaky endpoint do not have the smallest shares".to_owned(),
            );
        }
        Ok(format!(
            "What to see: the kernel measured each endpoint on the wire, and traffic went where answers are quick and \
             right: {:.0} % to the two fast endpoints, {:.0} % to the slow and the flaky one. They keep a little, so \
             that Weir would notice if they got better.",
            fast.iter().sum::<f64>() * 100.0,
            others.iter().sum::<f64>() * 100.0,
        ))
    }
}

/// At most 80 columns, so that a terminal does not wrap what is refreshed in place.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        let rate = self.requests() as f64 / seconds.max(0.1);
        writeln!(
            f,
            "client -> weir -> 4 endpoints in namespaces; {seconds:.0} s, {rate:.0} requests/s\n"
        )?;
        writeln!(
            f,
            "{:<14}  {:<11} {:>7} {:>8} {:>5} {:>7} {:>9} {:>9}",
            "ENDPOINT", "PART", "HEALTH", "REQUESTS", "SHARE", "PENDING", "BY KERNEL", "BY WORKER"
        )?;
        for row in &self.rows {
            let health = match row.is_ejected {
                true => "ejected".to_owned(),
                false => format!("{:.2}", row.health),
            };
            let milliseconds =
                |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2} ms"));
            writeln!(
                f,
                "{:<14}  {:<11} {:>7} {:>8} {:>3.0} % {:>7} {:>9} {:>9}",
                row.endpoint,
                row.part.words(),
                health,
                row.requests,
                self.share(row) * 100.0,
                row.pending,
                milliseconds(row.by_kernel),
                milliseconds(row.by_worker),
            )?;
        }
        writeln!(f)
    }
}
