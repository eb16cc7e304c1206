//! Commands: what a leader answers to each of them.
//!
//! Invariant: a command takes effect at its broker timestamp: the slots that its job owed by then are decided
//! first. It ends in a change of state, a run, or a `Rejected` with every fault; nothing else waits for it.

use std::sync::Arc;
use std::time::Duration;

use cronstream_schemas::command::{Cancel, Command, Trigger, Verb};
use cronstream_schemas::definition::{Draft as Definition, JobDefinition, Overlap, Schedule};
use cronstream_schemas::event::{
    Cause, Ended, JobState, LogEvent, Override, Rejected, RunEvent, SkipReason, Skipped,
    SkippedWhat, TriggerCause,
};
use cronstream_schemas::fault::{Fault, cut};
use cronstream_schemas::header;
use cronstream_schemas::id::{Incarnation, Revision, RunId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::trace::TraceContext;
use cronstream_schemas::verdict::{Outcome, Verdict};

use crate::behind::is_change;
use crate::definition;
use crate::draft::{Draft, Order, Progress};
use crate::live::OfJob;
use crate::overrides;
use crate::partition::PendingCommand;
use crate::plan::Plan;
use crate::position;
use crate::schedule::Zone;
use crate::turn::{APPENDS_MAX, COMMANDS_MAX, Reply, append, place};

/// Room that a command may need after its job's owed slots: a definition twice, and late slots.
const ROOM: (usize, usize) = (8, 1024 * 1024);
/// How many coming slots a verdict tells.
const NEXT_SLOTS: usize = 3;

impl Draft<'_> {
    /// Applies waiting commands in their order, until one must wait.
    pub(crate) fn apply_commands(&mut self) {
        let base = self.base;
        let position = base.position().due;
        for command in base.commands.iter().take(COMMANDS_MAX) {
            // Behind the position (another leader's clock was ahead), slots of a state that comes into force
            // would be past the position and not yet due: nobody would decide them.
            if command.at > self.now.wall || position > self.now.horizon() {
                self.plans.wake_at = Some(command.at.max(position));
                return;
            }
            if !self.has_room(ROOM.0, ROOM.1) || self.apply(command) == Progress::Full {
                return;
            }
            self.plans.commands_through = command.seq;
            self.plans.applied += 1;
        }
        if base.commands.len() <= COMMANDS_MAX {
            self.plans.commands_through = self.plans.commands_through.max(base.commands_seen);
        }
    }

    fn apply(&mut self, command: &PendingCommand) -> Progress {
        let (verb, job) = match self.settings.prefix.parse_command(&command.subject) {
            Ok(address) => address,
            Err(error) => {
                let expected = "publish to <prefix>.<verb>.<namespace>.<job>; a name is a letter or \
                    digit, then letters, digits, `_` or `-`, 64 bytes at most";
                let fault = Fault::new("$subject", &command.subject, error.to_string(), expected);
                return self.reject(command, None, vec![fault], None);
            }
        };
        let address = Some((verb, &job));
        match Command::decode(verb, &command.body) {
            Err(faults) => self.reject(command, address, faults, None),
            Ok(decoded) => {
                let again = is_change(verb) && self.changed.contains(&job);
                if again || self.waits_for_calendars(verb, &job) {
                    return Progress::Full;
                }
                match decoded {
                    Command::Define(draft) => self.define(command, &job, *draft),
                    Command::Delete => self.delete(command, &job),
                    Command::Pause => self.pause(command, &job),
                    Command::Resume => self.resume(command, &job),
                    Command::Trigger(trigger) => self.trigger(command, &job, trigger),
                    Command::Cancel(cancel) => self.cancel(command, &job, &cancel),
                    Command::Calendar(definition) => {
                        self.define_calendar(command, &job, *definition)
                    }
                    Command::CalendarDelete => self.delete_calendar(command, &job),
                    Command::Backfill(backfill) => self.backfill(command, &job, &backfill),
                    Command::Skip(skip) => self.skip_slot(command, &job, &skip),
                    Command::Shift(shift) => self.shift_slot(command, &job, &shift),
                }
            }
        }
    }

    /// Decides what `job` owes at the command's instant, and sees to room for the command itself.
    pub(crate) fn decide_before(&mut self, command: &PendingCommand, job: &JobId) -> Progress {
        let passed = self.passed(job);
        let before = self.changed.contains(job);
        match self.decide(job, Some(passed), command.at) {
            // A slot that was shifted to an earlier instant has written the job's state: one a batch.
            Progress::Done if before != self.changed.contains(job) => Progress::Full,
            Progress::Done if self.has_room(ROOM.0, ROOM.1) => Progress::Done,
            Progress::Done | Progress::Full => Progress::Full,
        }
    }

    /// The last slot of `job` that is decided. Where its outcome has vanished with its lifetime, the position
    /// tells of it.
    pub(crate) fn last_decided(&self, id: &JobId) -> Timestamp {
        self.job(id).map_or(Timestamp::MIN, |job| job.last_decided(self.passed(id)))
    }

    /// Up to which instant everything that was due of `job` is decided by the partition's position.
    pub(crate) fn passed(&self, id: &JobId) -> Timestamp {
        let paused = self.job(id).is_some_and(|job| job.state.paused.is_some());
        if paused || self.changed.contains(id) {
            return Timestamp::MIN;
        }
        position::decided_through(&self.base.position(), id)
    }

    /// Skips the slots that a state leaves undecided at its end, because their jitter has not passed yet.
    fn skip_undecided(&mut self, id: &JobId, through: Timestamp, reason: SkipReason) {
        let Some(job) = self.job(id) else { return };
        let state = Arc::clone(&job.state);
        let passed = self.passed(id);
        let (Some((plan, after)), Some(definition)) = (job.undecided(passed), &state.definition)
        else {
            return;
        };
        let (plan, after) = self.beyond_records(definition, plan.into_owned(), after, passed);
        for (_, range) in overrides::ranges(&state.overrides, &plan, after, through) {
            self.skip(&state, reason, range);
        }
    }

    fn define(&mut self, command: &PendingCommand, job: &JobId, draft: Definition) -> Progress {
        let address = Some((Verb::Define, job));
        let current =
            self.job(job).filter(|job| !job.is_deleted()).map(|job| Arc::clone(&job.state));
        if let Some(fault) = unexpected(command, current.as_ref().map(|state| state.revision)) {
            return self.reject(command, address, vec![fault], None);
        }
        let definition = match definition::check(draft, job, &self.base.calendars) {
            Ok(definition) => definition,
            // A calendar that its sender knew to be accepted may be in the log and not yet in the fold.
            Err(faults) if names_calendars(&faults) && !self.has_read_log(command) => {
                return Progress::Full;
            }
            Err(faults) => return self.reject(command, address, faults, None),
        };
        let unknown = definition::unknown_calendars(&definition, &self.base.calendars);
        if !unknown.is_empty() {
            if !self.has_read_log(command) {
                return Progress::Full;
            }
            return self.reject(command, address, unknown, None);
        }
        let before = current.as_ref().and_then(|state| state.definition.as_ref());
        if let Some(fault) = definition::past(&definition, job, before, command.at) {
            return self.reject(command, address, vec![fault], None);
        }
        if self.decide_before(command, job) == Progress::Full {
            return Progress::Full;
        }
        if self.hold_undecided(job, command.at) == Progress::Full
            || !self.has_room(ROOM.0 + self.room_to_skip(job), ROOM.1)
        {
            return Progress::Full;
        }
        // A new life owes nothing of a former one, and nothing of it is decided.
        let effective_after = match current {
            Some(_) => self.decided_regularly(job, command.at),
            None => command.at,
        };
        let anchor = anchor(&definition, command, current.as_deref());
        let plan = Plan::compile(&definition, job, anchor, &self.base.calendars).ok();
        let before = current.as_ref().map_or(&[][..], |state| &state.overrides);
        let state = JobState {
            job: job.clone(),
            revision: Revision(command.seq),
            incarnation: current
                .as_ref()
                .map_or(Incarnation(command.seq), |state| state.incarnation),
            anchor,
            effective_after,
            paused: current.as_ref().and_then(|state| state.paused),
            overrides: overrides::kept(before, plan.as_ref(), effective_after, command.at).into(),
            tzdb: Some(Arc::new(Zone::tzdb_version().to_owned())),
            definition: Some(definition),
            command: command.seq,
            at: command.at,
        };
        self.emit(LogEvent::JobRevised(state.clone()));
        self.emit(LogEvent::JobDefined(state.clone()));
        if state.paused.is_none() {
            self.decide_at_once(job, command.seq);
        }
        self.accept(command, Verb::Define, job)
    }

    fn delete(&mut self, command: &PendingCommand, job: &JobId) -> Progress {
        let Some(state) = self.existing(job) else {
            return self.reject_missing(command, Verb::Delete, job);
        };
        if self.decide_before(command, job) == Progress::Full {
            return Progress::Full;
        }
        if !self.has_room(ROOM.0 + self.room_to_end(job), ROOM.1) {
            return Progress::Full;
        }
        self.end_all_held(job, SkipReason::Deleted);
        self.skip_undecided(job, command.at, SkipReason::Deleted);
        let next = self.changed_state(&state, command, None, None);
        self.emit(LogEvent::JobDeleted(next));
        self.accept(command, Verb::Delete, job)
    }

    fn pause(&mut self, command: &PendingCommand, job: &JobId) -> Progress {
        let Some(state) = self.existing(job) else {
            return self.reject_missing(command, Verb::Pause, job);
        };
        if state.paused.is_none() {
            if self.decide_before(command, job) == Progress::Full {
                return Progress::Full;
            }
            if !self.has_room(ROOM.0 + self.room_to_end(job), ROOM.1) {
                return Progress::Full;
            }
            self.end_all_held(job, SkipReason::Paused);
            self.skip_undecided(job, command.at, SkipReason::Paused);
            let next =
                self.changed_state(&state, command, state.definition.clone(), Some(command.at));
            self.emit(LogEvent::JobPaused(next));
        }
        self.accept(command, Verb::Pause, job)
    }

    fn resume(&mut self, command: &PendingCommand, job: &JobId) -> Progress {
        let Some(state) = self.existing(job) else {
            return self.reject_missing(command, Verb::Resume, job);
        };
        if state.paused.is_some() {
            let mut next = self.changed_state(&state, command, state.definition.clone(), None);
            next.effective_after = self.job(job).map_or(command.at, |job| job.decided_through);
            self.emit(LogEvent::JobResumed(next));
            self.decide_at_once(job, command.seq);
        }
        self.accept(command, Verb::Resume, job)
    }

    fn trigger(&mut self, command: &PendingCommand, job: &JobId, trigger: Trigger) -> Progress {
        let Some(state) = self.existing(job) else {
            return self.reject_missing(command, Verb::Trigger, job);
        };
        let Some(definition) = state.definition.as_ref() else { return Progress::Done };
        let address = Some((Verb::Trigger, job));
        if let Some((key, run)) =
            trigger.key.as_deref().and_then(|key| Some((key, self.known_key(&state, key)?)))
        {
            let fault = Fault::new("$.key", key, "this key has already made a run", "a new key");
            return self.reject(command, address, vec![fault], Some(run));
        }
        if self.settings.hold {
            let expected = "release the cluster (`cronstream release`), then trigger again";
            let fault = Fault::new("$", "", "the cluster is on hold and fires nothing", expected);
            return self.reject(command, address, vec![fault], None);
        }
        if state.paused.is_none() && self.decide_before(command, job) == Progress::Full {
            return Progress::Full;
        }
        let traceparent = command.traceparent.as_ref().and_then(|text| text.parse().ok());
        let cause = TriggerCause {
            command: command.seq,
            key: trigger.key,
            traceparent: traceparent.map(|context: TraceContext| context.to_string()),
        };
        let skip = definition.overlap == Overlap::Skip;
        if skip && self.is_live(job) {
            self.emit(LogEvent::Skipped(Skipped {
                job: job.clone(),
                revision: state.revision,
                incarnation: state.incarnation,
                reason: SkipReason::Overlap,
                what: SkippedWhat::Trigger(cause),
                at: self.now.wall,
                epoch: Some(self.epoch),
                node: self.node(),
                backfill: None,
            }));
            let outcome = Outcome::Skipped { reason: SkipReason::Overlap };
            return self.reply(command, address, outcome);
        }
        let params = trigger.params.as_ref().unwrap_or(&definition.params);
        if let Some(fault) = self.trigger_fault(job, definition, params) {
            return self.reject(command, address, vec![fault], None);
        }
        let cause = Cause::Trigger(cause);
        let order = Order { cause, scheduled_at: command.at, params: trigger.params };
        let fired = self.fired(&state, definition, order);
        let run = fired.run;
        self.emit(LogEvent::Fired(fired));
        self.reply(command, address, Outcome::Fired { run })
    }

    fn cancel(&mut self, command: &PendingCommand, job: &JobId, cancel: &Cancel) -> Progress {
        let base = self.base;
        let shards = base.live.of(job).map_or(&[][..], OfJob::shards).iter();
        let live: Vec<_> = shards.filter(|shard| shard.run == cancel.run).collect();
        if live.is_empty() {
            return self.cancelled(command, job, cancel.run);
        }
        for id in live {
            let shard = base.shards.get(id).filter(|_| !base.ending.contains(id));
            if let Some(shard) = shard.filter(|_| self.plans.appends.len() < APPENDS_MAX) {
                let ended =
                    Ended { place: place(shard), epoch: self.epoch, command: Some(command.seq) };
                self.plans.appends.push(append(shard, RunEvent::Cancelled(ended)));
            }
        }
        Progress::Full
    }

    fn cancelled(&mut self, command: &PendingCommand, job: &JobId, run: RunId) -> Progress {
        let address = Some((Verb::Cancel, job));
        if self.base.cancelled.get(&command.seq) == Some(&run) {
            return self.reply(command, address, Outcome::Cancelled { run });
        }
        let expected = "the id of a run of this job that has no result yet";
        let fault = Fault::new("$.run", &run.to_string(), "no such live run", expected);
        self.reject(command, address, vec![fault], None)
    }

    pub(crate) fn existing(&self, job: &JobId) -> Option<Arc<JobState>> {
        self.job(job).filter(|job| !job.is_deleted()).map(|job| Arc::clone(&job.state))
    }

    fn changed_state(
        &self,
        state: &JobState,
        command: &PendingCommand,
        definition: Option<JobDefinition>,
        paused: Option<Timestamp>,
    ) -> JobState {
        let decided = self.last_decided(&state.job);
        let stays = |it: &&Override| {
            let after = if it.is_done() { decided.min(command.at) } else { decided };
            definition.is_some() && it.slot > after
        };
        JobState {
            overrides: state.overrides.iter().filter(stays).copied().collect(),
            definition,
            paused,
            effective_after: decided.max(command.at),
            command: command.seq,
            at: command.at,
            ..state.clone()
        }
    }

    fn accept(&mut self, command: &PendingCommand, verb: Verb, job: &JobId) -> Progress {
        let Some(entry) = self.job(job) else { return Progress::Done };
        let mut next = Vec::new();
        let jitter = entry.plan.as_ref().map_or(Duration::ZERO, Plan::jitter);
        let mut after = self.now.horizon();
        while let Some(slot) = entry.next_slot(after).filter(|_| next.len() < NEXT_SLOTS) {
            next.push(slot);
            after = slot.plus(jitter);
        }
        let state = &entry.state;
        let warned = state.definition.as_ref().filter(|_| verb == Verb::Define);
        let warnings = warned.map(|it| definition::warnings(it, job, command.at));
        let outcome = Outcome::Accepted {
            revision: state.revision,
            next,
            warnings: warnings.unwrap_or_default(),
        };
        self.reply(command, Some((verb, job)), outcome)
    }

    pub(crate) fn reject_missing(
        &mut self,
        command: &PendingCommand,
        verb: Verb,
        job: &JobId,
    ) -> Progress {
        let expected = "the namespace and name of a job that is defined";
        let fault = Fault::new("$subject", &job.to_string(), "no such job", expected);
        self.reject(command, Some((verb, job)), vec![fault], None)
    }

    pub(crate) fn reject(
        &mut self,
        command: &PendingCommand,
        address: Option<(Verb, &JobId)>,
        faults: Vec<Fault>,
        duplicate_of: Option<RunId>,
    ) -> Progress {
        self.emit(LogEvent::Rejected(Rejected {
            command: command.seq,
            subject: cut(&command.subject),
            job: address.map(|(_, job)| job.clone()),
            verb: address.map(|(verb, _)| verb),
            faults: faults.clone(),
            duplicate_of,
            at: self.now.wall,
        }));
        self.reply(command, address, Outcome::Rejected { faults, duplicate_of })
    }

    pub(crate) fn reply(
        &mut self,
        command: &PendingCommand,
        address: Option<(Verb, &JobId)>,
        outcome: Outcome,
    ) -> Progress {
        if let Some(inbox) = command.reply.clone() {
            let verdict = Verdict {
                command: command.seq,
                job: address.map(|(_, job)| job.clone()),
                verb: address.map(|(verb, _)| verb),
                outcome,
            };
            self.plans.replies.push(Reply { inbox, verdict });
        }
        Progress::Done
    }
}

