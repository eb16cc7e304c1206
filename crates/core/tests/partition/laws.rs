//! Laws that hold in every case: of each batch, of the whole log, and of every way to fold it.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use cronstream_core::message::envelope;
use cronstream_core::partition::Partition;
use cronstream_core::turn::{Batch, Now, Settings};
use cronstream_schemas::event::{Cause, Cursor, Event, Fired, LogEvent, SkippedWhat};
use cronstream_schemas::id::Partition as Number;
use cronstream_schemas::json::Json;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::world::World;

const MESSAGES_MAX: usize = 1_000;
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
const EVENT_BYTES_MAX: usize = 512 * 1024;

/// What the store and its readers demand of a batch.
pub(crate) fn check_batch(world: &World, batch: &Batch) {
    let cursors = (1_u64..).zip(&world.log).filter_map(|(seq, event)| match event {
        LogEvent::Cursor(cursor) => Some((seq, cursor)),
        _ => None,
    });
    let (seq, before) = cursors.last().expect("a leader has a cursor");
    let after = &batch.cursor;
    assert_eq!(batch.cursor_expected, seq);
    assert_eq!((after.epoch, after.tick.0), (before.epoch, before.tick.0 + 1));
    assert_eq!((&after.holder, after.partition), (&before.holder, before.partition));
    let place = |c: &Cursor| (c.position.due, c.position.job.is_none(), c.position.job.clone());
    assert!(place(after) >= place(before), "{before:?} {after:?}");
    assert!(after.position.due <= before.position.due.max(world.clock().horizon()));
    assert!(after.commands_through >= before.commands_through);
    assert!(after.dead_through >= before.dead_through);

    assert!(batch.events.len() < MESSAGES_MAX);
    let mut bytes = LogEvent::Cursor(after.clone()).encode().len();
    let mut ids = HashSet::new();
    let mut subjects: BTreeMap<String, bool> = BTreeMap::new();
    for planned in &batch.events {
        assert_eq!(planned.body, planned.event.encode());
        assert!(planned.body.len() <= EVENT_BYTES_MAX, "{} bytes", planned.body.len());
        let envelope = envelope(&world.settings.prefix, &planned.event, world.now);
        let headers: usize = envelope.headers.iter().map(|(name, v)| name.len() + v.len()).sum();
        let id = envelope.message_id.as_ref().map_or(0, String::len);
        bytes += planned.body.len() + envelope.subject.len() + headers + id + 128;
        let before = subjects.insert(envelope.subject.clone(), envelope.rollup);
        let clash = before.is_some_and(|before| before || envelope.rollup);
        assert!(!clash, "{} is rolled up and written in one batch", envelope.subject);
        if let Some(id) = envelope.message_id {
            assert!(ids.insert(id.clone()), "{id} stands twice in a batch");
        }
    }
    assert!(bytes <= BATCH_BYTES_MAX, "{bytes} bytes");
}

/// Every slot has one outcome at most, and every fire is ordered once.
pub(crate) fn check_log(world: &World) {
    let mut outcomes: BTreeMap<_, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    let mut fires = HashSet::new();
    let mut revised = None;
    for event in &world.log {
        match event {
            LogEvent::Fired(fired) => {
                assert!(fires.insert(fired.id()), "{} was fired twice", fired.id());
                let (slot, backfill) = match &fired.cause {
                    Cause::Slot(slot) => (*slot, None),
                    Cause::Backfill(it) => (it.slot, Some(it.command)),
                    Cause::Trigger(_) => continue,
                };
                if fired.fire_no == 1 {
                    let key = (fired.job.clone(), fired.incarnation, backfill);
                    outcomes.entry(key).or_default().push((slot, slot));
                }
            }
            LogEvent::Skipped(skipped) => {
                if let SkippedWhat::Slots { first, last, .. } = skipped.what {
                    let key = (skipped.job.clone(), skipped.incarnation, skipped.backfill);
                    outcomes.entry(key).or_default().push((first, last));
                }
            }
            LogEvent::JobRevised(state) => revised = Some(state.clone()),
            LogEvent::JobDefined(state) => {
                assert_eq!(Some(state), revised.as_ref(), "history keeps every revision");
            }
            LogEvent::JobPaused(_) | LogEvent::JobResumed(_) | LogEvent::JobDeleted(_) => {}
            LogEvent::Held(_) | LogEvent::HeldEnded(_) | LogEvent::Rejected(_) => {}
            LogEvent::JobOverridden(_)
            | LogEvent::CalendarDefined(_)
            | LogEvent::CalendarDeleted(_)
            | LogEvent::CalendarRevised(_) => {}
            LogEvent::Cursor(_) | LogEvent::Meta(_) => {}
        }
    }
    for ((job, incarnation, _), mut ranges) in outcomes {
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            assert!(pair[0].1 < pair[1].0, "{job} life {}: {pair:?}", incarnation.0);
        }
    }
}

