//! What it costs to plan a million jobs on one core: load them, find the first slot of each, and an hour of ticks.
//!
//! ```text
//! cargo bench -p cronstream-core --bench planning
//! ```
//!
//! The mix: 60 % daily at a minute of the next hour, 40 % daily at any second of the day, all in a zone with clock
//! changes. `plan` is the calendar and the due index by themselves; `partition` is the leader's whole fold and its
//! turns, with every fire made and encoded. Times are those of the core, where the system tells them (Linux), so that
//! other work on the machine counts little.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "the time that it takes is measured")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cronstream_core::calendar::Calendars;
use cronstream_core::due::Due;
use cronstream_core::live::Bounds;
use cronstream_core::partition::Partition;
use cronstream_core::plan::Plan;
use cronstream_core::turn::{Now, Settings};
use cronstream_schemas::definition::Draft;
use cronstream_schemas::event::{JobState, LogEvent, Overrides};
use cronstream_schemas::id::{self, Incarnation, Revision};
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::trace::TraceRatio;
use uuid::Uuid;

const JOBS: u64 = 1_000_000;
const SECOND: Duration = Duration::from_secs(1);

fn main() {
    let now: Timestamp = "2026-06-01T09:59:59.500Z".parse().expect("an instant");
    let states: Vec<LogEvent> = (1..=JOBS).map(|number| state(number, now)).collect();
    println!("{JOBS} jobs, milliseconds");
    plan(&states, now);
    partition(&states, now);
}

/// A job of the mix, as the log has it.
fn state(number: u64, at: Timestamp) -> LogEvent {
    // Steps that are prime to the ranges spread the jobs evenly.
    let expression = if number % 10 < 6 {
        format!("{} 12 * * *", number * 7 % 60)
    } else {
        let second = number * 7_919 % 86_400;
        format!("{} {} {} * * *", second % 60, second / 60 % 60, second / 3_600)
    };
    let body = format!(
        r#"{{"task":"report","schedule":{{"cron":"{expression}"}},"time_zone":"Europe/Berlin","params":{{"n":{number}}}}}"#
    );
    let definition = Draft::decode(body.as_bytes()).finish().expect("a definition");
    let job = format!("team-{}/job-{number}", number % 1_000).parse().expect("a job");
    LogEvent::JobDefined(JobState {
        job,
        revision: Revision(number),
        incarnation: Incarnation(number),
        definition: Some(definition),
        anchor: at,
        effective_after: at,
        paused: None,
        overrides: Overrides::default(),
        tzdb: None,
        command: number,
        at,
    })
}

/// How long this thread was on a core.
fn on_core(begin: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

fn told<T>(what: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let before = on_core(begin);
    let result = work();
    let took = on_core(begin).saturating_sub(before);
    println!("{what:<28} {:>8.0}", took.as_secs_f64() * 1e3);
    (result, took)
}

/// The calendar and the due index, which knows jobs by numbers here.
fn plan(states: &[LogEvent], now: Timestamp) {
    let calendars = Calendars::default();
    let compile = |event: &LogEvent| match event {
        LogEvent::JobDefined(state) => {
            let definition = state.definition.as_ref()?;
            let plan = Plan::compile(definition, &state.job, state.anchor, &calendars).ok()?;
            Some((state.job.clone(), plan))
        }
        _ => None,
    };
    let (plans, load) = told("plan: load", || {
        let mut plans = HashMap::with_capacity(states.len());
        let numbered = states.iter().filter_map(compile).zip(0_u32..);
        plans.extend(numbered.map(|((job, plan), number)| (job, (plan, number))));
        plans
    });
    let mut by_number: Vec<_> = plans.iter().map(|(job, (_, number))| (*number, job)).collect();
    by_number.sort_unstable();
    let (mut due, first) = told("plan: first due", || {
        let mut due = Due::default();
        for (job, (plan, number)) in &plans {
            if let Some(at) = plan.next(now) {
                due.insert(at, job, *number);
            }
        }
        due
    });
    let mut fired = 0_u64;
    let ((), hour) = told("plan: an hour of ticks", || {
        for tick in 1..=3_600 {
            let horizon = now.plus(SECOND * tick);
            due.prepare(horizon, |_, number| std::iter::once(by_number[number as usize].1));
            let ready = due.iter().take_while(|(at, _)| *at <= horizon);
            let ready: Vec<(Timestamp, JobId)> = ready.map(|(at, job)| (at, job.clone())).collect();
            for (at, job) in ready {
                due.remove(at, &job);
                fired += 1;
                let (plan, number) = &plans[&job];
                if let Some(next) = plan.next(at) {
                    due.insert(next, &job, *number);
                }
            }
        }
    });
    let sum = load + first + hour;
    println!("{:<28} {:>8.0}   {fired} due", "plan: all", sum.as_secs_f64() * 1e3);
}

/// A leader's fold and turns.
fn partition(states: &[LogEvent], now: Timestamp) {
    let mut partition = Partition::new(id::Partition(0));
    let settings = Settings {
        prefix: Prefix::default(),
        hold: false,
        max_clock_error: Duration::from_millis(500),
        cursor_refresh: Duration::from_secs(6 * 3_600),
        trace_ratio: TraceRatio::default(),
        bounds: Bounds::default(),
    };
    let ((), load) = told("partition: load", || {
        (1..).zip(states).for_each(|(seq, event)| partition.apply_log(seq, event));
    });
    let mut seq = JOBS + 1;
    let node = Name::parse("bench").expect("a name");
    let cursor = partition.takeover(now, &node, id::Instance(Uuid::from_u128(1)));
    partition.apply_log(seq, &LogEvent::Cursor(cursor));
    let ((), first) = told("partition: first due", || partition.lead());
    let mut fired = 0_u64;
    let ((), hour) = told("partition: an hour of ticks", || {
        for tick in 1..=3_600 {
            let wall = now.plus(SECOND * tick);
            while let Some(batch) = partition.turn(Now { wall, limit: wall }, &settings, true).batch
            {
                fired += batch.events.len() as u64;
                seq += batch.events.len() as u64 + 1;
                partition.commit(batch, seq);
            }
        }
    });
    let sum = load + first + hour;
    println!("{:<28} {:>8.0}   {fired} events", "partition: all", sum.as_secs_f64() * 1e3);
}