/// The fault of a command that was sent for another revision than the one in force.
pub(crate) fn unexpected(command: &PendingCommand, current: Option<Revision>) -> Option<Fault> {
    let expected = command.expected_revision.as_deref()?;
    let path = format!("$header.{}", header::EXPECTED_REVISION);
    let in_force = current.map_or(0, |revision| revision.0);
    match expected.parse::<u64>() {
        Ok(revision) if revision == in_force => None,
        Ok(_) => {
            let right = format!("{in_force} is in force; read the job again and decide anew");
            Some(Fault::new(path, expected, "another revision is in force", right))
        }
        Err(_) => {
            let right = "the number of the revision in force, or 0 for what must not exist yet";
            Some(Fault::new(path, expected, "not a revision", right))
        }
    }
}

/// Whether a definition was refused for the calendars that it names.
fn names_calendars(faults: &[Fault]) -> bool {
    faults.iter().any(|fault| fault.path.starts_with("$.calendars"))
}

/// An interval keeps its anchor for as long as the job lives and the interval stays the same.
fn anchor(
    definition: &JobDefinition,
    command: &PendingCommand,
    current: Option<&JobState>,
) -> Timestamp {
    match (current, &*definition.schedule) {
        (Some(state), Schedule::Every(_))
            if state.definition.as_ref().is_some_and(|old| old.schedule == definition.schedule) =>
        {
            state.anchor
        }
        (Some(_) | None, _) => command.at,
    }
}
