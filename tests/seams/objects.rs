//! Calendars and overrides by real processes: what one partition's leader accepts, the leaders of the others go by,
//! whoever is killed between; a skip that races its slot has one outcome.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{
    CalendarState, Cause, LogEvent, Rejected, SkipReason, SkippedWhat,
};
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::client::{Applied, Client};
use cronstream_tests::crew::fired_after;
use cronstream_tests::nats::Nats;
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, World, now};

use crate::stage::{
    EVERY_SECOND, NOBODY_RUNS, PATIENCE, PERIOD, change, define, fire_of, fires_of, kill,
    last_slot, reached, restart, setup, ticking, verify,
};

/// Every day.
const ALWAYS: &str = r#"{"include":[{"range":{"from":"1970-01-01","to":"2239-12-31"}}]}"#;
/// A day that no test runs on.
const LONG_AGO: &str = r#"{"include":[{"date":"1970-01-01"}]}"#;
/// Calendars that are published at once.
const MANY: usize = 200;
/// How long they may take; one batch for each takes about three seconds.
const TOGETHER: Duration = Duration::from_secs(2);
/// How often a skip races its slot.
const RACES: u32 = 60;
/// The time between two slots of the job that is raced for.
const STEP: Duration = Duration::from_millis(200);

/// What the owner made of a calendar command.
async fn calendar(
    world: &World,
    verb: Verb,
    id: &JobId,
    body: &str,
) -> Result<Result<CalendarState, Rejected>> {
    let seq = Client::new(&world.urls()).send(verb, id, body).await?;
    let answer = |record: &Record| {
        record.log.values().find_map(|stored| match &stored.event {
            LogEvent::CalendarDefined(state) | LogEvent::CalendarDeleted(state)
                if state.command == seq =>
            {
                Some(Ok(state.clone()))
            }
            LogEvent::Rejected(rejected) if rejected.command == seq => Some(Err(rejected.clone())),
            _ => None,
        })
    };
    world.recorder().until(&format!("the end of {verb} {id}"), PATIENCE, answer).await
}

async fn accepted(world: &World, verb: Verb, id: &JobId, body: &str) -> Result<CalendarState> {
    match calendar(world, verb, id, body).await? {
        Ok(state) => Ok(state),
        Err(rejected) => bail!("{verb} {id} is rejected: {rejected:?}"),
    }
}

async fn refused(world: &World, verb: Verb, id: &JobId) -> Result<String> {
    match calendar(world, verb, id, "").await? {
        Ok(state) => bail!("{verb} {id} is accepted: {state:?}"),
        Err(rejected) => Ok(rejected.faults.first().context("no fault")?.problem.clone()),
    }
}

/// A job's name and a calendar's, of different partitions.
fn apart(world: &World) -> Result<(JobId, JobId)> {
    let job: JobId = "seams/worker".parse()?;
    let ids = (0..100).filter_map(|n| format!("seams/days{n}").parse().ok());
    let partitions = world.setup().partitions;
    let elsewhere = |id: &JobId| Partition::of_calendar(id, partitions) != world.partition(&job);
    let found = ids.into_iter().find(elsewhere);
    Ok((job, found.context("no name falls into another partition")?))
}

