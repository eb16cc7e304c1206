//! Whose command it was: pauses, skips and shifts, as CRON_COMMANDS keeps them.
//!
//! Invariant: who may not read commands gets an explanation without them.

use cronstream_bus::{Error as BusError, StoredMessage};
use cronstream_schemas::command::{self, Verb};
use cronstream_schemas::header;
use cronstream_schemas::time::Timestamp;

use super::{Reader, SUBJECT_MAX};
use crate::error::Error;
use crate::explain::facts::{Command, Pause, Request};

impl Reader<'_> {
    /// The pause that a slot fell into.
    pub(super) async fn pause_at(&self, slot: Timestamp) -> Result<Option<Pause>, Error> {
        let mut changes: Vec<(bool, StoredMessage)> = Vec::new();
        for (verb, begins) in [(Verb::Pause, true), (Verb::Resume, false)] {
            changes.extend(self.commands(verb).await?.into_iter().map(|it| (begins, it)));
        }
        changes.sort_by_key(|(_, message)| message.seq);
        let mut pause: Option<Pause> = None;
        for (begins, message) in &changes {
            let command = sent(message);
            let was_over = pause.as_ref().is_none_or(|pause| pause.ended.is_some());
            if *begins && was_over {
                if command.at >= slot {
                    break;
                }
                pause = Some(Pause { begun: command, ended: None });
            } else if let Some(open) = pause.as_mut().filter(|_| !begins && !was_over) {
                open.ended = Some(command);
            }
        }
        Ok(pause.filter(|pause| pause.ended.as_ref().is_none_or(|ended| ended.at >= slot)))
    }

    /// The newest command that skips or shifts a slot.
    pub(super) async fn request_for(&self, slot: Timestamp) -> Result<Option<Request>, Error> {
        let known = self.newest.overrides.iter().find(|it| it.slot == slot).map(|it| it.command);
        let mut found: Option<Request> = None;
        for verb in [Verb::Skip, Verb::Shift] {
            for message in self.commands(verb).await? {
                let (named, to) = match command::Command::decode(verb, &message.payload) {
                    Ok(command::Command::Skip(skip)) => (skip.slot, None),
                    Ok(command::Command::Shift(shift)) => (shift.slot, Some(shift.to)),
                    Ok(_) | Err(_) => continue,
                };
                let command = sent(&message);
                // A command without a slot means the next one that was undecided.
                let means = known.map_or_else(
                    || named.is_none_or(|named| named == slot) && command.at < slot,
                    |known| known == command.seq,
                );
                let newer = found.as_ref().is_none_or(|it| it.command.seq < command.seq);
                if means && newer {
                    found = Some(Request { command, to });
                }
            }
        }
        Ok(found)
    }

    /// The commands of one verb for the job that are kept, oldest first; none where this user may not read them.
    pub(super) async fn commands(&self, verb: Verb) -> Result<Vec<StoredMessage>, Error> {
        let names = self.bus.names();
        let subject = names.prefix().command(verb, &self.newest.job);
        let last = match self.bus.last_from_leader(&names.commands, &subject).await {
            Err(BusError::Denied { .. }) => return Ok(Vec::new()),
            other => other?,
        };
        let Some(last) = last else { return Ok(Vec::new()) };
        let (mut messages, mut next) = (Vec::new(), 1);
        while next < last.seq && messages.len() < SUBJECT_MAX {
            let message = self.bus.next_from_leader(&names.commands, next, Some(&subject)).await?;
            let Some(message) = message.filter(|message| message.seq < last.seq) else { break };
            next = message.seq + 1;
            messages.push(message);
        }
        messages.push(last);
        Ok(messages)
    }
}

fn sent(message: &StoredMessage) -> Command {
    Command {
        seq: message.seq,
        at: Timestamp::from_millis(message.timestamp_ms),
        author: message.header(header::AUTHOR).map(str::to_owned),
    }
}
