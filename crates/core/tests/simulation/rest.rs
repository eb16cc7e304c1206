//! The end of a run: the faults stop, and everything that was begun has to come to its end.
//!
//! Invariant: from rest on nothing is left to chance, so a world that does not come to rest is stuck.

use std::collections::BTreeSet;
use std::time::Duration;

use cronstream_schemas::command::{Command, Verb};
use cronstream_schemas::event::RunEvent;
use cronstream_schemas::id::ShardId;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;

use crate::checker::ShardHistory;
use crate::executor::{ExecutorMove, calm_moves};
use crate::folds;
use crate::slots::{between, fixed_delay, jitter};
use crate::ticker::{Role, TickerMove};
use crate::world::{Fate, Left, MAX_CLOCK_ERROR, Move, Script, World};

/// The most rounds at one instant until nothing moves any more.
const ROUNDS_MAX: usize = 100;
/// The most requests that are delivered in a round.
const REQUESTS_MAX: usize = 1_000;
/// How long back-offs and redeliveries may take, in seconds.
const PATIENCE_SECS: u64 = 30;

/// Lets a world come to rest and checks what must be true then.
pub(crate) fn come_to_rest(world: &mut World) -> Result<(), String> {
    world.left = Left { takeovers: u16::MAX, ..Left::default() };
    world.tickers.iter_mut().for_each(|ticker| ticker.offset = 0);
    world.log.poison = false;
    world.release();
    let (fair, began) = (in_time(world), world.now);
    calm(world)?;
    slots_are_decided(world)?;
    wait(world, Duration::from_secs(5))?;
    slots_are_decided(world)?;
    for n in 0..world.config.jobs.len() {
        world.announce(&Script::Plain(Verb::Delete, n));
    }
    for _ in 0..PATIENCE_SECS {
        wait(world, Duration::from_secs(1))?;
        if world.checker.shards.values().all(|shard| shard.ended) {
            break;
        }
    }
    for id in fair {
        let last = &world.checker.shards[&id].last;
        let found = match last {
            Some((_, _, RunEvent::Expired(_) | RunEvent::Lost(_))) | None => false,
            Some((_, _, event)) => event.is_terminal(),
        };
        if !found {
            return Err(format!("{id} is stuck behind {last:?}"));
        }
    }
    let live = world.checker.shards.values().filter(|shard| !shard.ended);
    let hard_end = live.filter(|shard| !is_vanished(shard, world.now));
    if let Some(hard_end) = hard_end.map(|shard| shard.fired.run_by).max() {
        wait(world, hard_end.since(world.now) + Duration::from_secs(1))?;
    }
    check_end(world, began)
}

/// Shards whose time is not up while the world comes to rest: they must get a result.
fn in_time(world: &World) -> BTreeSet<ShardId> {
    let by = world.now.plus(Duration::from_secs(2 * PATIENCE_SECS));
    let live = world.checker.shards.iter().filter(|(_, shard)| !shard.ended);
    let fair = live.filter(|(_, shard)| {
        let started = shard.last.is_some();
        shard.fired.run_by > by && (started || shard.fired.start_by > by)
    });
    fair.map(|(id, _)| *id).collect()
}

fn wait(world: &mut World, long: Duration) -> Result<(), String> {
    world.now = world.now.plus(long);
    calm(world)
}

fn calm(world: &mut World) -> Result<(), String> {
    let mut quiet = 0;
    for _ in 0..ROUNDS_MAX {
        let before = world.key();
        round(world)?;
        // A leader that has read a history goes on in its next turn, and the key does not tell of it.
        quiet = if world.key() == before && world.net.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 {
            return Ok(());
        }
    }
    Err(format!("it never calms down: {:?}", world.net))
}

