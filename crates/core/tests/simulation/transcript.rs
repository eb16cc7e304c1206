//! What went wrong, as short as it can be told: moves that are not needed are left out.

use std::fmt::Write;

use cronstream_schemas::event::{JobState, LogEvent, Place};
use cronstream_schemas::id::ShardId;

use crate::rest::come_to_rest;
use crate::world::{Move, World};

/// A run that broke a guarantee.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) begin: World,
    pub(crate) moves: Vec<Move>,
    pub(crate) broken: String,
}

impl Failed {
    /// The shortest transcript that can be found by leaving out moves one at a time.
    pub(crate) fn tell(self) -> String {
        let Self { begin, mut moves, broken } = self;
        let mut told = broken;
        let mut size = moves.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < moves.len() {
                let mut fewer = moves.clone();
                fewer.drain(at..(at + size).min(moves.len()));
                match replay(&begin, &fewer) {
                    Err((used, broken)) => {
                        fewer.truncate(used);
                        moves = fewer;
                        told = broken;
                    }
                    Ok(()) => at += size,
                }
            }
            if size == 1 {
                break;
            }
            size = size.div_ceil(2);
        }
        let mut text = format!("{told}\n");
        let mut world = begin;
        for step in &moves {
            let heads = (world.log.head(), world.runs.head());
            let broken = world.step(*step).is_err();
            writeln!(text, "{} {step:?}", world.now).expect("a String takes all");
            tell_stored(&mut text, &world, heads);
            if broken {
                return text;
            }
        }
        let heads = (world.log.head(), world.runs.head());
        let _broken = come_to_rest(&mut world);
        writeln!(text, "rest until {}", world.now).expect("a String takes all");
        tell_stored(&mut text, &world, heads);
        text
    }
}

fn tell_stored(text: &mut String, world: &World, (log, runs): (u64, u64)) {
    let after = |seq| usize::try_from(seq).expect("an index");
    for message in world.log.all().skip(after(log)) {
        let told = tell_log(&message.event);
        writeln!(text, "    {} log {} {told}", message.at, message.seq)
            .expect("a String takes all");
    }
    for message in world.runs.all().skip(after(runs)) {
        let (event, shard) = (&message.event, short(message.key.shard));
        let Place { fire_no, delivery, attempt } = event.place();
        let kind = event.kind();
        writeln!(
            text,
            "    {} run {} {shard} {kind} {fire_no}.{delivery}.{attempt}",
            message.at, message.seq
        )
        .expect("a String takes all");
    }
}

/// The end of a run's id is enough to know it by.
pub(crate) fn short(shard: ShardId) -> String {
    let text = shard.run.to_string();
    format!("..{}", &text[text.len() - 6..])
}

fn tell_log(event: &LogEvent) -> String {
    let state = |kind: &str, state: &JobState| {
        let (revision, after) = (state.revision.0, state.effective_after);
        let schedule = state.definition.as_ref().map(|definition| &definition.schedule);
        format!("{kind} {} r{revision} after {after} {schedule:?}", state.job)
    };
    match event {
        LogEvent::JobDefined(e) => state("defined", e),
        LogEvent::JobPaused(e) => state("paused", e),
        LogEvent::JobResumed(e) => state("resumed", e),
        LogEvent::JobDeleted(e) => state("deleted", e),
        LogEvent::JobOverridden(e) => state("overridden", e),
        LogEvent::CalendarDefined(e)
        | LogEvent::CalendarDeleted(e)
        | LogEvent::CalendarRevised(e) => format!("calendar {} r{}", e.calendar, e.revision.0),
        LogEvent::JobRevised(e) => format!("revised {} r{}", e.job, e.revision.0),
        LogEvent::Fired(e) => {
            let (shard, end) = (short(e.shard_id()), e.run_by);
            format!("fired {} {shard}.{} {:?} until {end}", e.job, e.fire_no, e.cause)
        }
        LogEvent::Held(e) => {
            let range = e.range.as_ref().map(|it| (&it.id, it.left, it.through));
            format!("held {} r{} {} {:?} {range:?}", e.job, e.revision.0, e.slot, e.why)
        }
        LogEvent::HeldEnded(e) => format!("held ended {} {} {:?}", e.job, e.slot, e.range),
        LogEvent::Skipped(e) => {
            let (reason, what, backfill) = (e.reason, &e.what, e.backfill);
            format!("skipped {} r{} {reason:?} {what:?} {backfill:?}", e.job, e.revision.0)
        }
        LogEvent::Rejected(e) => format!("rejected {:?}", e.faults),
        LogEvent::Cursor(e) => {
            let (epoch, tick, node, due) = (e.epoch.0, e.tick.0, &e.node, e.position.due);
            let (commands, dead) = (e.commands_through, e.dead_through);
            format!("cursor {epoch}.{tick} {node} at {due} commands {commands} dead {dead}")
        }
        LogEvent::Meta(e) => format!("{e:?}"),
    }
}

fn replay(begin: &World, moves: &[Move]) -> Result<(), (usize, String)> {
    let mut world = begin.clone();
    for (done, step) in moves.iter().enumerate() {
        world.step(*step).map_err(|broken| (done + 1, broken))?;
    }
    come_to_rest(&mut world).map_err(|broken| (moves.len(), broken))
}