fn using(calendar: &JobId) -> String {
    NOBODY_RUNS.replacen('{', &format!(r#"{{"calendars":{{"except":["{calendar}"]}},"#), 1)
}

/// No slot later than this long after the change fires, though others go on.
async fn silent(world: &World, job: &JobId, clock: &JobId, since: Timestamp) -> Result<()> {
    let settled = since.plus(2 * PERIOD);
    fired_after(world, clock, settled.plus(3 * PERIOD), PATIENCE).await?;
    let fires = fires_of(&world.recorder().now(), job);
    let late: Vec<_> = fires.iter().filter(|fired| fired.scheduled_at > settled).collect();
    ensure!(late.is_empty(), "changed at {since}, and yet: {late:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_every_partition_go_by_a_calendar_whoever_is_killed() -> Result<()> {
    World::with(setup(Brokers::One, 3), async |world| {
        for node in ["t1", "t2"] {
            world.ticker(node, &[])?;
        }
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let clock = ticking(world, "seams/clock", EVERY_SECOND).await?;
        let (job, days) = apart(world)?;
        accepted(world, Verb::Calendar, &days, LONG_AGO).await?;
        // The definition is published at once: its partition's leader may not have read of the calendar yet.
        let state = define(world, &job.to_string(), &using(&days)).await?;
        fired_after(world, &job, state.at, PATIENCE).await?;

        let closed = accepted(world, Verb::Calendar, &days, ALWAYS).await?;
        silent(world, &job, &clock, closed.at).await?;
        let why = refused(world, Verb::CalendarDelete, &days).await?;
        ensure!(why.contains("a job uses this calendar"), "{why}");

        // A cold start folds the calendar behind the job that names it.
        kill(world, &["t1", "t2"]).await?;
        let started = now();
        restart(world, &["t1", "t2"]).await?;
        silent(world, &job, &clock, started).await?;
        let why = refused(world, Verb::CalendarDelete, &days).await?;
        ensure!(why.contains("a job uses this calendar"), "{why}");

        // The leaders are killed with the command on its way.
        Client::new(&world.urls()).send(Verb::Calendar, &days, LONG_AGO).await?;
        kill(world, &["t1", "t2"]).await?;
        let opened = now();
        restart(world, &["t1", "t2"]).await?;
        fired_after(world, &job, opened, PATIENCE).await?;

        define(world, &job.to_string(), NOBODY_RUNS).await?;
        accepted(world, Verb::CalendarDelete, &days, "").await?;
        let gone = Client::new(&world.urls());
        let again = gone.apply(world.recorder(), Verb::Define, &job, &using(&days)).await?;
        ensure!(matches!(again, Applied::Rejected(_)), "a calendar that is deleted is named");
        change(world, Verb::Delete, &job, "").await.map(drop)
    })
    .await
}

/// Commands for calendars wait for the log to be read to its head, and one look serves all that were read by then.
#[tokio::test(flavor = "multi_thread")]
async fn many_calendars_that_are_published_at_once_are_accepted_together() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        world.ticker("t1", &[])?;
        world.led().await?;
        let ids: Vec<JobId> =
            (0..MANY).map(|n| format!("seams/days{n}").parse()).collect::<Result<_, _>>()?;
        let client = Client::new(&world.urls());
        let nats = Nats::connect(&world.urls()).await?;
        let begun = now();
        let (last, others) = ids.split_last().context("no calendar")?;
        let subject = |id: &JobId| Prefix::default().command(Verb::Calendar, id);
        for id in others {
            nats.publish(&subject(id), &Vec::new(), LONG_AGO.as_bytes()).await?;
        }
        nats.store(&subject(last), &Vec::new(), LONG_AGO.as_bytes()).await?;
        let job: JobId = "seams/last".parse()?;
        // The definition comes right behind the calendar that it names.
        client.change(world.recorder(), Verb::Define, &job, &using(last)).await?;
        let took = now().since(begun);
        let record = world.recorder().now();
        let accepted = record.log.values().filter(|stored| {
            matches!(&stored.event, LogEvent::CalendarDefined(state) if ids.contains(&state.calendar))
        });
        let accepted = accepted.count();
        ensure!(accepted == MANY, "{accepted} of {MANY} calendars are accepted");
        ensure!(took < TOGETHER, "{MANY} calendars took {took:?}");
        Ok(())
    })
    .await
}