/// The streams fold to the leader's state: whole, runs first, in overlapping parts, each event twice, and
/// from the last run event of each shard alone.
pub(crate) fn check_folds(world: &World) {
    let leader = digest(world, world.leader.clone());
    let fresh = || Partition::new(Number(0));

    let mut whole = fresh();
    world.fold_log(&mut whole);
    world.fold_runs(&mut whole);
    assert_eq!(digest(world, whole), leader, "log, then runs");

    let mut runs_first = fresh();
    world.fold_runs(&mut runs_first);
    world.fold_log(&mut runs_first);
    assert_eq!(digest(world, runs_first), leader, "runs, then log");

    let mut parts = fresh();
    for (from, to) in [(0, 3), (1, 4)] {
        let part = |len: usize| len * from / 4..len * to / 4;
        for record in &world.runs[part(world.runs.len())] {
            parts.apply_run(record.seq, record.at, &record.key, &record.event);
        }
        let range = part(world.log.len());
        for (seq, event) in (range.start as u64 + 1..).zip(&world.log[range]) {
            parts.apply_log(seq, event);
        }
    }
    assert_eq!(digest(world, parts), leader, "two overlapping parts");

    let mut twice = fresh();
    for (seq, event) in (1..).zip(&world.log) {
        twice.apply_log(seq, event);
        twice.apply_log(seq, event);
    }
    for record in &world.runs {
        twice.apply_run(record.seq, record.at, &record.key, &record.event);
        twice.apply_run(record.seq, record.at, &record.key, &record.event);
    }
    assert_eq!(digest(world, twice), leader, "each event twice");

    let mut last = BTreeMap::new();
    for record in &world.runs {
        last.insert(record.key.shard, record);
    }
    let mut last_only = fresh();
    for record in last.values() {
        last_only.apply_run(record.seq, record.at, &record.key, &record.event);
    }
    world.fold_log(&mut last_only);
    assert_eq!(digest(world, last_only), leader, "the last event of each shard");
}

/// Runs of a job with the same params share one allocation, with its definition if it has the same; what they hold
/// besides is counted.
pub(crate) fn check_sharing(partition: &Partition) {
    let mut own: BTreeMap<(&JobId, &str), &Json> = BTreeMap::new();
    for shard in partition.shards() {
        let Fired { job, params, .. } = &*shard.fired;
        let state = partition.job(job).map(|job| &job.state);
        let definition = state.and_then(|state| state.definition.as_ref());
        let one = match definition.map(|definition| &definition.params) {
            Some(of_definition) if of_definition == params => of_definition,
            Some(_) | None => own.entry((job, params.as_str())).or_insert(params),
        };
        assert!(one.is_same(params), "{job}: {} is not shared", shard.fired.id());
    }
    let bytes: usize = own.keys().map(|(_, text)| text.len()).sum();
    assert_eq!(partition.own_params_bytes(), bytes, "bytes of own params");
}

/// What a partition shows, and what it would do as a leader a day later.
fn digest(world: &World, mut partition: Partition) -> String {
    partition.follow();
    check_sharing(&partition);
    let mut jobs: Vec<_> = partition
        .jobs()
        .map(|(id, job)| format!("{id} {:?} {}", job.state, job.decided_through))
        .collect();
    jobs.sort_unstable();
    // A leader drops a run whose records are gone at its next turn, a standby when it leads.
    let kept = partition.shards().filter(|shard| shard.fired.keep_until >= world.now);
    let mut shards: Vec<_> =
        kept.map(|shard| format!("{:?} {:?}", shard.fired, shard.last)).collect();
    shards.sort_unstable();
    let dead: Vec<_> = partition.dead().map(|(seq, dead)| (seq, dead.clone())).collect();
    for (seq, dead) in dead {
        assert_eq!(world.dead.get(&dead.key.shard), Some(&dead.letter), "re-derived dead letter");
        partition.dead_written(seq);
    }
    let seen = (partition.cursor().cloned(), partition.cursor_seq(), partition.log_through());
    partition.lead();
    partition.saw_commands(world.commands.len() as u64);
    let wall = world.now.plus(Duration::from_secs(86_400));
    let settings = Settings { hold: false, ..world.settings.clone() };
    let turn = partition.turn(Now { wall, limit: Timestamp::MAX }, &settings, true);
    format!("{jobs:#?}\n{shards:#?}\n{seen:#?}\n{turn:#?}")
}
