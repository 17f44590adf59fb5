//! Active checks: what is asked of an endpoint, how often, and what its answers come to. Asking is
//! [`runtime::checks`](crate::runtime::checks)'s.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How the endpoints of a backend are checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActiveCheck {
    pub question: Question,
    /// From the start of one check to that of the next; each differs a little from it.
    pub interval: Duration,
    /// For a whole check, connecting included.
    pub timeout: Duration,
    /// Checks that must pass in a row to bring an endpoint back.
    pub healthy_threshold: u32,
    /// Checks that must fail in a row to take an endpoint out of the pool.
    pub unhealthy_threshold: u32,
}

/// What an endpoint must do to pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// Accept a connection.
    Tcp,
    /// Answer a GET with one of these statuses.
    Http(HttpQuestion),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpQuestion {
    /// With its query, as it stands in the request line.
    pub path: Arc<str>,
    /// Value of `Host`; the endpoint's address if there is none.
    pub host: Option<Arc<str>>,
    pub expected: Arc<[StatusRange]>,
}

/// Statuses from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatusRange {
    pub first: u16,
    pub last: u16,
}

impl ActiveCheck {
    pub const INTERVAL: Duration = Duration::from_secs(10);
    pub const TIMEOUT: Duration = Duration::from_secs(1);
    pub const HEALTHY_THRESHOLD: u32 = 1;
    pub const UNHEALTHY_THRESHOLD: u32 = 3;
}

impl HttpQuestion {
    pub const PATH: &str = "/";

    pub fn expects(&self, status: u16) -> bool {
        self.expected.iter().any(|range| range.contains(status))
    }

    /// The whole request.
    pub fn request(&self, address: &dyn fmt::Display) -> String {
        let path = &self.path;
        let host: &dyn fmt::Display = match &self.host {
            Some(host) => host,
            None => address,
        };
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: weir-check\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )
    }
}

impl StatusRange {
    /// What is expected if nothing is said: any success or redirection.
    pub const DEFAULT: Self = Self {
        first: 200,
        last: 399,
    };

    fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(out, "{}", self.first)
        } else {
            write!(out, "{}-{}", self.first, self.last)
        }
    }
}

impl fmt::Display for HttpQuestion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "GET {} expecting", self.path)?;
        for (place, range) in self.expected.iter().enumerate() {
            write!(out, "{}{range}", if place == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for ActiveCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.question {
            Question::Tcp => write!(out, "connect")?,
            Question::Http(question) => write!(out, "{question}")?,
        }
        write!(out, " every {:?}", self.interval)
    }
}

/// What the checks of one endpoint came to so far. An endpoint passes until it has failed often enough: a proxy that
/// starts does not begin with an empty pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streak {
    is_failing: bool,
    /// Results in a row that speak against what holds.
    contrary: u32,
}

/// What changed with the latest result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fails,
    PassesAgain,
}

impl Streak {
    pub fn on_result(&mut self, has_passed: bool, check: &ActiveCheck) -> Option<Verdict> {
        if has_passed != self.is_failing {
            self.contrary = 0;
            return None;
        }
        self.contrary = self.contrary.saturating_add(1);
        let (threshold, verdict) = if has_passed {
            (check.healthy_threshold, Verdict::PassesAgain)
        } else {
            (check.unhealthy_threshold, Verdict::Fails)
        };
        if self.contrary < threshold {
            return None;
        }
        self.contrary = 0;
        self.is_failing = !has_passed;
        Some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(healthy_threshold: u32, unhealthy_threshold: u32) -> ActiveCheck {
        ActiveCheck {
            question: Question::Tcp,
            interval: ActiveCheck::INTERVAL,
            timeout: ActiveCheck::TIMEOUT,
            healthy_threshold,
            unhealthy_threshold,
        }
    }

    /// The results as `+` and `-`; the verdicts as `F` and `P`, `.` where nothing changes.
    fn verdicts(check: &ActiveCheck, results: &str) -> String {
        let mut streak = Streak::default();
        let verdict = |result| match streak.on_result(result == '+', check) {
            Some(Verdict::Fails) => 'F',
            Some(Verdict::PassesAgain) => 'P',
            None => '.',
        };
        results.chars().map(verdict).collect()
    }

    #[test]
    fn only_results_in_a_row_change_what_holds() {
        assert_eq!(verdicts(&check(1, 3), "--+---+-"), ".....FP.");
        assert_eq!(verdicts(&check(2, 1), "-+-++-"), "F...PF");
        assert_eq!(verdicts(&check(1, 2), "+++++--------+"), "......F......P");
    }

    #[test]
    fn a_question_is_a_request_that_ends_its_connection() {
        let question = HttpQuestion {
            path: "/healthz?deep=1".into(),
            host: None,
            expected: [StatusRange::DEFAULT].into(),
        };
        let request = question.request(&"[::1]:80");
        assert!(request.starts_with("GET /healthz?deep=1 HTTP/1.1\r\nHost: [::1]:80\r\n"));
        assert!(request.ends_with("Connection: close\r\n\r\n"));
        let named = HttpQuestion {
            host: Some("shop.example".into()),
            ..question
        };
        assert!(
            named
                .request(&"[::1]:80")
                .contains("\r\nHost: shop.example\r\n")
        );
        assert!(named.expects(200) && named.expects(399) && !named.expects(400));
        assert_eq!(named.to_string(), "GET /healthz?deep=1 expecting 200-399");
    }
}
