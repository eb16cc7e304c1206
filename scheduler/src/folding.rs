//! What the followed streams tell, folded into the partitions.

use std::sync::Arc;

use cronstream_bus::{FollowEvent, From, StoredMessage};
use cronstream_core::partition::PendingCommand;
use cronstream_core::uses;
use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::event::LogEvent;
use cronstream_schemas::header;
use cronstream_schemas::id::Partition;
use cronstream_schemas::time::Timestamp;

use crate::input::Which;
use crate::node::Node;
use crate::readers::Reader;
use crate::route::{self, LogRoute};
use crate::seat::{Reading, Seat, Stage};

impl Node {
    pub(crate) fn read_log(&mut self, event: FollowEvent) {
        if let FollowEvent::Reset { last_seq, created, .. } = &event {
            self.log_reset(*last_seq, Timestamp::from(*created));
        }
        let known = self.log.through;
        self.log.note(&event);
        self.echo.read(self.log.through, self.clock.monotonic());
        match event {
            FollowEvent::Messages(messages) => {
                for message in &messages {
                    if message.seq > known && !self.echo.holds(message.seq) {
                        self.fold_log(message);
                    }
                }
                self.tell_fires();
            }
            FollowEvent::CaughtUp { .. } => {
                self.log_read = true;
                let now = self.clock.wall();
                self.seats.iter_mut().for_each(|seat| seat.partition.caught_up(now));
            }
            FollowEvent::Reset { .. } => {}
        }
    }

    fn fold_log(&mut self, message: &StoredMessage) {
        let partitions = self.partitions();
        match route::log(&self.settings.prefix, partitions, message) {
            LogRoute::Event(number, event) => {
                if let Some(seat) = self.seats.get_mut(usize::from(number.0)) {
                    seat.partition.apply_log(message.seq, &event);
                    self.note_uses(number, &event);
                    self.trace(number, *event, message.timestamp_ms);
                }
            }
            LogRoute::Calendar(owner, event) => self.fold_calendar(owner, message.seq, &event),
            LogRoute::ForeignCursor(number) => {
                if let Some(seat) = self.seats.get_mut(usize::from(number.0)) {
                    seat.partition.apply_foreign_cursor(message.seq);
                }
            }
            LogRoute::Unknown(number, kind) => {
                let hit = |seat: &&mut Seat| number.is_none_or(|n| seat.partition.number == n);
                for seat in self.seats.iter_mut().filter(hit) {
                    seat.partition.apply_unknown(message.seq, &kind);
                }
            }
            LogRoute::Nothing => {}
        }
    }

    /// Folds a calendar's state into every partition. To all but its owner it is no message of their log: they take it
    /// by the number of its command, whatever they have folded of their own batches meanwhile.
    fn fold_calendar(&mut self, owner: Partition, seq: u64, event: &LogEvent) {
        let (LogEvent::CalendarDefined(state) | LogEvent::CalendarDeleted(state)) = event else {
            return;
        };
        let state = Arc::new(state.clone());
        for seat in &mut self.seats {
            if seat.partition.number == owner {
                seat.partition.apply_log(seq, event);
            } else {
                seat.partition.apply_calendar(&state);
            }
        }
    }

    /// Tells the owners of calendars which of them a job of partition `number` names, now that its state was folded.
    fn note_uses(&mut self, number: Partition, event: &LogEvent) {
        let (LogEvent::JobDefined(told)
        | LogEvent::JobPaused(told)
        | LogEvent::JobResumed(told)
        | LogEvent::JobOverridden(told)
        | LogEvent::JobDeleted(told)) = event
        else {
            return;
        };
        // The fold's state and not the one that was told: a broker may bring an old one back.
        let fold = &self.seats[usize::from(number.0)].partition;
        let names = fold.job(&told.job).map(|job| uses::names(&job.state)).unwrap_or_default();
        let partitions = self.partitions();
        for seat in self.seats.iter_mut().filter(|seat| seat.partition.number != number) {
            let owned =
                |id: &&CalendarId| Partition::of_calendar(id, partitions) == seat.partition.number;
            let owned = names.iter().filter(owned).cloned().collect();
            seat.partition.used_by(&told.job, owned);
        }
    }

    /// Lets the commands go on that waited until the log was read to the head that it had then.
    pub(crate) fn heed_read_log(&mut self) {
        let through = self.log.through;
        for seat in &mut self.seats {
            if let Some(Reading { command, head: Some(head) }) = seat.reading
                && head <= through
            {
                seat.partition.read_log(command);
                seat.reading = None;
            }
        }
    }

    /// Notes where the log's head is, for the command that waits until it is read to there.
    pub(crate) fn log_head(&mut self, number: Partition, command: u64, head: Option<u64>) {
        let seat = &mut self.seats[usize::from(number.0)];
        let waits = seat.reading.is_some_and(|reading| reading.command == command);
        seat.reading = match head {
            Some(_) if waits => Some(Reading { command, head }),
            None if waits => None,
            Some(_) | None => return,
        };
        self.log.confirm();
    }

    fn trace(&mut self, number: Partition, event: LogEvent, stored: i64) {
        let seat = &mut self.seats[usize::from(number.0)];
        if let LogEvent::Fired(fired) = event {
            seat.fires.read(fired, stored);
        } else if let LogEvent::Cursor(cursor) = event {
            seat.fires.close(&cursor);
        }
    }