fn round(world: &mut World) -> Result<(), String> {
    for _ in 0..REQUESTS_MAX {
        let Some(request) = world.net.first().map(|request| request.id) else { break };
        world.step(Move::Deliver(request, Fate::Arrives))?;
    }
    while let Some(request) = world.answers.first().map(|answer| answer.request) {
        world.step(Move::LateAnswer(request))?;
    }
    let is_free = |n: &usize| world.tickers[*n].role == Role::Following;
    let next = (0..world.tickers.len()).find(is_free).filter(|_| !leads(world));
    if let Some(n) = next {
        world.step(Move::Ticker(n, TickerMove::TakeOver))?;
    }
    for n in 0..world.tickers.len() {
        let followed = [TickerMove::FollowLog, TickerMove::FollowRuns, TickerMove::FollowCommands];
        let mut moves = followed.map(|step| Move::Ticker(n, step)).to_vec();
        world.ticker_moves(n, &mut moves);
        for step in moves {
            match step {
                Move::Ticker(
                    _,
                    TickerMove::TakeOver | TickerMove::StepDown | TickerMove::Crash,
                ) => {}
                Move::Ticker(..) => world.step(step)?,
                _other_node => {}
            }
        }
    }
    let lost: Vec<u64> = world.queue.delivered().collect();
    for seq in lost {
        if !world.executors.iter().any(|executor| executor.holds(seq)) {
            world.step(Move::Redeliver(seq))?;
        }
    }
    for n in 0..world.executors.len() {
        let ready: Vec<u64> = world.queue.ready().collect();
        for seq in ready {
            world.step(Move::Executor(n, ExecutorMove::Pull(seq)))?;
        }
        for step in calm_moves(world, n) {
            world.step(step)?;
        }
    }
    Ok(())
}

/// Whether somebody leads whose cursor is the last one, or is about to.
fn leads(world: &World) -> bool {
    let last = world.log.cursor().map_or(0, |(seq, _)| *seq);
    world.tickers.iter().any(|ticker| match ticker.role {
        Role::Following => false,
        Role::TakingOver => true,
        Role::Leading => ticker.fold.cursor_seq() == last,
    })
}

/// Every slot of every job that is due by now has its outcome, or waits.
fn slots_are_decided(world: &World) -> Result<(), String> {
    for (id, job) in &world.checker.jobs {
        let ends = job.states.iter().skip(1).map(|next| Some(next.effective_after)).chain([None]);
        for (state, end) in job.states.iter().zip(ends) {
            if end.is_none() && state.paused.is_some() || fixed_delay(state).is_some() {
                continue;
            }
            let first = state.effective_after.plus(Duration::from_millis(1));
            for slot in between(state, first, end.unwrap_or(world.now.minus(jitter(state)))) {
                let slot = (state.incarnation, slot);
                if !(job.decided.contains(&slot) || job.held.contains(&slot)) {
                    return Err(format!("{id}: slot {} has no outcome", slot.1));
                }
            }
        }
    }
    Ok(())
}

/// Nothing waits any more, and nothing that was asked to run again is left.
fn nothing_waits(world: &World) -> Result<(), String> {
    for (id, job) in &world.checker.jobs {
        if let Some(slot) = job.held.difference(&job.decided).next() {
            return Err(format!("{id}: slot {} waits for ever", slot.1));
        }
        if let Some(slot) = job.asked.difference(&job.answered).next() {
            return Err(format!("{id}: slot {} of backfill {} waits for ever", slot.1, slot.0));
        }
    }
    Ok(())
}

fn check_end(world: &World, began: Timestamp) -> Result<(), String> {
    slots_are_decided(world)?;
    nothing_waits(world)?;
    for (id, shard) in &world.checker.shards {
        if is_vanished(shard, began) {
            continue;
        }
        let letters = world.dead.get(id).copied().unwrap_or(0);
        if !shard.ended || letters != u32::from(shard.failed) {
            let (last, failed) = (&shard.last, shard.failed);
            return Err(format!("{id} ended: {last:?}, failed: {failed}, {letters} dead letters"));
        }
    }
    let through = world.checker.cursor.as_ref().map_or(0, |cursor| cursor.commands_through);
    for (command, foreign) in world.commands.iter().zip(&world.foreign) {
        let must = Prefix::default().parse_command(&command.subject).is_ok_and(|(verb, _)| {
            let decoded = Command::decode(verb, &command.body);
            matches!(decoded, Ok(Command::Define(_) | Command::Delete | Command::Trigger(_)))
        });
        let done = world.checker.effects.contains(&command.seq) && command.seq <= through;
        if must && !foreign && !done {
            return Err(format!("command {} of {} was lost", command.seq, command.subject));
        }
    }
    let Some(leader) = world.tickers.iter().find(|ticker| ticker.role == Role::Leading) else {
        return Err("nobody leads".into());
    };
    for (id, job) in leader.fold.jobs() {
        let last = world.checker.jobs[id].states.last().map(|state| state.command);
        if Some(job.state.command) != last {
            return Err(format!("{id}: the leader has {}, not {last:?}", job.state.command));
        }
    }
    folds::are_equal(world, &leader.fold)
}

/// Whether a shard's events were gone before the world came to rest: no ticker worked for its retention.
fn is_vanished(shard: &ShardHistory, began: Timestamp) -> bool {
    shard.fired.keep_until <= began.plus(MAX_CLOCK_ERROR)
}
