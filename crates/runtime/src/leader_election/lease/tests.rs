//! Contenders, a server and a network on virtual time: whatever is lost, late, frozen or killed, never two lead.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;

const TERMS: Terms = Terms {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};
/// One tick of the world.
const TICK: u64 = 10;
/// A contender gives up waiting after so many milliseconds.
const ANSWER_MAX: u64 = 5_000;

/// The server: one Lease.
#[derive(Default)]
struct Server {
    record: Option<Record>,
    version: u64,
}

impl Server {
    fn put(&mut self, record: Record) -> Answer {
        self.version += 1;
        let version = self.version.to_string();
        let record = Record { version, ..record };
        self.record = Some(record.clone());
        Answer::Record(record)
    }

    fn serve(&mut self, step: &Step) -> Answer {
        match step {
            Step::Look => self.record.clone().map_or(Answer::Missing, Answer::Record),
            Step::Claim(claim) => {
                let known = self.record.as_ref().map(|record| record.version.clone());
                if known != claim.version {
                    return Answer::Conflict;
                }
                self.put(Record {
                    holder: claim.holder.clone(),
                    seconds: TERMS.seconds(),
                    transitions: claim.transitions,
                    version: String::new(),
                })
            }
            Step::Wait(_) => Answer::Unknown,
        }
    }
}

/// A request under way.
struct Request {
    step: Step,
    sent: u64,
    /// When the server does it; none: never.
    arrives: Option<u64>,
    /// When the answer is back; none: never.
    back: Option<u64>,
    answer: Option<Answer>,
}

/// A process; its clock runs by itself.
struct Process {
    candidate: Candidate,
    /// Milliseconds that its clock is ahead.
    offset: u64,
    /// Its clock runs so many thousandths of the true speed.
    speed: u64,
    pending: Option<Request>,
    /// Requests that it has given up and that may still arrive.
    strays: Vec<Request>,
    /// Frozen until then.
    frozen: u64,
    dead: bool,
    releases: bool,
}

impl Process {
    fn new(name: &str, offset: u64, speed: u64) -> Self {
        Self {
            candidate: Candidate::new(name.to_owned(), TERMS),
            offset,
            speed,
            pending: None,
            strays: Vec::new(),
            frozen: 0,
            dead: false,
            releases: false,
        }
    }

    fn clock(&self, now: u64) -> Moment {
        Duration::from_millis(self.offset + now * self.speed / 1_000)
    }

    fn leads(&self, now: u64) -> bool {
        !self.dead && self.candidate.leads(self.clock(now)).is_some()
    }
}

/// What may happen.
#[derive(Debug, Clone, Copy)]
struct Weather {
    /// Milliseconds of one way, from and to.
    delay: (u64, u64),
    /// Thousandths of requests that never arrive, and of answers.
    loss: u32,
    /// Thousandths, each tick, of a process that freezes for up to twenty seconds.
    freeze: u32,
    /// Thousandths of a thousandth, each tick, of a server that is away for up to twenty seconds.
    away: u32,
    /// The clocks' speeds differ by so many thousandths.
    skew: u64,
}

const CALM: Weather = Weather {
    delay: (1, 20),
    loss: 0,
    freeze: 0,
    away: 0,
    skew: 0,
};

struct World {
    server: Server,
    away: u64,
    processes: Vec<Process>,
    weather: Weather,
    dice: StdRng,
    now: u64,
    /// Ticks in which somebody led.
    led: u64,
}