    /// Tells of the fires that were read, or remembers them for the case that their leader cannot.
    fn tell_fires(&mut self) {
        for seat in &mut self.seats {
            match seat.stage {
                Stage::Leading(_) => {
                    seat.fires.tell(&self.spans, &self.settings.prefix, seat.partition.number);
                }
                Stage::Standby
                | Stage::Surveying { .. }
                | Stage::TakingOver { .. }
                | Stage::Stopped { .. } => seat.fires.forget(),
            }
        }
    }

    /// The log is another one or has become shorter: stop. It has lost messages this node had not read (expired
    /// or rolled up while it was away): fold it anew.
    fn log_reset(&mut self, last_seq: u64, created: Timestamp) {
        let another = self.log_created.is_some_and(|known| known != created);
        let shorter = last_seq < self.log.through;
        self.echo.forget();
        self.log_created = Some(created);
        self.log_read = false;
        for seat in &mut self.seats {
            if another || shorter {
                let what = if another { "recreated or restored" } else { "set back" };
                seat.stop(format!("the log was {what} under this running node"));
            } else if !matches!(seat.stage, Stage::Leading(_) | Stage::TakingOver { .. }) {
                let stage = std::mem::replace(&mut seat.stage, Stage::Standby);
                *seat = Seat::new(seat.partition.number);
                seat.stage = stage;
                tracing::info!(partition = seat.partition.number.0, "folding the log anew");
            }
        }
        if !(another || shorter) {
            self.desk.open(Which::Runs, From::LastPerSubject);
        }
    }

    /// A reset without a gap is another stream, or a shorter one; behind a gap, what is left is read anew.
    pub(crate) fn read_run_events(&mut self, event: FollowEvent) {
        if let FollowEvent::Reset { first_seq, .. } = &event
            && *first_seq <= self.runs.through + 1
        {
            let why = "the runs stream was recreated or set back under this running node";
            self.seats.iter_mut().for_each(|seat| seat.stop(why.into()));
        }
        self.runs.note(&event);
        let FollowEvent::Messages(messages) = event else { return };
        let partitions = self.partitions();
        for message in &messages {
            let Some((key, event)) = route::run(&self.settings.prefix, message) else { continue };
            let number = Partition::of(&key.job, partitions);
            let at = Timestamp::from_millis(message.timestamp_ms);
            self.seats[usize::from(number.0)].partition.apply_run(message.seq, at, &key, &event);
        }
    }

    pub(crate) fn read_commands(&mut self, event: FollowEvent) {
        let before = self.commands.as_ref().map_or(0, |reader| reader.through);
        if let Some(reader) = &mut self.commands {
            reader.note(&event);
        }
        match event {
            FollowEvent::Messages(messages) => {
                for message in &messages {
                    self.offer(message);
                }
                self.saw_commands(messages.last().map_or(0, |message| message.seq));
            }
            FollowEvent::CaughtUp { through } => self.saw_commands(through),
            FollowEvent::Reset { first_seq, .. } => {
                // Without a gap, it is another stream or has become shorter.
                let another = first_seq <= before + 1;
                for seat in
                    self.seats.iter_mut().filter(|seat| matches!(seat.stage, Stage::Leading(_)))
                {
                    let lost = first_seq > seat.partition.commands_seen() + 1;
                    if another || lost {
                        seat.stop("commands were lost under this running node".into());
                    }
                }
            }
        }
    }

    fn offer(&mut self, message: &StoredMessage) {
        let number = route::command(&self.settings.prefix, self.partitions(), &message.subject);
        let seat = &mut self.seats[usize::from(number.0)];
        if matches!(seat.stage, Stage::Leading(_)) {
            let header = |name| message.header(name).map(str::to_owned);
            seat.partition.offer(PendingCommand {
                seq: message.seq,
                at: Timestamp::from_millis(message.timestamp_ms),
                subject: message.subject.clone(),
                body: message.payload.to_vec(),
                reply: header(header::REPLY),
                expected_revision: header(header::EXPECTED_REVISION),
                traceparent: header(header::TRACEPARENT),
            });
        }
    }

    fn saw_commands(&mut self, seq: u64) {
        for seat in self.seats.iter_mut().filter(|seat| matches!(seat.stage, Stage::Leading(_))) {
            seat.partition.saw_commands(seq);
        }
    }

    pub(crate) fn partitions(&self) -> u8 {
        u8::try_from(self.seats.len()).expect("at most 32 partitions")
    }

    /// Follows the commands from the sequence behind `through`, where they are not read from there already. What an
    /// older reader still tells must not count as seen by a partition that missed what lies before.
    pub(crate) fn hear_commands_from(&mut self, through: u64) {
        let from = match (&self.commands, self.commands_opening) {
            (Some(reader), _) if reader.through <= through => return,
            (_, Some(opening)) if opening <= through => return,
            (Some(_) | None, _) => through,
        };
        self.commands = None;
        self.commands_opening = Some(from);
        self.desk.open(Which::Commands { through: from }, From::Sequence(from + 1));
    }

    pub(crate) fn opened(&mut self, which: Which, reader: Option<Box<Reader>>) {
        match (which, reader) {
            (Which::Runs, Some(reader)) => self.runs = *reader,
            (Which::Runs, None) => self.desk.open(which, From::LastPerSubject),
            (Which::Commands { through }, _) if self.commands_opening != Some(through) => {}
            (Which::Commands { through }, Some(mut reader)) => {
                reader.through = through;
                self.commands = Some(*reader);
                self.commands_opening = None;
            }
            (Which::Commands { through }, None) => {
                self.desk.open(which, From::Sequence(through + 1));
            }
        }
    }
}
