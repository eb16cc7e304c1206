//! Edits meet what was owed before them: the old slots keep their revision, the new ones begin after the edit.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{LogEvent, RunEvent, SkipReason};
use cronstream_schemas::id::{Revision, ShardId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::crew::fired_after;
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, World, now};

use crate::stage::{
    EVERY_SECOND, PATIENCE, PERIOD, change, coming_slot, define, fire_of, fires_of, kill,
    last_slot, publish, reached, restart, setup, ticking, verify,
};

/// The same job under another revision.
const EDITED: &str = r#"{"task":"effect","schedule":{"every":"1s"},"overlap":"allow","timeout":"20s","max_attempts":9}"#;
/// A job whose runs take three seconds.
const SLOW: &str = r#"{"task":"slow","schedule":{"every":"1s"},"overlap":"skip","timeout":"20s"}"#;

async fn muster(world: &mut World) -> Result<()> {
    for node in ["t1", "t2"] {
        world.ticker(node, &[])?;
    }
    world.executor("e1", "default", 16)?;
    world.led().await
}

/// Kills all tickers before a slot and waits until it has passed.
async fn down_across_a_slot(world: &mut World, job: &JobId) -> Result<Timestamp> {
    let slot = coming_slot(world, job)?;
    reached(slot.minus(Duration::from_millis(100))).await;
    kill(world, &["t1", "t2"]).await?;
    reached(slot.plus(Duration::from_millis(200))).await;
    Ok(slot)
}

/// The slots of a job with the revision each fired under.
fn revisions(world: &World, job: &JobId) -> Vec<(Timestamp, Revision)> {
    let fires = fires_of(&world.recorder().now(), job);
    fires.iter().map(|fired| (fired.scheduled_at, fired.revision)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_owed_before_an_edit_fires_under_the_old_revision() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let job = ticking(world, "seams/edited", EVERY_SECOND).await?;
        let slot = down_across_a_slot(world, &job).await?;
        let (revision, edited) = publish(world, Verb::Define, &job, EDITED).await?;
        // Slots of the new revision pass too before anybody is back.
        reached(edited.plus(2 * PERIOD)).await;
        restart(world, &["t1", "t2"]).await?;
        fired_after(world, &job, edited.plus(2 * PERIOD), PATIENCE).await?;
        let fired = revisions(world, &job);
        let wrong: Vec<_> = fired
            .iter()
            .filter(|(at, under)| (*at > edited) != (*under == Revision(revision)))
            .collect();
        ensure!(wrong.is_empty(), "edited at {edited}: {wrong:?}");
        ensure!(fired.iter().any(|(at, _)| *at == slot), "{slot} has not fired: {fired:?}");
        verify(world, &[job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_owed_before_a_delete_fires_and_none_after_it() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let job = ticking(world, "seams/deleted", EVERY_SECOND).await?;
        let clock = ticking(world, "seams/clock", EVERY_SECOND).await?;
        let slot = down_across_a_slot(world, &job).await?;
        let (_, deleted) = publish(world, Verb::Delete, &job, "").await?;
        restart(world, &["t1", "t2"]).await?;
        fire_of(world, &job, slot).await?;
        fired_after(world, &clock, deleted.plus(3 * PERIOD), PATIENCE).await?;
        let after: Vec<_> =
            revisions(world, &job).into_iter().filter(|(at, _)| *at > deleted).collect();
        ensure!(after.is_empty(), "deleted at {deleted}: {after:?}");
        verify(world, &[clock]).await
    })
    .await
}

/// A batch changes a job once: the edit is in the first one behind the takeover, and the pause comes behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_behind_an_edit_comes_before_the_slots_that_nobody_saw() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let job = ticking(world, "seams/paused", EVERY_SECOND).await?;
        let clock = ticking(world, "seams/clock", EVERY_SECOND).await?;
        kill(world, &["t1", "t2"]).await?;
        publish(world, Verb::Define, &job, EDITED).await?;
        let (_, paused) = publish(world, Verb::Pause, &job, "").await?;
        reached(paused.plus(2 * PERIOD + PERIOD / 2)).await;
        restart(world, &["t1", "t2"]).await?;
        fired_after(world, &clock, paused.plus(2 * PERIOD), PATIENCE).await?;
        let after: Vec<_> =
            revisions(world, &job).into_iter().filter(|(at, _)| *at > paused).collect();
        ensure!(after.is_empty(), "paused at {paused}: {after:?}");
        verify(world, &[clock]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_defined_again_after_its_delete_owes_nothing_from_before() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let job = ticking(world, "seams/again", EVERY_SECOND).await?;
        kill(world, &["t1", "t2"]).await?;
        let (_, deleted) = publish(world, Verb::Delete, &job, "").await?;
        reached(deleted.plus(2 * PERIOD + PERIOD / 2)).await;
        let (revision, defined) = publish(world, Verb::Define, &job, EVERY_SECOND).await?;
        restart(world, &["t1", "t2"]).await?;
        let first = defined.plus(PERIOD);
        let fired = fire_of(world, &job, first).await?;
        ensure!(fired.incarnation.0 == revision, "it is the old life: {fired:?}");
        let between: Vec<_> = revisions(world, &job)
            .into_iter()
            .filter(|(at, _)| *at > deleted && *at < first)
            .collect();
        ensure!(between.is_empty(), "deleted {deleted}, defined {defined}: {between:?}");
        verify(world, &[job]).await
    })
    .await
}