impl World {
    fn new(contenders: usize, weather: Weather, seed: u64) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let processes = (0..contenders)
            .map(|number| {
                let speed = 1_000 + dice.random_range(0..=2 * weather.skew) - weather.skew;
                Process::new(&format!("{OURS}{number}"), dice.random_range(0..1_000_000), speed)
            })
            .collect();
        Self {
            server: Server::default(),
            away: 0,
            processes,
            weather,
            dice,
            now: 0,
            led: 0,
        }
    }

    fn send(&mut self, step: Step) -> Request {
        let (from, to) = self.weather.delay;
        let mut way = || {
            let lost = self.dice.random_range(0..1_000) < self.weather.loss;
            (!lost).then(|| self.dice.random_range(from..=to))
        };
        let arrives = way().map(|way| self.now + way);
        let back = arrives.zip(way()).map(|(at, way)| at + way);
        Request {
            step,
            sent: self.now,
            arrives,
            back,
            answer: None,
        }
    }

    fn tick(&mut self) {
        self.now += TICK;
        if self.dice.random_range(0..1_000_000) < self.weather.away {
            self.away = self.now + self.dice.random_range(0..20_000);
        }
        for number in 0..self.processes.len() {
            self.deliver(number);
            if self.dice.random_range(0..1_000_000) < self.weather.freeze {
                self.processes[number].frozen = self.now + self.dice.random_range(0..20_000);
            }
            let process = &self.processes[number];
            if !process.dead && process.frozen <= self.now {
                self.act(number);
            }
        }
        let leaders: Vec<usize> = (0..self.processes.len())
            .filter(|&number| self.processes[number].leads(self.now))
            .collect();
        assert!(leaders.len() <= 1, "at {} ms {leaders:?} lead", self.now);
        self.led += u64::from(!leaders.is_empty());
    }

    /// Requests reach the server, in whatever state their sender is.
    fn deliver(&mut self, number: usize) {
        let (now, away) = (self.now, self.away > self.now);
        let process = &mut self.processes[number];
        let due = |request: &Request| request.arrives.is_some_and(|at| at <= now);
        for request in process
            .strays
            .iter_mut()
            .chain(&mut process.pending)
            .filter(|request| due(request))
        {
            request.arrives = None;
            if !away {
                request.answer = Some(self.server.serve(&request.step));
            }
        }
        process.strays.retain(|request| request.arrives.is_some());
    }

    fn act(&mut self, number: usize) {
        let now = self.now;
        let process = &mut self.processes[number];
        let clock = process.clock(now);
        if let Some(request) = &mut process.pending {
            let heard = request
                .back
                .is_some_and(|back| back <= now)
                .then(|| request.answer.take())
                .flatten();
            if heard.is_none() && now < request.sent + ANSWER_MAX {
                return;
            }
            let sent = Duration::from_millis(process.offset + request.sent * process.speed / 1_000);
            let answer = heard.unwrap_or(Answer::Unknown);
            match request.step {
                Step::Look => process.candidate.looked(sent, clock, answer),
                _ => process.candidate.claimed(sent, clock, answer),
            }
            process.strays.extend(process.pending.take());
        }
        let step = match process.candidate.release().filter(|_| process.releases) {
            Some(claim) => {
                process.dead = true;
                Step::Claim(claim)
            }
            None => process.candidate.next(clock),
        };
        if !matches!(step, Step::Wait(_)) {
            let request = self.send(step);
            self.processes[number].pending = Some(request);
        }
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1_000 / TICK {
            self.tick();
        }
    }

    fn leader(&self) -> Option<usize> {
        (0..self.processes.len()).find(|&number| self.processes[number].leads(self.now))
    }

    /// Milliseconds until somebody leads.
    fn until_led(&mut self) -> u64 {
        let begun = self.now;
        while self.leader().is_none() {
            assert!(self.now < begun + 60_000, "nobody leads");
            self.tick();
        }
        self.now - begun
    }
}

/// Ten minutes of this weather, five times; somebody leads in so many percent of the time at least.
fn check(contenders: usize, weather: Weather, percent: u64) {
    for seed in 0..5 {
        let mut world = World::new(contenders, weather, seed);
        world.run(600);
        let led = world.led * 100 * TICK / 600_000;
        assert!(led >= percent, "{contenders} {weather:?} seed {seed}: led in {led} %");
    }
}

#[test]
fn never_two_lead() {
    check(1, CALM, 99);
    check(2, CALM, 99);
    check(3, CALM, 99);
    check(3, Weather { loss: 100, ..CALM }, 80);
    check(3, Weather { loss: 500, ..CALM }, 10);
    check(
        3,
        Weather {
            delay: (1, 5_000),
            ..CALM
        },
        20,
    );
    check(
        2,
        Weather {
            delay: (1_000, 20_000),
            ..CALM
        },
        0,
    );
    check(3, Weather { freeze: 300, ..CALM }, 80);
    check(3, Weather { away: 300, ..CALM }, 70);
    check(3, Weather { skew: 50, ..CALM }, 99);
    let storm = Weather {
        delay: (1, 4_000),
        loss: 100,
        freeze: 100,
        away: 100,
        skew: 50,
    };
    check(3, storm, 20);
}

