//! One run: requests arrive at random, a policy says where each goes, endpoints answer, and the clock jumps from event to
//! event. Arrivals and work depend on the seed alone, so that every policy is given the very same requests.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use weir::moment::Moment;

use crate::agenda::Agenda;
use crate::endpoint::{Answer, Endpoint};
use crate::policy::{Policy, Ticket, Verdict};
use crate::record::{Ended, Record};
use crate::scenario::{Change, Scenario};

/// One request on its way.
pub struct Request {
    arrived: Moment,
    replica: usize,
    ticket: Ticket,
    /// How much work it is, 1 on average.
    pub work: f64,
    /// From 0 to 1: the unlucky ones below the part an endpoint fails.
    pub luck: f64,
}

enum Event {
    Phase(usize),
    Arrival,
    Answer(Answer),
}

/// A scenario being played to one policy, an instance of it for every replica.
pub struct World<'a> {
    scenario: &'a Scenario,
    replicas: Vec<Box<dyn Policy>>,
    endpoints: Vec<Endpoint>,
    agenda: Agenda<Event>,
    end: Moment,
    /// Of what clients do; policies have their own.
    random: Xoshiro256PlusPlus,
    record: Record,
}

impl<'a> World<'a> {
    const START: Moment = Moment::from_nanos(1_000_000_000);

    pub fn new(scenario: &'a Scenario, replicas: Vec<Box<dyn Policy>>, seed: u64) -> Self {
        let mut agenda = Agenda::new();
        for (phase, start) in scenario.starts().into_iter().enumerate() {
            agenda.plan(Self::START + start, Event::Phase(phase));
        }
        agenda.plan(Self::START, Event::Arrival);
        let capacities = scenario.endpoints.iter();
        Self {
            replicas,
            endpoints: capacities.map(|one| Endpoint::new(*one)).collect(),
            agenda,
            end: Self::START + scenario.length(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            record: Record::new(scenario, Self::START),
            scenario,
        }
    }

    /// Plays the scenario to its end, and on until every request is answered.
    pub fn run(mut self) -> Record {
        while let Some((now, event)) = self.agenda.next() {
            match event {
                Event::Phase(phase) => self.on_phase(phase),
                Event::Arrival => self.on_arrival(now),
                Event::Answer(answer) => self.on_answer(answer, now),
            }
        }
        self.record
    }

    fn on_phase(&mut self, phase: usize) {
        let change = self.scenario.phases[phase].change;
        for endpoint in &mut self.endpoints[self.scenario.watched.clone()] {
            match change {
                Change::Slow(factor) => endpoint.slowdown = factor,
                Change::Fail(part) => endpoint.failing = part,
                Change::Recover => (endpoint.slowdown, endpoint.failing) = (1.0, 0.0),
                Change::Nothing | Change::Join => {}
            }
        }
        if change == Change::Join {
            for replica in &mut self.replicas {
                replica.set_members(self.scenario.endpoints.len());
            }
        }
    }

    fn on_arrival(&mut self, now: Moment) {
        if now >= self.end {
            return;
        }
        let gap = exponential(&mut self.random) / self.scenario.rate;
        self.agenda
            .plan(now + Duration::from_secs_f64(gap), Event::Arrival);
        let work = log_normal(&mut self.random);
        let luck = self.random.random();
        let replica = self.random.random_range(0..self.replicas.len());

        let ticket = self.replicas[replica].pick(now);
        let endpoint = ticket.endpoint;
        let request = Request {
            arrived: now,
            replica,
            ticket,
            work,
            luck,
        };
        let answer = self.endpoints[endpoint].on_request(request);
        self.plan(answer, now);
    }

    fn on_answer(&mut self, answer: Answer, now: Moment) {
        let Request {
            arrived,
            replica,
            ticket,
            ..
        } = answer.request;
        let endpoint = ticket.endpoint;
        let latency = now.since(arrived);
        let verdict = Verdict {
            latency,
            is_success: answer.is_success,
        };
        self.replicas[replica].finish(ticket, verdict, now);
        self.record.add(Ended {
            arrived,
            endpoint,
            latency,
            is_success: answer.is_success,
        });
        if answer.frees_server {
            let next = self.endpoints[endpoint].on_server_free();
            self.plan(next, now);
        }
    }

    fn plan(&mut self, answer: Option<Answer>, now: Moment) {
        if let Some(answer) = answer {
            self.agenda.plan(now + answer.after, Event::Answer(answer));
        }
    }
}

/// Mean 1: gaps of a Poisson process.
fn exponential(random: &mut impl Rng) -> f64 {
    -open_unit(random).ln()
}

/// Mean 1, sigma 0.5: one request in a thousand is four times the work of the average.
fn log_normal(random: &mut impl Rng) -> f64 {
    const SIGMA: f64 = 0.5;
    // Box and Muller (1958).
    let radius = (-2.0 * open_unit(random).ln()).sqrt();
    let angle = std::f64::consts::TAU * open_unit(random);
    (SIGMA * radius * angle.cos() - SIGMA * SIGMA / 2.0).exp()
}

/// Above 0, at most 1.
fn open_unit(random: &mut impl Rng) -> f64 {
    1.0 - random.random::<f64>()
}