/// How a run has ended.
fn end_of(record: &Record, shard: ShardId) -> Option<(Timestamp, RunEvent)> {
    let prefix = Prefix::default();
    let ended = record.runs.values().filter(|stored| stored.event.is_terminal());
    let mut ended = ended
        .filter(|stored| prefix.parse_run(&stored.subject).is_some_and(|key| key.shard == shard));
    ended.next().map(|stored| (stored.at, stored.event.clone()))
}

/// Waits until a shard has started.
async fn started(world: &World, shard: ShardId) -> Result<()> {
    let prefix = Prefix::default();
    let started = |record: &Record| {
        record.runs.values().find_map(|stored| {
            let key = prefix.parse_run(&stored.subject)?;
            (key.shard == shard && matches!(stored.event, RunEvent::Started(_))).then_some(())
        })
    };
    world.recorder().until("the start of a run", PATIENCE, started).await
}

/// Defines a slow job and waits until its first run has started.
async fn running(world: &World, name: &str) -> Result<(JobId, ShardId)> {
    let job = ticking(world, name, SLOW).await?;
    let first = fires_of(&world.recorder().now(), &job);
    let shard = first.first().context("it has fired")?.shard_id();
    started(world, shard).await?;
    Ok((job, shard))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_the_delete_of_its_job() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let (job, shard) = running(world, "seams/slow").await?;
        change(world, Verb::Delete, &job, "").await?;
        let ended = |record: &Record| end_of(record, shard);
        let (_, end) = world.recorder().until("its result", PATIENCE, ended).await?;
        ensure!(matches!(end, RunEvent::Succeeded(_)), "it ended as {end:?}");
        let fired = revisions(world, &job).len();
        ensure!(fired == 1, "{fired} runs of a job that was deleted during its first");
        verify(world, &[]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_deleted_job_can_be_cancelled() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let (job, shard) = running(world, "seams/slow").await?;
        change(world, Verb::Delete, &job, "").await?;
        publish(world, Verb::Cancel, &job, &format!(r#"{{"run":"{}"}}"#, shard.run)).await?;
        let ended = |record: &Record| end_of(record, shard);
        let (_, end) = world.recorder().until("its end", PATIENCE, ended).await?;
        ensure!(matches!(end, RunEvent::Cancelled(_)), "it ended as {end:?}");
        verify(world, &[]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_outlives_its_ticker_still_holds_the_next_ones_back() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let (job, shard) = running(world, "seams/slow").await?;
        kill(world, &["t1", "t2"]).await?;
        restart(world, &["t1", "t2"]).await?;
        let first = fires_of(&world.recorder().now(), &job);
        let slot = first.first().context("it has fired")?.scheduled_at;
        fired_after(world, &job, slot.plus(2 * PERIOD), PATIENCE).await?;
        let record = world.recorder().now().clone();
        let (ended, _) = end_of(&record, shard).context("the second run began before an end")?;
        let second = record.log.values().find(|stored| match &stored.event {
            LogEvent::Fired(fired) => fired.job == job && fired.shard_id() != shard,
            _ => false,
        });
        let second = second.context("a second run")?;
        ensure!(second.at >= ended, "the second run began at {}, before {ended}", second.at);
        let skipped = record.log.values().any(|stored| match &stored.event {
            LogEvent::Skipped(skipped) => skipped.reason == SkipReason::Overlap,
            _ => false,
        });
        ensure!(skipped, "no slot was skipped for the run that was live");
        verify(world, &[job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_across_restarts_and_its_end_follows_the_misfire_rule() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let job = ticking(world, "seams/paused", EVERY_SECOND).await?;
        let clock = ticking(world, "seams/clock", EVERY_SECOND).await?;
        let paused = change(world, Verb::Pause, &job, "").await?.at;
        for _ in 0..2 {
            kill(world, &["t1", "t2"]).await?;
            restart(world, &["t1", "t2"]).await?;
            fired_after(world, &clock, now(), PATIENCE).await?;
        }
        let during: Vec<_> =
            revisions(world, &job).into_iter().filter(|(at, _)| *at > paused).collect();
        ensure!(during.is_empty(), "paused at {paused}: {during:?}");
        let resumed = change(world, Verb::Resume, &job, "").await?.at;
        fired_after(world, &job, resumed, PATIENCE).await?;
        verify(world, &[job, clock]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_restarts_skip_nothing() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let job = ticking(world, "seams/clock", EVERY_SECOND).await?;
        for _ in 0..3 {
            let slot = down_across_a_slot(world, &job).await?;
            restart(world, &["t1", "t2"]).await?;
            fire_of(world, &job, slot).await?;
        }
        fired_after(world, &job, now(), PATIENCE).await?;
        let skipped = world
            .recorder()
            .now()
            .log
            .values()
            .any(|stored| matches!(stored.event, LogEvent::Skipped(_)));
        ensure!(!skipped, "a slot was skipped");
        verify(world, &[job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_edits_at_once_hold_up_neither_their_job_nor_another() -> Result<()> {
    const EDITS: u32 = 300;
    World::with(setup(Brokers::One, 1), async |world| {
        muster(world).await?;
        let job = ticking(world, "seams/edited", EVERY_SECOND).await?;
        let clock = ticking(world, "seams/clock", EVERY_SECOND).await?;
        let nats = cronstream_tests::nats::Nats::connect(&world.urls()).await?;
        let subject = Prefix::default().command(Verb::Define, &job);
        for edit in 0..EDITS {
            let body = EVERY_SECOND.replace("\"effect\"", &format!("\"effect\",\"params\":{edit}"));
            nats.publish(&subject, &Vec::new(), body.as_bytes()).await?;
        }
        let last = define(world, "seams/edited", EVERY_SECOND).await?;
        fired_after(world, &job, last.at, PATIENCE).await?;
        fired_after(world, &clock, last.at, PATIENCE).await?;
        ensure!(last_slot(world, &job)? > last.at, "it does not fire any more");
        verify(world, &[job, clock]).await
    })
    .await
}

/// A ticker that is two and a half minutes ahead sees more than a hundred missed slots without waiting for them.
#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_hundred_missed_slots_stop_nothing() -> Result<()> {
    const AHEAD: Duration = Duration::from_secs(150);
    World::with(setup(Brokers::One, 1), async |world| {
        world.ticker("t1", &["--max-clock-error", "10m"])?;
        world.led().await?;
        let job = ticking(world, "seams/missed", crate::stage::NOBODY_RUNS).await?;
        kill(world, &["t1"]).await?;
        let decided = last_slot(world, &job)?;
        world.set_clock("t1", i64::try_from(AHEAD.as_millis())?)?;
        let back = now().plus(AHEAD);
        restart(world, &["t1"]).await?;
        fired_after(world, &job, back.plus(3 * PERIOD), PATIENCE).await?;
        let record = world.recorder().now().clone();
        let missed = record.log.values().find_map(|stored| match &stored.event {
            LogEvent::Skipped(skipped) => Some(skipped.clone()),
            _ => None,
        });
        let missed = missed.context("nothing was skipped")?;
        ensure!(missed.reason == SkipReason::Misfire, "{missed:?}");
        let cronstream_schemas::event::SkippedWhat::Slots { first, last, count } = missed.what
        else {
            anyhow::bail!("{missed:?}");
        };
        let fires = fires_of(&record, &job);
        let late: Vec<_> = fires.into_iter().filter(|fired| fired.scheduled_at > decided).collect();
        crate::stage::once_each_second(&late)?;
        let first_late = late.first().context("it fired")?.scheduled_at;
        ensure!(first == decided.plus(PERIOD) && last.plus(PERIOD) == first_late, "{missed:?}");
        ensure!(count > 80 && late.len() > 60, "{count} skipped, {} fired", late.len());
        Ok(())
    })
    .await
}
