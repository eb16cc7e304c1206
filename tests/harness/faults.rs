//! Faults by a seed: which process dies or freezes, when, and for how long.
//!
//! Invariant: a plan is a pure function of its seed and [`Scope`], so a printed seed brings the same faults again
//! (`CRONSTREAM_SEED=<seed>`); every fault is over when the plan is.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use cronstream_schemas::time::Timestamp;
use tokio::time::{Instant, sleep_until};

use crate::world::{World, now};

/// The variable that replays a seed.
pub const SEED_VARIABLE: &str = "CRONSTREAM_SEED";
/// The shortest and longest pause between the beginnings of two faults, in milliseconds.
const GAP_MS: (u64, u64) = (400, 2_500);
/// How long a broker that came back is left alone, so that the others are never a minority.
const BROKER_REST: Duration = Duration::from_secs(15);
/// The last faults begin so long before the end of the plan.
const REST: Duration = Duration::from_secs(1);

/// Numbers from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    /// The numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[must_use]
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from `low` through `high`.
    #[must_use]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high.saturating_sub(low) + 1)
    }

    /// One of them.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let last = choices.len().checked_sub(1).expect("there is a choice");
        let index = self.between(0, last as u64);
        choices[usize::try_from(index).expect("an index of a slice")]
    }
}

/// The seed of `CRONSTREAM_SEED`, or a new one.
///
/// # Errors
/// When the variable is no number.
pub fn seed() -> Result<u64> {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => text.parse().with_context(|| format!("{SEED_VARIABLE}={text}")),
        Err(_) => Ok(uuid::Uuid::new_v4().as_u64_pair().0),
    }
}

/// What can be hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The tickers.
    pub tickers: Vec<String>,
    /// The executors.
    pub executors: Vec<String>,
    /// The lease TTL.
    pub lease_ttl: Duration,
    /// How long the plan lasts.
    pub lasting: Duration,
}

/// What happens to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL, and started again at the end.
    Kill,
    /// SIGTERM, and started again at the end.
    Stop,
    /// SIGSTOP, and SIGCONT at the end.
    Freeze,
    /// The clock is off by so many milliseconds until the end.
    Clock(i64),
}

/// What is hit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The process of this name.
    Node(String),
    /// The broker that leads CRON_LOG at that moment.
    BrokerLeader,
}

/// One fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When it begins, from the beginning of the plan.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What is hit.
    pub target: Target,
    /// How.
    pub fault: Fault,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, lasts, target, fault } = self;
        match target {
            Target::Node(node) => write!(f, "{at:?} {node} {fault:?} for {lasts:?}"),
            Target::BrokerLeader => write!(f, "{at:?} broker leader {fault:?} for {lasts:?}"),
        }
    }
}

/// The faults of a seed, in the order they begin.
#[must_use]
pub fn plan(seed: u64, scope: &Scope) -> Vec<Step> {
    let mut seeded = Seeded::new(seed);
    let mut free: BTreeMap<Target, Duration> = BTreeMap::new();
    let mut steps = Vec::new();
    let mut at = Duration::ZERO;
    loop {
        at += Duration::from_millis(seeded.between(GAP_MS.0, GAP_MS.1));
        if at + REST >= scope.lasting {
            return steps;
        }
        let (target, fault, lasts) = draw(&mut seeded, scope);
        if free.get(&target).is_some_and(|free| *free > at) {
            continue;
        }
        let lasts = lasts.min(scope.lasting - at);
        let rest = if target == Target::BrokerLeader { BROKER_REST } else { Duration::ZERO };
        free.insert(target.clone(), at + lasts + rest);
        steps.push(Step { at, lasts, target, fault });
    }
}

fn draw(seeded: &mut Seeded, scope: &Scope) -> (Target, Fault, Duration) {
    const CLOCKS_MS: [i64; 6] = [-3_600_000, -5_000, -400, 400, 5_000, 3_600_000];
    let ttl = u64::try_from(scope.lease_ttl.as_millis()).unwrap_or(u64::MAX);
    let names = |names: &[String]| (0..names.len()).collect::<Vec<_>>();
    let dice = seeded.between(0, 99);
    let (pool, fault) = match dice {
        0..10 => {
            let lasts = Duration::from_millis(seeded.between(500, 5_000));
            return (Target::BrokerLeader, Fault::Kill, lasts);
        }
        10..30 => (&scope.tickers, Fault::Kill),
        30..50 => (&scope.tickers, Fault::Freeze),
        50..60 => (&scope.tickers, Fault::Stop),
        60..70 => (&scope.tickers, Fault::Clock(seeded.one_of(&CLOCKS_MS))),
        70..80 => (&scope.executors, Fault::Kill),
        80..90 => (&scope.executors, Fault::Freeze),
        _ => (&scope.executors, Fault::Stop),
    };
    let node = pool[seeded.one_of(&names(pool))].clone();
    // Some are over before the lease is, some long after it.
    let lasts = Duration::from_millis(seeded.between(ttl / 4, ttl * 3));
    (Target::Node(node), fault, lasts)
}

