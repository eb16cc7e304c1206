//! Random lives of jobs: every command at every moment, on clocks that jump, under leaders that come cold.
//!
//! Invariant: each slot of each state of a job has exactly one outcome or waits, whoever led meanwhile, and also when
//! all that may vanish from the log has vanished before a leader begins.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use cronstream_core::attempt::Retry;
use cronstream_core::calendar::Calendars;
use cronstream_core::message::envelope;
use cronstream_core::partition::Partition;
use cronstream_core::plan::Plan;
use cronstream_schemas::event::{Cause, Held, HeldReason, JobState, LogEvent, SkippedWhat};
use cronstream_schemas::id::{Partition as Number, ShardId};
use cronstream_schemas::time::Timestamp;

use crate::laws;
use crate::script::{at, show_at};
use crate::world::{End, World};

const LIVES: u64 = 150;
const STEPS: u64 = 70;
const TICK: Duration = Duration::from_millis(1);

const SCHEDULES: [&str; 10] = [
    r#""schedule":{"every":"10s"}"#,
    r#""schedule":{"every":"10s"},"overlap":"allow","misfire":{"policy":"fire_all","threshold":"5s"}"#,
    r#""schedule":{"every":"25s"},"misfire":{"policy":"fire_all","threshold":"5s","limit":5}"#,
    r#""schedule":{"every":"20s"},"jitter":"5m""#,
    r#""schedule":{"every":"20s"},"jitter":"5m","misfire":{"policy":"fire_all","threshold":"5s"}"#,
    r#""schedule":{"cron":"* * * * *"},"jitter":"10m","overlap":"allow""#,
    r#""schedule":{"cron":["*/20 * * * * *","*/30 * * * * *"]},"misfire":{"policy":"skip","threshold":"3s"}"#,
    r#""schedule":{"cron":"* * * * *"},"windows":["10:05-10:11","10:20-10:21"],"jitter":"1m""#,
    r#""schedule":{"at":"2026-03-01T10:14:00"},"jitter":"3m""#,
    r#""schedule":{"every":"7s"},"misfire":{"threshold":"2s","window":"30s"}"#,
];

/// Those whose slots follow from the ends of runs, of which the law of slots says nothing.
const DELAYS: [&str; 2] = [
    r#""schedule":{"fixed_delay":"15s"}"#,
    r#""schedule":{"fixed_delay":"15s"},"jitter":"2m","overlap":"allow""#,
];

/// Xorshift: the same life for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

struct Life {
    world: World,
    dice: Dice,
    started: HashSet<ShardId>,
    schedules: Vec<&'static str>,
    take_over: fn(&mut World),
}

impl Life {
    fn new(seed: u64, schedules: Vec<&'static str>, take_over: fn(&mut World)) -> Self {
        let dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let world = World::new(at("10:00:00"));
        Self { world, dice, started: HashSet::new(), schedules, take_over }
    }

    fn live(mut self) -> World {
        for step in 0..STEPS {
            let longest = [900, 900, 900, 15_000, 15_000, 15_000, 60_000, 300_000];
            let longest = longest[self.dice.roll(8) as usize];
            let wait = Duration::from_millis(self.dice.roll(longest));
            self.world.now = self.world.now.plus(wait);
            match if step < 2 { 0 } else { self.dice.roll(15) } {
                roll @ 0..=8 => self.command(roll),
                9 => self.world.settings.hold = true,
                10 => self.world.settings.hold = false,
                11 => (self.take_over)(&mut self.world),
                _ => self.end_runs(),
            }
            match self.dice.roll(20) {
                0 => {
                    let turn = self.world.turn();
                    turn.batch.iter().for_each(|batch| self.world.store(batch));
                    for append in &turn.appends {
                        self.world.append_leaders(append);
                    }
                    (self.take_over)(&mut self.world);
                }
                1..=3 => {}
                _ => self.world.settle(|_, _, _| ()),
            }
        }
        self.world.settings.hold = false;
        self.world.settle(|_, _, _| ());
        self.world.bury();
        self.world
    }