/// B108: asked for about the instant of the slot, a skip wins or was too late; there is no third thing.
#[tokio::test(flavor = "multi_thread")]
async fn a_skip_that_races_its_slot_wins_or_was_too_late() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        for node in ["t1", "t2"] {
            world.ticker(node, &[])?;
        }
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let body =
            r#"{"task":"effect","schedule":{"every":"200ms"},"overlap":"allow","timeout":"20s"}"#;
        let job = ticking(world, "seams/raced", body).await?;
        let client = Client::new(&world.urls());
        let mut races = Vec::new();
        for race in 0..RACES {
            let mut slot = last_slot(world, &job)?;
            while slot <= now().plus(STEP) {
                slot = slot.plus(STEP);
            }
            // From well before to just behind, most of them about a millisecond before.
            let ahead = match race % 6 {
                0 => Duration::from_millis(120),
                1 => Duration::ZERO,
                n => Duration::from_millis(u64::from(n)),
            };
            reached(slot.minus(ahead)).await;
            let body = format!(r#"{{"slot":"{slot}"}}"#);
            let told = client.apply(world.recorder(), Verb::Skip, &job, &body).await?;
            races.push((slot, matches!(told, Applied::Changed(_))));
        }
        let last = races.last().context("no race")?.0;
        fire_of_any_after(world, &job, last).await?;
        one_outcome_each(&world.recorder().now(), &job, &races)?;
        let won = races.iter().filter(|(_, won)| *won).count();
        ensure!(won > 0 && won < races.len(), "{won} of {} skips won: no race", races.len());
        verify(world, &[job]).await
    })
    .await
}

/// Each slot that was raced for was skipped where the skip won, and fired where it came too late.
fn one_outcome_each(record: &Record, job: &JobId, races: &[(Timestamp, bool)]) -> Result<()> {
    let fires = fires_of(record, job);
    for (slot, won) in races {
        let fired = fires.iter().filter(|fired| fired.cause == Cause::Slot(*slot)).count();
        let skipped = requested(record, job, *slot);
        let expected = if *won { (0, 1) } else { (1, 0) };
        ensure!((fired, skipped) == expected, "{slot}, won: {won}: {fired} fires, {skipped} skips");
    }
    Ok(())
}

async fn fire_of_any_after(world: &World, job: &JobId, slot: Timestamp) -> Result<()> {
    let fired = |record: &Record| {
        fires_of(record, job).iter().any(|fired| fired.scheduled_at > slot).then_some(())
    };
    world.recorder().until("a slot behind the last race", PATIENCE, fired).await
}

/// How often a slot was skipped because it was asked for.
fn requested(record: &Record, job: &JobId, slot: Timestamp) -> usize {
    let skips = record.log.values().filter(|stored| match &stored.event {
        LogEvent::Skipped(skipped) => {
            let one = SkippedWhat::Slots { first: slot, last: slot, count: 1 };
            skipped.job == *job && skipped.reason == SkipReason::Requested && skipped.what == one
        }
        _ => false,
    });
    skips.count()
}

/// A slot that is decided ahead of its instant is decided for good, whoever leads when its instant comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_shifted_to_an_earlier_instant_fires_there_and_not_again_after_a_crash() -> Result<()>
{
    World::with(setup(Brokers::One, 1), async |world| {
        for node in ["t1", "t2"] {
            world.ticker(node, &[])?;
        }
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let clock = ticking(world, "seams/clock", EVERY_SECOND).await?;
        let job: JobId = "seams/shifted".parse()?;
        let every =
            r#"{"task":"effect","schedule":{"every":"8s"},"overlap":"allow","timeout":"20s"}"#;
        let state = define(world, &job.to_string(), every).await?;
        let slot = state.at.plus(Duration::from_secs(8));
        let to = state.at.plus(Duration::from_millis(2_500));
        let body = format!(r#"{{"to":"{to}"}}"#);
        change(world, Verb::Shift, &job, &body).await?;
        let fired = fire_of(world, &job, slot).await?;
        ensure!(fired.fired_at >= to && fired.fired_at < slot, "{fired:?}");
        kill(world, &["t1", "t2"]).await?;
        restart(world, &["t1", "t2"]).await?;
        fired_after(world, &clock, slot.plus(PERIOD), PATIENCE).await?;
        let fires = fires_of(&world.recorder().now(), &job);
        let of_slot = fires.iter().filter(|fired| fired.cause == Cause::Slot(slot)).count();
        ensure!(of_slot == 1, "{of_slot} fires of {slot}");
        fire_of(world, &job, slot.plus(Duration::from_secs(8))).await?;
        verify(world, &[job, clock]).await
    })
    .await
}
