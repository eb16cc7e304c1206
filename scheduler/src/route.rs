//! Which partition a message belongs to, and what it says.

use cronstream_bus::StoredMessage;
use cronstream_schemas::event::{self, Decoded, Event, LogEvent, RunEvent};
use cronstream_schemas::header;
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::{Prefix, RunKey};

/// A message of CRON_LOG.
#[derive(Debug)]
pub(crate) enum LogRoute {
    /// An event of one partition.
    Event(Partition, Box<LogEvent>),
    /// A calendar's state: every partition goes by it.
    Calendar(Partition, Box<LogEvent>),
    /// A kind of event that only a later version knows; of one partition, or of all where that cannot be told.
    Unknown(Option<Partition>, String),
    /// A message on a cursor's subject that is no cursor of it.
    ForeignCursor(Partition),
    /// The installation's settings, or a message that is none of ours.
    Nothing,
}

/// Reads a message of CRON_LOG.
pub(crate) fn log(prefix: &Prefix, partitions: u8, message: &StoredMessage) -> LogRoute {
    let of = |job: &JobId| Partition::of(job, partitions);
    let subject = prefix.parse_cursor(&message.subject);
    let event = match LogEvent::decode(&message.payload) {
        Ok(Decoded::Known(event)) => event,
        // What a leader of a later version wrote bears the number of its batch; anything else is garbage.
        Ok(Decoded::Unknown { kind }) if message.header(header::TICK).is_none() => {
            tracing::warn!(
                subject = message.subject,
                seq = message.seq,
                kind,
                "foreign message in the log"
            );
            return subject.map_or(LogRoute::Nothing, LogRoute::ForeignCursor);
        }
        Ok(Decoded::Unknown { kind }) => {
            let job = job_of(prefix, &message.subject);
            return LogRoute::Unknown(job.as_ref().map(of).or(subject), kind);
        }
        Err(error) => {
            tracing::warn!(subject = message.subject, seq = message.seq, %error, "foreign message in the log");
            // A known kind in a form that only a later version has, such as a reason that is new, is a decision too.
            let kind = event::kind(&message.payload);
            if let Some(kind) = kind.filter(|_| message.header(header::TICK).is_some()) {
                let job = job_of(prefix, &message.subject);
                return LogRoute::Unknown(job.as_ref().map(of).or(subject), kind);
            }
            return subject.map_or(LogRoute::Nothing, LogRoute::ForeignCursor);
        }
    };
    let partition = match &event {
        LogEvent::JobDefined(e)
        | LogEvent::JobPaused(e)
        | LogEvent::JobResumed(e)
        | LogEvent::JobDeleted(e)
        | LogEvent::JobOverridden(e)
        | LogEvent::JobRevised(e) => of(&e.job),
        LogEvent::Fired(e) => of(&e.job),
        LogEvent::Held(e) => of(&e.job),
        LogEvent::HeldEnded(e) => of(&e.job),
        LogEvent::Skipped(e) => of(&e.job),
        LogEvent::Rejected(e) => e.job.as_ref().map_or(Partition(0), |id| match e.verb {
            Some(verb) if verb.is_of_calendar() => Partition::of_calendar(id, partitions),
            Some(_) | None => of(id),
        }),
        LogEvent::CalendarDefined(e)
        | LogEvent::CalendarDeleted(e)
        | LogEvent::CalendarRevised(e) => Partition::of_calendar(&e.calendar, partitions),
        LogEvent::Cursor(e) if subject == Some(e.partition) => e.partition,
        LogEvent::Cursor(_) | LogEvent::Meta(_) => {
            return subject.map_or(LogRoute::Nothing, LogRoute::ForeignCursor);
        }
    };
    let shared = matches!(event, LogEvent::CalendarDefined(_) | LogEvent::CalendarDeleted(_));
    match subject {
        Some(cursor) if !matches!(event, LogEvent::Cursor(_)) => LogRoute::ForeignCursor(cursor),
        Some(_) | None if shared => LogRoute::Calendar(partition, Box::new(event)),
        Some(_) | None => LogRoute::Event(partition, Box::new(event)),
    }
}

/// Reads a message of CRON_RUNS; `None` for one that is none of ours.
pub(crate) fn run(prefix: &Prefix, message: &StoredMessage) -> Option<(RunKey, RunEvent)> {
    let key = prefix.parse_run(&message.subject);
    let event = RunEvent::decode(&message.payload);
    match (key, event) {
        (Some(key), Ok(Decoded::Known(event))) => Some((key, event)),
        (_, event) => {
            let why = match event {
                Ok(Decoded::Known(_)) => "its subject is no run's".to_owned(),
                Ok(Decoded::Unknown { kind }) => format!("a later version's {kind}"),
                Err(error) => error.to_string(),
            };
            tracing::warn!(
                subject = message.subject,
                seq = message.seq,
                why,
                "foreign message among the run events"
            );
            None
        }
    }
}

/// The partition of a command; partition 0 records those that cannot be addressed.
pub(crate) fn command(prefix: &Prefix, partitions: u8, subject: &str) -> Partition {
    match prefix.parse_command(subject) {
        Ok((verb, calendar)) if verb.is_of_calendar() => {
            Partition::of_calendar(&calendar, partitions)
        }
        Ok((_, job)) => Partition::of(&job, partitions),
        Err(_) => Partition(0),
    }
}

/// The job of a subject of the log; none of an object's, which concerns every partition.
fn job_of(prefix: &Prefix, subject: &str) -> Option<JobId> {
    let kind = subject.split('.').nth(1).filter(|kind| !kind.starts_with("object"))?;
    prefix.parse_job(subject, kind, usize::from(kind == "fire"))
}
