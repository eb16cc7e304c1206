//! Commands for calendars, which jobs of every partition share: accepted by the partition that owns the calendar.
//!
//! ```text
//!   calendar, calendar-delete ─► owner's leader ─► CalendarRevised, CalendarDefined ─► every partition's fold
//!   JobDefined of any partition ─────────────────► uses of the owner's fold
//! ```
//!
//! Invariant: a calendar command is decided on a fold that has read the log to its head after the command was
//! read, and on what the calendar commands before it in its batch leave: what its sender knew to be accepted is
//! known here too. Only what is decided at the same instant by another leader may be missed; days that are missing
//! for that reason hold slots, they never fire them.

use std::collections::BTreeSet;

use cronstream_schemas::calendar::{CalendarDefinition, CalendarId};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{CalendarState, LogEvent};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::id::Revision;
use cronstream_schemas::name::JobId;
use cronstream_schemas::verdict::Outcome;

use crate::apply::unexpected;
use crate::calendar::Calendars;
use crate::draft::{Draft, Progress};
use crate::partition::PendingCommand;
use crate::uses;

/// How many users of a calendar a rejection names.
const USERS_NAMED: usize = 3;

impl Draft<'_> {
    /// The calendars as this batch leaves them.
    pub(crate) fn calendars(&self) -> &Calendars {
        self.calendars.as_ref().map_or(&self.base.calendars, |(calendars, _)| calendars)
    }

    /// Whether a calendar was changed in this batch.
    pub(crate) fn has_changed_calendar(&self, is_it: impl Fn(&CalendarId) -> bool) -> bool {
        self.calendars.as_ref().is_some_and(|(_, changed)| changed.iter().any(is_it))
    }

    /// Puts a version of a calendar in force.
    pub(crate) fn define_calendar(
        &mut self,
        command: &PendingCommand,
        id: &CalendarId,
        definition: CalendarDefinition,
    ) -> Progress {
        if !self.has_read_log(command) {
            return Progress::Full;
        }
        let current = self.calendars().get(id).map(|state| state.revision);
        let address = Some((Verb::Calendar, id));
        if let Some(fault) = unexpected(command, current) {
            return self.reject(command, address, vec![fault], None);
        }
        if let Err(faults) = self.calendars().check(id, &definition) {
            return self.reject(command, address, faults, None);
        }
        let state = CalendarState {
            calendar: id.clone(),
            revision: Revision(command.seq),
            definition: Some(definition),
            command: command.seq,
            at: command.at,
        };
        self.emit(LogEvent::CalendarRevised(state.clone()));
        self.emit(LogEvent::CalendarDefined(state));
        self.accept_calendar(command, Verb::Calendar, id, Revision(command.seq))
    }

    /// Ends a calendar's life, unless something is built of it.
    pub(crate) fn delete_calendar(
        &mut self,
        command: &PendingCommand,
        id: &CalendarId,
    ) -> Progress {
        if !self.has_read_log(command) {
            return Progress::Full;
        }
        let address = Some((Verb::CalendarDelete, id));
        let Some(state) = self.calendars().get(id) else {
            let expected = "the namespace and name of a calendar that is defined";
            let fault = Fault::new("$subject", &id.to_string(), "no such calendar", expected);
            return self.reject(command, address, vec![fault], None);
        };
        if let Some(fault) = unexpected(command, Some(state.revision)) {
            return self.reject(command, address, vec![fault], None);
        }
        let jobs = self.jobs_with(id);
        let calendars = self.calendars().users(id).cloned().collect();
        let users = [("job", jobs), ("calendar", calendars)];
        let faults: Vec<Fault> =
            users.iter().filter_map(|(kind, users)| in_use(kind, users)).collect();
        if !faults.is_empty() {
            return self.reject(command, address, faults, None);
        }
        let revision = state.revision;
        let state = CalendarState {
            calendar: id.clone(),
            revision,
            definition: None,
            command: command.seq,
            at: command.at,
        };
        self.emit(LogEvent::CalendarDeleted(state));
        self.accept_calendar(command, Verb::CalendarDelete, id, revision)
    }

    /// Whether a command must wait for the next batch because of the calendars that this one changes: jobs go by them
    /// once they are folded, and a calendar's subject is rolled up once at most.
    pub(crate) fn waits_for_calendars(&self, verb: Verb, id: &CalendarId) -> bool {
        self.has_changed_calendar(|changed| !verb.is_of_calendar() || changed == id)
    }

    /// Whether the log was read to its head since the command was read; asks for it where it was not.
    pub(crate) fn has_read_log(&mut self, command: &PendingCommand) -> bool {
        let has = self.base.log_read >= command.seq;
        if !has {
            // One look at the log serves every command that is read by now.
            self.plans.read_log = Some(self.base.commands_seen.max(command.seq));
        }
        has
    }

    fn accept_calendar(
        &mut self,
        command: &PendingCommand,
        verb: Verb,
        id: &CalendarId,
        revision: Revision,
    ) -> Progress {
        let touched = self.calendars().built_of(id);
        let jobs: BTreeSet<JobId> = touched.iter().flat_map(|id| self.jobs_with(id)).collect();
        let jobs = jobs.len() as u64;
        self.reply(command, Some((verb, id)), Outcome::CalendarAccepted { revision, jobs })
    }

    /// The jobs that name a calendar, those of this batch included.
    fn jobs_with(&self, id: &CalendarId) -> BTreeSet<JobId> {
        let known = self.base.uses.of(id).filter(|job| !self.changed.contains(*job)).cloned();
        let changed = self
            .changed
            .iter()
            .filter(|job| self.job(job).is_some_and(|job| uses::names(&job.state).contains(id)));
        known.chain(changed.cloned()).collect()
    }
}

fn in_use(kind: &str, users: &BTreeSet<JobId>) -> Option<Fault> {
    let named: Vec<String> = users.iter().take(USERS_NAMED).map(JobId::to_string).collect();
    let left = users.len() - named.len();
    let more = if left > 0 { format!(" and {left} more") } else { String::new() };
    let problem = match users.len() {
        0 => return None,
        1 => format!("a {kind} uses this calendar"),
        many => format!("{many} {kind}s use this calendar"),
    };
    let expected = format!("a calendar that no {kind} uses: define them without it first");
    Some(Fault::new("$subject", &format!("{}{more}", named.join(", ")), problem, expected))
}
