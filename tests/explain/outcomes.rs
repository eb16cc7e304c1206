//! Outcomes without a fault: on time, overlapping, paused, deleted, edited, skipped, left out by a calendar, to come.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Cause, LogEvent, SkipReason};
use cronstream_tests::client::Client;
use cronstream_tests::record::Record;
use cronstream_tests::world::{World, now};
use tokio::time::sleep;

use crate::stage::{PATIENCE, SETUP, change, define, ended, explain, explained, fire, skip};

const RUNS: &str = r#"{"task":"effect","schedule":{"every":"1s"},"overlap":"allow"}"#;
const NOBODY: &str = r#"{"task":"t","queue":"nobody","schedule":{"every":"1s"},"overlap":"allow"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn runs_skips_and_waits_are_explained_by_what_the_log_says() -> Result<()> {
    World::with(SETUP, async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let job = define(world, "e/ontime", RUNS).await?.job;
        let slow = r#"{"task":"slow","schedule":{"every":"1s"}}"#;
        let slow = define(world, "e/slow", slow).await?.job;
        let waits = define(world, "e/waits", NOBODY).await?.job;
        let unknown = define(world, "e/unknown", &RUNS.replace("effect", "strange")).await?.job;
        let fired = fire(world, &job, |_| true).await?;
        ended(world, &fired).await?;
        let told = explain(world, &job, fired.scheduled_at).await?;
        // A loaded machine may start it late, and says so.
        told.is(&["ran", "ran_late"], &["e1", "every 1s", "succeeded"])?;
        ensure!(told.field("run") == &fired.run.to_string(), "{:?}", told.field("run"));
        ensure!(told.field("leader")["node"] == "t1", "{:?}", told.field("leader"));
        let waiting = fire(world, &waits, |_| true).await?;
        explain(world, &waits, waiting.scheduled_at)
            .await?
            .is(&["waiting"], &["no executor of queue nobody answers now"])?;
        let unknown = fire(world, &unknown, |_| true).await?;
        let none = "1 executor of queue default answers now, and none knows task strange";
        explained(world, &unknown.job, unknown.scheduled_at, "waiting", none).await?;
        let live = fire(world, &slow, |_| true).await?;
        let (slot, _) = skip(world, &slow, SkipReason::Overlap).await?;
        explain(world, &slow, slot)
            .await?
            .is(&["skipped"], &[r#""reason":"overlap""#, &live.run.to_string(), "was live"])?;
        let between = fired.scheduled_at.plus(Duration::from_millis(1_500));
        let ahead = define(world, "e/daily", r#"{"task":"t","schedule":{"cron":"0 3 29 2 *"}}"#);
        let daily = ahead.await?.job;
        explain(world, &daily, between).await?.is(&["no_job", "no_slot"], &[])?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_a_job_are_named_where_they_kept_a_slot_from_running() -> Result<()> {
    World::with(SETUP, async |world| {
        world.ticker("t1", &[])?;
        world.led().await?;
        let job = define(world, "e/job", NOBODY).await?.job;
        let first = fire(world, &job, |_| true).await?;
        let slot = first.scheduled_at.plus(Duration::from_secs(5));
        let body = format!(r#"{{"slot":"{slot}"}}"#);
        let skipping = change(world, Verb::Skip, "e/job", &body).await?;
        explain(world, &job, slot).await?.is(
            &["will_not_run"],
            &["asked to be skipped", &format!("command {}", skipping.command)],
        )?;
        let (skipped, _) = skip(world, &job, SkipReason::Requested).await?;
        ensure!(skipped == slot, "{skipped} is skipped and not {slot}");
        explain(world, &job, slot).await?.is(
            &["skipped"],
            &[r#""reason":"requested""#, &format!("command {}", skipping.command)],
        )?;
        let edited = define(world, "e/job", &NOBODY.replace("1s", "2s")).await?;
        let told = explain(world, &job, first.scheduled_at).await?;
        told.is(&["waiting"], &["every 1s"])?;
        ensure!(told.field("revision") == first.revision.0, "{:?}", told.field("revision"));
        fire(world, &job, |fired| fired.revision == edited.revision).await?;
        let paused = change(world, Verb::Pause, "e/job", "").await?;
        sleep(Duration::from_secs(5)).await;
        let within = paused.at.plus(Duration::from_secs(1));
        let told = explain(world, &job, within).await?;
        let slot = told.field("slot_after").as_str().unwrap_or_default().parse()?;
        let command = format!("command {}", paused.command);
        explain(world, &job, slot)
            .await?
            .is(&["undecided", "will_not_run"], &[&command, "paused"])?;
        let deleted = change(world, Verb::Delete, "e/job", "").await?;
        let command = format!("command {}", deleted.command);
        explain(world, &job, now()).await?.is(&["no_job"], &["deleted", &command])?;
        explain(world, &job, first.scheduled_at).await?.is(&["waiting"], &["every 1s"])?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_off_is_explained_by_its_calendar_and_a_slot_to_come_by_what_could_prevent_it()
-> Result<()> {
    World::with(SETUP, async |world| {
        world.ticker("t1", &[])?;
        world.led().await?;
        let calendar = "e/off".parse()?;
        let days = r#"{"include":[{"date":"2099-02-10"}]}"#;
        let client = Client::new(&world.urls());
        client.send(Verb::Calendar, &calendar, days).await?;
        let body =
            r#"{"task":"t","schedule":{"cron":"0 3 * * *"},"calendars":{"except":["e/off"]}}"#;
        let job = define(world, "e/daily", body).await?.job;
        explain(world, &job, "2099-02-10T03:00:00Z".parse()?)
            .await?
            .is(&["no_slot"], &["calendar e/off (except) has that day"])?;
        let told = explain(world, &job, "2099-02-11T03:00:00Z".parse()?).await?;
        told.is(&["will_run"], &["at 03:00 every day", "would prevent it"])?;
        ensure!(
            told.field("slot_before") == "2099-02-09T03:00:00.000Z",
            "{:?}",
            told.field("slot_before")
        );
        let text = world.call("explain", &["e/daily", "--at", "2099-02-11T03:00"]).await?;
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        ensure!(text.contains("e/daily at 2099-02-11T03:00:00.000Z: it will run"), "{text}");
        let nobody = world.call("explain", &["e/nobody", "--at", "2099-02-11T03:00:00Z"]).await?;
        ensure!(nobody.status.code() == Some(6), "{nobody:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_triggered_or_backfilled_run_that_kept_a_slot_from_firing_is_named() -> Result<()> {
    World::with(SETUP, async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let body = r#"{"task":"t","queue":"nobody","schedule":{"every":"2s"}}"#;
        let job = define(world, "e/triggered", body).await?.job;
        let command = Client::new(&world.urls()).send(Verb::Trigger, &job, "").await?;
        let live = fire(world, &job, |_| true).await?;
        let (slot, _) = skip(world, &job, SkipReason::Overlap).await?;
        let triggered = format!("triggered by command {command}");
        let says = [live.run.to_string(), triggered, "was live".to_owned()];
        explain(world, &job, slot).await?.is(&["skipped"], &says.each_ref().map(String::as_str))?;

        let body = r#"{"task":"slow","schedule":{"every":"5s"}}"#;
        let job = define(world, "e/backfilled", body).await?.job;
        let first = fire(world, &job, |_| true).await?;
        ended(world, &first).await?;
        let slot = first.scheduled_at.plus(Duration::from_secs(5));
        sleep(slot.minus(Duration::from_millis(700)).since(now())).await;
        let past = first.scheduled_at;
        let body = format!(r#"{{"from":"{past}","to":"{past}"}}"#);
        let command = Client::new(&world.urls()).send(Verb::Backfill, &job, &body).await?;
        let asked = format!("asked for by backfill command {command},");
        let queued = |record: &Record| {
            let mut events = record.log.values().map(|stored| &stored.event);
            events.any(|it| matches!(it, LogEvent::Held(held) if held.slot == slot)).then_some(())
        };
        world.recorder().until("the slot to wait", PATIENCE, queued).await?;
        let waits = explain(world, &job, slot).await?;
        waits.is(&["held"], &[r#""reason":"queued""#, &asked, "is live"])?;
        let held = fire(world, &job, |it| it.cause == Cause::Slot(slot)).await?;
        ended(world, &held).await?;
        let told = explain(world, &job, slot).await?;
        told.is(&["ran_late"], &["it was held until", &asked, "was live until then"])?;
        Ok(())
    })
    .await
}