#[test]
fn a_killed_leader_is_followed_within_its_time_and_half_a_second() {
    for seed in 0..20 {
        let mut world = World::new(2, CALM, seed);
        world.run(60 + seed);
        let leader = world.leader().expect("a leader");
        world.processes[leader].dead = true;
        world.processes[leader].pending = None;
        let took = world.until_led();
        assert!((10_000..15_700).contains(&took), "seed {seed}: {took} ms");
    }
}

#[test]
fn a_lease_that_is_given_up_is_taken_at_once() {
    for seed in 0..20 {
        let mut world = World::new(2, CALM, seed);
        world.run(60 + seed);
        let leader = world.leader().expect("a leader");
        world.processes[leader].releases = true;
        while world.leader() == Some(leader) {
            world.tick();
        }
        let took = world.until_led();
        assert!(took < 700, "seed {seed}: {took} ms");
    }
}

/// A record lies there, and is renewed every so many milliseconds or never; who leads, or is suspected, after 20 s?
fn check_stranger(holder: &str, renewed: Option<u64>, expected: &str) {
    let mut world = World::new(1, CALM, 7);
    let record = Record {
        holder: holder.to_owned(),
        seconds: 15,
        ..Record::default()
    };
    world.server.put(record.clone());
    let mut found = "nobody".to_owned();
    for tick in 1..2_000 {
        if renewed.is_some_and(|every| tick % (every / TICK) == 0) {
            world.server.put(record.clone());
        }
        world.tick();
        if let Strangers::Alive(holder) = world.processes[0].candidate.strangers() {
            found = format!("refused for {holder} after {} s", tick * TICK / 1_000);
            break;
        }
        if world.leader().is_some() {
            found = format!("leads after {} s", tick * TICK / 1_000);
            break;
        }
    }
    assert_eq!(found, expected, "{holder:?} {renewed:?}");
}

#[test]
fn a_stranger_that_is_alive_is_noticed_and_a_dead_one_is_followed() {
    check_stranger("volcano-0_1234", Some(2_000), "refused for volcano-0_1234 after 2 s");
    check_stranger("volcano-0_1234", Some(10_000), "refused for volcano-0_1234 after 10 s");
    check_stranger("volcano-0_1234", None, "leads after 15 s");
    check_stranger("basalt_other", Some(2_000), "nobody");
    check_stranger("basalt_other", None, "leads after 15 s");
    check_stranger("", None, "leads after 0 s");
}

#[test]
fn a_stranger_that_comes_later_is_stood_by_for() {
    let mut world = World::new(1, CALM, 3);
    world.run(5);
    assert_eq!(world.leader(), Some(0));
    for _ in 0..10 {
        world.server.put(Record {
            holder: "volcano-0_1234".to_owned(),
            seconds: 15,
            ..Record::default()
        });
        world.run(4);
        assert_eq!(world.leader(), None);
        assert_eq!(world.processes[0].candidate.strangers(), &Strangers::None);
    }
    world.run(16);
    assert_eq!(world.leader(), Some(0), "it went away");
}

#[test]
fn the_time_counts_from_when_a_claim_was_sent() {
    for (sent, heard, expected) in [
        (0, 1, true),
        (0, 9, true),
        (0, 10, false),
        (0, 20, false),
        (15, 20, true),
    ] {
        let mut candidate = Candidate::new(format!("{OURS}0"), TERMS);
        let record = Record {
            holder: format!("{OURS}0"),
            seconds: 15,
            ..Record::default()
        };
        let (sent, heard) = (Duration::from_secs(sent), Duration::from_secs(heard));
        candidate.claimed(sent, heard, Answer::Record(record));
        assert_eq!(candidate.leads(heard).is_some(), expected, "{sent:?} {heard:?}");
    }
}