/// A moment of a plan.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Begin(usize),
    End(usize),
}

impl World {
    /// Lives through a plan and returns when, by the machine's clock, it began.
    ///
    /// # Errors
    /// When a process cannot be hit or started again.
    pub async fn endure(&mut self, steps: &[Step]) -> Result<Timestamp> {
        let mut moments = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            moments.push((step.at, Moment::Begin(index)));
            moments.push((step.at + step.lasts, Moment::End(index)));
        }
        moments.sort_by_key(|(at, _)| *at);
        let (begun, since) = (now(), Instant::now());
        let mut killed_brokers = BTreeMap::new();
        for (at, moment) in moments {
            sleep_until(since + at).await;
            match moment {
                Moment::Begin(index) => {
                    if let Some(broker) = self.hit(&steps[index]).await? {
                        killed_brokers.insert(index, broker);
                    }
                }
                Moment::End(index) => match killed_brokers.remove(&index) {
                    Some(broker) => self.restart_broker(broker).await?,
                    None => self.heal(&steps[index]).await?,
                },
            }
        }
        Ok(begun)
    }

    /// Begins a fault; returns the broker that it killed.
    async fn hit(&mut self, step: &Step) -> Result<Option<usize>> {
        let Target::Node(node) = &step.target else {
            return Ok(Some(self.kill_broker_leader().await?));
        };
        match step.fault {
            Fault::Kill => self.process(node)?.kill().await?,
            Fault::Stop => self.process(node)?.terminate()?,
            Fault::Freeze => self.process(node)?.pause()?,
            Fault::Clock(ahead) => self.set_clock(node, ahead)?,
        }
        Ok(None)
    }

    async fn heal(&mut self, step: &Step) -> Result<()> {
        let Target::Node(node) = &step.target else { return Ok(()) };
        match step.fault {
            Fault::Kill | Fault::Stop => self.process(node)?.restart().await,
            Fault::Freeze => self.process(node)?.resume(),
            Fault::Clock(_) => self.set_clock(node, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            tickers: ["t1", "t2", "t3"].map(str::to_owned).to_vec(),
            executors: ["e1", "e2"].map(str::to_owned).to_vec(),
            lease_ttl: Duration::from_secs(2),
            lasting: Duration::from_secs(120),
        }
    }

    #[test]
    fn a_seed_brings_the_same_faults_again() {
        assert_eq!(plan(7, &scope()), plan(7, &scope()));
        assert_ne!(plan(7, &scope()), plan(8, &scope()));
    }

    #[test]
    fn every_fault_is_over_in_time_and_hits_a_target_that_is_whole() {
        for seed in 0..200 {
            let steps = plan(seed, &scope());
            assert!(steps.len() > 20, "seed {seed}: {} faults", steps.len());
            let mut busy: BTreeMap<&Target, Duration> = BTreeMap::new();
            for step in &steps {
                assert!(step.at + step.lasts <= scope().lasting, "seed {seed}: {step:?}");
                let before = busy.insert(&step.target, step.at + step.lasts);
                assert!(before.is_none_or(|end| end <= step.at), "seed {seed}: {step:?}");
            }
        }
    }

    #[test]
    fn every_kind_of_fault_is_drawn() {
        let steps: Vec<_> = (0..20).flat_map(|seed| plan(seed, &scope())).collect();
        let any = |wanted: fn(&Step) -> bool| steps.iter().any(wanted);
        assert!(any(|it| it.target == Target::BrokerLeader));
        assert!(any(|it| matches!(it.fault, Fault::Stop)));
        assert!(any(|it| matches!(it.fault, Fault::Freeze) && it.lasts > Duration::from_secs(2)));
        assert!(any(|it| matches!(it.fault, Fault::Clock(ms) if ms.abs() == 3_600_000)));
    }
}