    fn command(&mut self, roll: u64) {
        let job = ["a", "b"][self.dice.roll(2) as usize];
        let now = self.world.now;
        let age = self.dice.roll(4).saturating_sub(2) * self.dice.roll(3_000);
        let before = self.world.commands.last().map_or(Timestamp::MIN, |command| command.at);
        let sent = now.minus(Duration::from_millis(age)).max(before);
        let (verb, body) = match roll {
            0 | 1 => {
                let schedule = self.schedules[self.dice.roll(self.schedules.len() as u64) as usize];
                ("define", format!(r#"{{"task":"t",{schedule}}}"#))
            }
            2 => (["delete", "trigger"][self.dice.roll(2) as usize], String::new()),
            3 => ("pause", String::new()),
            4 => ("resume", String::new()),
            5 => ("trigger", String::new()),
            6 => ("skip", format!("{{{}}}", self.slot(job))),
            7 => {
                let to = now.plus(Duration::from_millis(500 * self.dice.roll(200)));
                let slot = self.slot(job);
                let comma = if slot.is_empty() { "" } else { "," };
                ("shift", format!(r#"{{"to":"{to}"{comma}{slot}}}"#))
            }
            _ => {
                let from = sent.minus(Duration::from_secs(self.dice.roll(600)));
                ("backfill", format!(r#"{{"from":"{from}","to":"{sent}"}}"#))
            }
        };
        self.world.publish(sent, &format!("cron.{verb}.n.{job}"), &body, None);
    }

    /// Some slot to come, or none named.
    fn slot(&mut self, job: &str) -> String {
        let id = format!("n/{job}").parse().unwrap();
        let plan = self.world.leader.job(&id).and_then(|job| job.plan.clone());
        let Some(plan) = plan.filter(|_| self.dice.roll(2) == 0) else { return String::new() };
        let slots = std::iter::successors(plan.next(self.world.now), |slot| plan.next(*slot));
        let slot = slots.take(1 + self.dice.roll(4) as usize).last();
        slot.map(|slot| format!(r#""slot":"{slot}""#)).unwrap_or_default()
    }

    fn end_runs(&mut self) {
        let mut live: Vec<_> = self.world.leader.shards().map(|it| it.fired.shard_id()).collect();
        live.sort_unstable();
        for shard in live {
            if self.dice.roll(3) == 0 {
                continue;
            }
            if self.started.insert(shard) {
                self.world.start(shard);
            }
            let fails = self.dice.roll(3) == 0;
            let end = if fails { End::Failure(Retry::Never) } else { End::Success };
            self.world.end(shard, Some(end));
        }
    }
}

/// A cold start long after: of what is rolled up only the last message is left, and no record of what has ended.
fn take_over_late(world: &mut World) {
    let live: HashSet<_> = world.leader.shards().map(|shard| shard.fired.shard_id()).collect();
    let envelope = |event| envelope(&world.settings.prefix, event, world.now);
    let log = || (1_u64..).zip(&world.log).map(|(seq, event)| (seq, event, envelope(event)));
    let rolled_up = log().filter(|(_, _, envelope)| envelope.rollup);
    let last: HashMap<_, _> = rolled_up.map(|(seq, _, it)| (it.subject, seq)).collect();
    let mut next = Partition::new(Number(0));
    for (seq, event, envelope) in log() {
        let expired = match event {
            LogEvent::Fired(fired) => !live.contains(&fired.shard_id()),
            other => matches!(other, LogEvent::Skipped(_) | LogEvent::HeldEnded(_)),
        };
        if !expired && last.get(&envelope.subject).is_none_or(|last| seq >= *last) {
            next.apply_log(seq, event);
        }
    }
    for it in world.runs.iter().filter(|it| live.contains(&it.key.shard)) {
        next.apply_run(it.seq, it.at, &it.key, &it.event);
    }
    world.lead(next);
}

fn plan_of(state: &JobState) -> Option<Plan> {
    let definition = state.definition.as_ref()?;
    let calendars = Calendars::default();
    Some(Plan::compile(definition, &state.job, state.anchor, &calendars).unwrap())
        .filter(|plan| !plan.is_fixed_delay())
}

/// Slots from the first to the second instant, by job and life.
type Outcomes = BTreeMap<(String, u64), Vec<(Timestamp, Timestamp)>>;

/// What the log says of slots, and that each skip counts the slots that its stretch has.
fn outcomes(log: &[LogEvent]) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let mut revisions = HashMap::new();
    let mut waiting: HashMap<(String, String), Held> = HashMap::new();
    let place = |slot: Timestamp, range: Option<&str>| range.map_or(slot.to_string(), Into::into);
    for event in log {
        if let LogEvent::JobRevised(state) = event {
            revisions.insert(state.revision, state.clone());
        } else if let LogEvent::Fired(fired) = event
            && let (Cause::Slot(slot), 1) = (&fired.cause, fired.fire_no)
        {
            let key = (fired.job.to_string(), fired.incarnation.0);
            outcomes.entry(key).or_default().push((*slot, *slot));
        } else if let LogEvent::Skipped(skipped) = event
            && let (SkippedWhat::Slots { first, last, count }, None) =
                (&skipped.what, skipped.backfill)
        {
            let key = (skipped.job.to_string(), skipped.incarnation.0);
            outcomes.entry(key).or_default().push((*first, *last));
            if let Some(plan) = plan_of(&revisions[&skipped.revision]) {
                assert_eq!(*count, plan.count(first.minus(TICK), *last), "{skipped:?}");
            }
        } else if let LogEvent::Held(held) = event {
            let range = held.range.as_ref().map(|range| &*range.id);
            waiting.insert((held.job.to_string(), place(held.slot, range)), held.clone());
        } else if let LogEvent::HeldEnded(ended) = event {
            let key = (ended.job.to_string(), place(ended.slot, ended.range.as_deref()));
            assert!(waiting.remove(&key).is_some(), "{ended:?}");
        }
    }
    for held in waiting.values().filter(|held| held.why != HeldReason::Backfill) {
        let last = held.range.as_ref().map_or(held.slot, |range| range.through);
        let key = (held.job.to_string(), held.incarnation.0);
        outcomes.entry(key).or_default().push((held.slot, last));
    }
    outcomes
}

/// Each slot that a state of a job has decided or handed on has one outcome, or waits.
fn check_slots(world: &World) {
    let outcomes = outcomes(&world.log);
    let mut states: BTreeMap<String, Vec<&JobState>> = BTreeMap::new();
    for event in &world.log {
        if let LogEvent::JobDefined(state)
        | LogEvent::JobPaused(state)
        | LogEvent::JobResumed(state)
        | LogEvent::JobOverridden(state)
        | LogEvent::JobDeleted(state) = event
        {
            states.entry(state.job.to_string()).or_default().push(state);
        }
    }
    let position = world.leader.cursor().unwrap().position.due;
    for (job, states) in &states {
        for (index, state) in states.iter().enumerate() {
            let Some(plan) = plan_of(state) else { continue };
            let end = match states.get(index + 1) {
                Some(next) => next.effective_after,
                None if state.paused.is_some() => continue,
                None => position.minus(plan.jitter()),
            };
            let of_life = outcomes.get(&(job.clone(), state.incarnation.0));
            let first = plan.next(state.effective_after);
            let slots = std::iter::successors(first, |slot| plan.next(*slot));
            for slot in slots.take_while(|slot| *slot <= end) {
                let hits = of_life.into_iter().flatten();
                let hits = hits.filter(|(first, last)| *first <= slot && slot <= *last).count();
                assert_eq!(hits, 1, "{job} {} of revision {}", show_at(slot), state.revision.0);
            }
        }
    }
}

#[test]
fn whatever_is_asked_for_each_slot_has_one_outcome() {
    for seed in 1..=LIVES {
        let schedules = [&SCHEDULES[..], &DELAYS[..]].concat();
        let world = Life::new(seed, schedules, World::take_over).live();
        laws::check_log(&world);
        laws::check_folds(&world);
        check_slots(&world);
    }
}

#[test]
fn each_slot_has_one_outcome_though_all_records_vanish_that_may() {
    for seed in 1..=LIVES {
        let world = Life::new(seed, SCHEDULES.to_vec(), take_over_late).live();
        laws::check_log(&world);
        check_slots(&world);
    }
}
