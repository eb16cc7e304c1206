//! Who decided last before an instant, and who first behind it.
//!
//! Cursors are rolled up, so the log keeps no list of terms: a job's own fires and skipped slots tell whose they were.
//!
//! Invariant: the newest message before an instant is found by looking back eight times as far each time, then by
//! halving what is left: the number of reads does not grow with the log.

use std::time::Duration;

use cronstream_bus::StoredMessage;
use cronstream_schemas::event::LogEvent;
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;

use super::{Reader, decode};
use crate::error::Error;
use crate::explain::facts::{Decision, Takeover};

/// How far the first look back goes.
const BACK: Duration = Duration::from_millis(250);
/// How many times as far each further one goes.
const FARTHER: u32 = 8;
/// How many looks back there are: the last one goes back by more than a year.
const LOOKS: u32 = 10;
/// How often what is left is halved: it may be so dense that the last one is not found, and then the one that is lies
/// near.
const HALVES: u32 = 24;

impl Reader<'_> {
    /// The change of leader that an instant fell into: the decisions on the job before and behind it are of two terms.
    pub(super) async fn takeover(
        &self,
        queue: &Name,
        at: Timestamp,
    ) -> Result<Option<Takeover>, Error> {
        let prefix = self.bus.names().prefix();
        let job = &self.newest.job;
        let subjects = [prefix.fire(queue, job), prefix.skipped(job)];
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        for subject in &subjects {
            let Some(newest) = self.bus.last_from_leader(&self.bus.names().log, subject).await?
            else {
                continue;
            };
            if newest.timestamp_ms >= at.as_millis() {
                behind.extend(self.since(subject, at).await?);
            }
            before.extend(self.newest_behind(subject, at, newest).await?);
        }
        let last = before.into_iter().max_by_key(|message| message.seq);
        let first = behind.into_iter().min_by_key(|message| message.seq);
        let decided = |message: Option<StoredMessage>| message.as_ref().and_then(decision);
        let (Some(last), Some(first)) = (decided(last), decided(first)) else { return Ok(None) };
        Ok((last.epoch < first.epoch).then_some(Takeover { last, first }))
    }

    /// The newest message of a subject that was stored before an instant.
    pub(super) async fn newest_before(
        &self,
        subject: &str,
        at: Timestamp,
    ) -> Result<Option<StoredMessage>, Error> {
        match self.bus.last_from_leader(&self.bus.names().log, subject).await? {
            Some(newest) => self.newest_behind(subject, at, newest).await,
            None => Ok(None),
        }
    }

    async fn newest_behind(
        &self,
        subject: &str,
        at: Timestamp,
        newest: StoredMessage,
    ) -> Result<Option<StoredMessage>, Error> {
        let is_before = |it: &StoredMessage| it.timestamp_ms < at.as_millis();
        if is_before(&newest) {
            return Ok(Some(newest));
        }
        let log = &self.bus.names().log;
        let (mut end, mut found) = (at, None);
        for look in 0..LOOKS {
            let from = at.minus(BACK * FARTHER.pow(look));
            found = self.since(subject, from).await?.filter(is_before);
            if found.is_some() {
                break;
            }
            end = from;
        }
        let Some(mut found) = found else { return Ok(None) };
        for _ in 0..HALVES {
            let next = self.bus.next_from_leader(log, found.seq + 1, Some(subject)).await?;
            let Some(next) = next.filter(is_before) else { return Ok(Some(found)) };
            found = next;
            let begin = Timestamp::from_millis(found.timestamp_ms);
            let half = begin.plus(end.since(begin) / 2);
            match self.since(subject, half).await?.filter(is_before) {
                Some(later) if later.seq > found.seq => found = later,
                Some(_) | None => end = half,
            }
        }
        Ok(Some(found))
    }

    async fn since(&self, subject: &str, at: Timestamp) -> Result<Option<StoredMessage>, Error> {
        let log = &self.bus.names().log;
        Ok(self.bus.next_since(log, at.as_millis(), subject).await?)
    }
}

/// Whose decision a fire or a skipped slot is.
fn decision(message: &StoredMessage) -> Option<Decision> {
    let event = decode(message)?;
    let (node, epoch) = if let LogEvent::Fired(fired) = event {
        (fired.node, fired.epoch)
    } else if let LogEvent::Skipped(skipped) = event {
        (skipped.node, skipped.epoch?)
    } else {
        return None;
    };
    Some(Decision { node, epoch, at: Timestamp::from_millis(message.timestamp_ms) })
}
