//! Outcomes of faults: a leader that is killed, one that stands still.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use cronstream_schemas::event::{Fired, SkipReason, SkippedWhat};
use cronstream_tests::world::{World, now};
use tokio::time::sleep;

use crate::stage::{SETUP, define, ended, explain, fire, fires, skip, skip_after};

/// A slot that is decided this late is told to be late.
const LATE: Duration = Duration::from_millis(1_100);

#[tokio::test(flavor = "multi_thread")]
async fn every_slot_that_fell_between_two_leaders_is_told_so_whether_it_ran_late_or_not()
-> Result<()> {
    World::with(SETUP, async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let body = r#"{"task":"effect","schedule":{"every":"1s"},"overlap":"allow"}"#;
        let job = define(world, "e/late", body).await?.job;
        let body = r#"{"task":"t","queue":"nobody","schedule":{"every":"1s"},"overlap":"allow",
            "misfire":{"policy":"skip","threshold":"1s"}}"#;
        let missed = define(world, "e/missed", body).await?.job;
        fire(world, &missed, |_| true).await?;
        fire(world, &job, |_| true).await?;
        world.process("t1")?.kill().await?;
        let killed = now();
        // The fault itself: nobody decides for so long. The first two slots after it are late by 2 s and more, however soon t2 leads.
        sleep(Duration::from_secs(4)).await;
        world.ticker("t2", &[])?;
        let on_time = |fired: &Fired| {
            fired.scheduled_at > killed && fired.fired_at.since(fired.scheduled_at) < LATE
        };
        fire(world, &job, on_time).await?;
        let between = ["changed its leader: t1 (term", "t2 (term", "nobody decided"];
        let late: Vec<Fired> = fires(world, &job)
            .into_iter()
            .filter(|it| it.scheduled_at > killed && it.fired_at.since(it.scheduled_at) > LATE)
            .collect();
        ensure!(late.len() > 1, "only {} slots are late", late.len());
        for fired in &late {
            ended(world, fired).await?;
            let told = explain(world, &job, fired.scheduled_at).await?;
            told.is(&["ran_late"], &between)?;
            let delay_ms = told.field("start_delay_ms").as_u64().unwrap_or(0);
            ensure!(delay_ms > 1_000, "{delay_ms} ms");
        }
        let (first, skipped) = skip_after(world, &missed, SkipReason::Misfire, killed).await?;
        let SkippedWhat::Slots { last, .. } = skipped.what else { bail!("{skipped:?}") };
        for slot in [first, last] {
            explain(world, &missed, slot).await?.is(&["skipped"], &between)?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_a_frozen_leader_missed_are_told_to_be_missed_and_by_which_policy() -> Result<()>
{
    World::with(SETUP, async |world| {
        world.ticker("t1", &[])?;
        world.led().await?;
        let body = r#"{"task":"t","queue":"nobody","schedule":{"every":"1s"},"overlap":"allow",
            "misfire":{"policy":"skip","threshold":"1s"}}"#;
        let job = define(world, "e/job", body).await?.job;
        let before = fire(world, &job, |_| true).await?;
        world.process("t1")?.pause()?;
        // The fault itself: a machine that stands still for so long.
        sleep(Duration::from_secs(5)).await;
        world.process("t1")?.resume()?;
        let (slot, skipped) = skip(world, &job, SkipReason::Misfire).await?;
        let told = explain(world, &job, slot).await?;
        told.is(
            &["skipped"],
            &[r#""reason":"misfire""#, "skip: no missed slot fires", "after the slot"],
        )?;
        ensure!(told.field("leader")["node"] == "t1", "{:?}", told.field("leader"));
        let epoch = skipped.epoch.map(|epoch| epoch.0);
        ensure!(told.field("leader")["epoch"].as_u64() == epoch, "{:?}", told.field("leader"));
        ensure!(slot > before.scheduled_at, "{slot} is before {}", before.scheduled_at);
        Ok(())
    })
    .await
}
