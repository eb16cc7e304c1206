//! Scripts: inputs with their answers under them.
//!
//! ```text
//! 10:00:10 define a {"every":"1m"} "overlap":"allow"     a job n/a with task t
//!     defined a rev 1 life 1 after 10:00:10 anchor 10:00:10
//!     -> accepted 1 next 10:01:10
//! 10:01:10
//!     fired a 10:01:10 as r1.1 rev 1                     run r1, its first fire
//! ```
//!
//! An input begins with the leader's clock (2026-03-01 unless a date stands before it). A `+` behind the clock
//! puts off the leader's turn to the next input. `@10:00:09 ` before a command is its broker timestamp, if it is
//! not the clock; `!7` behind `define` is its `Cron-Expected-Revision`. Where one input takes several batches,
//! `--` stands between them. A run is named by the order of first fires.

use cronstream_core::attempt::Retry;
use cronstream_core::live::Bounds;
use cronstream_core::turn::{RunAppend, Turn};
use cronstream_schemas::definition::Schedule;
use cronstream_schemas::event::{
    Cause, DeadLetter, Fired, Held, HeldReason, JobState, LogEvent, RunEvent, Skipped, SkippedWhat,
};
use cronstream_schemas::id::{RunId, ShardId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::{Outcome, Verdict};

use crate::laws;
use crate::world::{End, World};

const DAY: &str = "2026-03-01T";

/// An instant as scripts write it.
pub(crate) fn at(text: &str) -> Timestamp {
    let full = if text.contains('T') { format!("2026-{text}Z") } else { format!("{DAY}{text}Z") };
    full.parse().unwrap()
}

pub(crate) fn show_at(at: Timestamp) -> String {
    let full = at.to_string();
    let text = full.strip_prefix(DAY).or_else(|| full.strip_prefix("2026-")).unwrap_or(&full);
    let text = text.strip_suffix('Z').unwrap_or(text);
    text.strip_suffix(".000").unwrap_or(text).to_owned()
}

/// Runs a script; what comes of each input must be what stands under it.
#[track_caller]
pub(crate) fn check(script: &str) {
    play(script);
}

/// Runs a script as [`check`] does and hands back the world for a closer look.
#[track_caller]
pub(crate) fn play(script: &str) -> World {
    let expected = dedent(script);
    let inputs = expected.iter().filter(|line| !line.starts_with(' ')).cloned();
    let mut player: Option<Player> = None;
    let mut found = Vec::new();
    for input in inputs {
        found.push(input.clone());
        if input.starts_with('#') {
            continue;
        }
        let (clock, rest) = input.split_once(' ').unwrap_or((&input, ""));
        let (clock, settle) = clock.strip_suffix('+').map_or((clock, true), |clock| (clock, false));
        let now = at(clock);
        let player = player.get_or_insert_with(|| Player::new(now));
        player.world.now = now;
        player.input(rest);
        if settle {
            player.settle();
        }
        found.append(&mut player.lines);
    }
    if found != expected {
        panic!("found:\n{}\n\nexpected:\n{}\n", found.join("\n"), expected.join("\n"));
    }
    let world = player.expect("a script has an input").world;
    laws::check_log(&world);
    laws::check_folds(&world);
    world
}

fn dedent(script: &str) -> Vec<String> {
    let lines = script.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let base = lines.clone().map(indent).min().unwrap_or(0);
    lines.map(|line| line[base..].trim_end().to_owned()).collect()
}

struct Player {
    world: World,
    names: Vec<RunId>,
    lines: Vec<String>,
}

impl Player {
    fn new(now: Timestamp) -> Self {
        Self { world: World::new(now), names: Vec::new(), lines: Vec::new() }
    }

    fn input(&mut self, text: &str) {
        let (at_broker, text) = match text.strip_prefix('@') {
            Some(text) => text.split_once(' ').map(|(clock, rest)| (at(clock), rest)).unwrap(),
            None => (self.world.now, text),
        };
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (word, revision) =
            word.split_once('!').map_or((word, None), |(word, revision)| (word, Some(revision)));
        match word {
            "" => {}
            "define" => {
                let (job, rest) = rest.split_once(' ').unwrap();
                let (schedule, fields) = rest.split_at(rest.find('}').unwrap() + 1);
                let comma = if fields.is_empty() { "" } else { "," };
                let body = format!(r#"{{"task":"t","schedule":{schedule}{comma}{fields}}}"#);
                let subject = format!("cron.define.n.{job}");
                self.world.publish(at_broker, &subject, &body, revision);
            }
            "delete" | "pause" | "resume" | "trigger" => {
                let (job, body) = rest.split_once(' ').unwrap_or((rest, ""));
                self.world.publish(at_broker, &format!("cron.{word}.n.{job}"), body, revision);
            }
            "backfill" => {
                let [job, from, to] = rest.split(' ').collect::<Vec<_>>()[..] else {
                    panic!("`{rest}` is no job, from and to");
                };
                let body = format!(r#"{{"from":"{}","to":"{}"}}"#, at(from), at(to));
                self.world.publish(at_broker, &format!("cron.backfill.n.{job}"), &body, None);
            }
            "skip" => {
                let (job, slot) =
                    rest.split_once(' ').map_or((rest, None), |(job, at)| (job, Some(at)));
                let body = slot.map(|slot| format!(r#"{{"slot":"{}"}}"#, at(slot)));
                let body = body.unwrap_or_default();
                self.world.publish(at_broker, &format!("cron.skip.n.{job}"), &body, revision);
            }
            "shift" => {
                let words: Vec<&str> = rest.split(' ').collect();
                let slot = words.get(2).map(|slot| format!(r#","slot":"{}""#, at(slot)));
                let body = format!(r#"{{"to":"{}"{}}}"#, at(words[1]), slot.unwrap_or_default());
                self.world.publish(
                    at_broker,
                    &format!("cron.shift.n.{}", words[0]),
                    &body,
                    revision,
                );
            }
            "calendar" | "calendar-delete" => {
                let (name, body) = rest.split_once(' ').unwrap_or((rest, ""));
                self.world.publish(at_broker, &format!("cron.{word}.n.{name}"), body, revision);
            }
            "lose" => self.world.lose_calendar(&format!("n/{rest}").parse().unwrap()),
            "cancel" => {
                let (job, run) = rest.split_once(' ').unwrap();
                let body = format!(r#"{{"run":"{}"}}"#, self.run(run).run);
                self.world.publish(at_broker, &format!("cron.cancel.n.{job}"), &body, None);
            }
            "raw" => {
                let (subject, body) = rest.split_once(' ').unwrap_or((rest, ""));
                self.world.publish(at_broker, subject, body, None);
            }
            "takeover" => self.world.take_over(),
            "hold" => self.world.settings.hold = true,
            "release" => self.world.settings.hold = false,
            "bounds" => self.world.settings.bounds = bounds(rest),
            "limit" => self.world.limit = (rest != "off").then(|| at(rest)),
            _ => self.executor(word, rest),
        }
    }

    fn executor(&mut self, word: &str, rest: &str) {
        let (run, after) = rest.split_once(' ').map_or((rest, None), |(run, t)| (run, Some(t)));
        let shard = self.run(run);
        let failure = |retry| Some(End::Failure(retry));
        match word {
            "start" => self.world.start(shard),
            "succeed" => self.world.end(shard, Some(End::Success)),
            "interrupt" => self.world.end(shard, None),
            "fail" => {
                let after = after.map(|span| span.parse().unwrap());
                self.world.end(shard, failure(Retry::After(after)));
            }
            "die" => self.world.end(shard, failure(Retry::Never)),
            word => panic!("`{word}` is no input"),
        }
    }

    fn run(&self, name: &str) -> ShardId {
        let number: usize = name.strip_prefix('r').unwrap().parse().unwrap();
        ShardId { run: self.names[number - 1], shard: 0 }
    }

    fn settle(&mut self) {
        let (names, lines) = (&mut self.names, &mut self.lines);
        let mut batches = 0;
        let buried = self.world.bury();
        lines.extend(buried.iter().map(|(_, letter)| dead(names, letter)));
        self.world.settle(|_, turn, buried| {
            if turn.batch.is_some() {
                batches += 1;
                if batches > 1 {
                    lines.push("    --".into());
                }
            }
            render(names, lines, turn);
            lines.extend(buried.iter().map(|(_, letter)| dead(names, letter)));
        });
    }
}

/// `2 4 64`: runs of a job, runs of the partition, bytes of params of their own.
fn bounds(text: &str) -> Bounds {
    let numbers: Vec<usize> = text.split(' ').map(|number| number.parse().unwrap()).collect();
    let of_job = u32::try_from(numbers[0]).unwrap();
    Bounds { of_job, of_partition: numbers[1], own_params: numbers[2] }
}

fn render(names: &mut Vec<RunId>, lines: &mut Vec<String>, turn: &Turn) {
    if let Some(batch) = &turn.batch {
        for planned in &batch.events {
            if let Some(line) = event(names, &planned.event) {
                lines.push(format!("    {line}"));
            }
        }
        for reply in &batch.replies {
            lines.push(format!("    -> {}", verdict(names, &reply.verdict)));
        }
    }
    lines.extend(turn.appends.iter().map(|append| format!("    {}", appended(names, append))));
}

fn event(names: &mut Vec<RunId>, event: &LogEvent) -> Option<String> {
    let line = match event {
        LogEvent::JobRevised(_)
        | LogEvent::Cursor(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::Meta(_) => return None,
        LogEvent::CalendarDefined(e) => {
            format!("calendar {} rev {}", job(&e.calendar), e.revision.0)
        }
        LogEvent::CalendarDeleted(e) => format!("calendar {} deleted", job(&e.calendar)),
        LogEvent::JobOverridden(state) => format!("overridden {}", overridden(state)),
        LogEvent::JobDefined(state) => format!("defined {}", defined(state)),
        LogEvent::JobPaused(state) => format!("paused {}", after(state)),
        LogEvent::JobResumed(state) => format!("resumed {}", after(state)),
        LogEvent::JobDeleted(state) => format!("deleted {}", after(state)),
        LogEvent::Fired(fire) => fired(names, fire),
        LogEvent::Held(held) => format!("held {}", waits(held)),
        LogEvent::HeldEnded(ended) => {
            let slot = show_at(ended.slot);
            let range = if ended.range.is_some() { ".." } else { "" };
            format!("held ended {} {slot}{range}", job(&ended.job))
        }
        LogEvent::Skipped(what) => skipped(what),
        LogEvent::Rejected(rejected) => {
            let paths: Vec<_> = rejected.faults.iter().map(|fault| fault.path.as_str()).collect();
            let of = rejected.duplicate_of.map(|run| format!(" duplicate of {}", name(names, run)));
            format!("rejected {} {}{}", rejected.command, paths.join(" "), of.unwrap_or_default())
        }
    };
    Some(line)
}

fn defined(state: &JobState) -> String {
    let every = state.definition.as_ref().is_some_and(|definition| match *definition.schedule {
        Schedule::Every(_) => true,
        Schedule::Cron(_) | Schedule::FixedDelay(_) | Schedule::At(_) => false,
    });
    let anchor = if every { format!(" anchor {}", show_at(state.anchor)) } else { String::new() };
    let paused = if state.paused.is_some() { " paused" } else { "" };
    format!(
        "{} rev {} life {} after {}{anchor}{paused}",
        job(&state.job),
        state.revision.0,
        state.incarnation.0,
        show_at(state.effective_after)
    )
}

fn after(state: &JobState) -> String {
    format!("{} after {}", job(&state.job), show_at(state.effective_after))
}

fn overridden(state: &JobState) -> String {
    let to_come = state.overrides.iter().filter(|it| !it.is_done());
    let all = to_come.map(|it| match it.to {
        None => format!(" skips {}", show_at(it.slot)),
        Some(to) => format!(" shifts {} to {}", show_at(it.slot), show_at(to)),
    });
    format!("{}{}", after(state), all.collect::<String>())
}

fn fired(names: &mut Vec<RunId>, fire: &Fired) -> String {
    let why = match &fire.cause {
        Cause::Slot(slot) => show_at(*slot),
        Cause::Trigger(trigger) => match &trigger.key {
            Some(key) => format!("trigger {} key {key}", trigger.command),
            None => format!("trigger {}", trigger.command),
        },
        Cause::Backfill(it) => format!("backfill {} {}", it.command, show_at(it.slot)),
    };
    let run = name(names, fire.run);
    format!("fired {} {why} as {run}.{} rev {}", job(&fire.job), fire.fire_no, fire.revision.0)
}

fn waits(held: &Held) -> String {
    let slots = match &held.range {
        Some(range) => {
            format!("{}..{} x{}", show_at(held.slot), show_at(range.through), range.left)
        }
        None => show_at(held.slot),
    };
    let why = match held.why {
        HeldReason::Hold => String::new(),
        why => format!(" {why:?}").to_lowercase(),
    };
    let due = held.due.map(|due| format!(" due {}", show_at(due))).unwrap_or_default();
    format!("{} {slots}{why}{due} rev {}", job(&held.job), held.revision.0)
}

fn skipped(skipped: &Skipped) -> String {
    let what = match &skipped.what {
        SkippedWhat::Trigger(trigger) => format!("trigger {}", trigger.command),
        SkippedWhat::Slots { first, last, count } if first == last && *count == 1 => {
            show_at(*first)
        }
        SkippedWhat::Slots { first, last, count } => {
            format!("{}..{} x{count}", show_at(*first), show_at(*last))
        }
    };
    let reason = skipped.reason.as_str();
    let backfill = skipped.backfill.map(|command| format!(" backfill {command}"));
    let backfill = backfill.unwrap_or_default();
    format!("skipped {} {what} {reason}{backfill} rev {}", job(&skipped.job), skipped.revision.0)
}

fn verdict(names: &mut Vec<RunId>, verdict: &Verdict) -> String {
    match &verdict.outcome {
        Outcome::Accepted { revision, next, .. } => {
            let next = next.first().map_or("none".to_owned(), |next| show_at(*next));
            format!("accepted {} next {next}", revision.0)
        }
        Outcome::Overridden { slot, to: None } => format!("skips {}", show_at(*slot)),
        Outcome::Overridden { slot, to: Some(to) } => {
            format!("shifts {} to {}", show_at(*slot), show_at(*to))
        }
        Outcome::Backfilling { slots } => format!("backfilling {slots}"),
        Outcome::CalendarAccepted { revision, jobs } => {
            format!("accepted {} for {jobs} jobs", revision.0)
        }
        Outcome::Fired { run } => format!("fired {}", name(names, *run)),
        Outcome::Skipped { reason } => format!("skipped {reason:?}").to_lowercase(),
        Outcome::Cancelled { run } => format!("cancelled {}", name(names, *run)),
        Outcome::Rejected { faults, .. } => format!("rejected {}", faults[0].problem),
    }
}

fn appended(names: &mut Vec<RunId>, append: &RunAppend) -> String {
    let run = name(names, append.key.shard.run);
    let by = match &append.event {
        RunEvent::Cancelled(ended) => format!(" by {}", ended.command.unwrap()),
        RunEvent::Expired(_) | RunEvent::Lost(_) => String::new(),
        event => panic!("a leader does not append {event:?}"),
    };
    format!("{} {run}{by}", append.event.kind())
}

fn dead(names: &mut Vec<RunId>, letter: &DeadLetter) -> String {
    let run = name(names, letter.fired.run);
    format!("    dead {run} after {} attempts", letter.attempts)
}

fn name(names: &mut Vec<RunId>, run: RunId) -> String {
    let known = names.iter().position(|known| *known == run);
    let index = known.unwrap_or_else(|| {
        names.push(run);
        names.len() - 1
    });
    format!("r{}", index + 1)
}

fn job(job: &JobId) -> String {
    if job.namespace.as_str() == "n" { job.name.to_string() } else { job.to_string() }
}
