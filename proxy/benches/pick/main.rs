//! What choosing an endpoint costs: `cargo xtask bench pick` prints nanoseconds, the best and the middle of many rounds.
//! Best is what the code takes, middle what it took on this machine at this time.

mod keys;
mod large;
mod pools;
mod routes;

use std::time::Instant;

fn main() {
    pools::report();
    keys::report();
    routes::report();
    large::report();
}

/// Prints the figures of one row: nanoseconds of one of the steps a round is made of.
fn print(name: &str, mut rounds: Vec<f64>) {
    rounds.sort_by(f64::total_cmp);
    let (best, middle) = (rounds[0], rounds[rounds.len() / 2]);
    println!("{name:<56} {best:>9.1} {middle:>9.1}");
}

/// Nanoseconds of one step, where `work` does so many.
fn time(steps: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / steps as f64
}
