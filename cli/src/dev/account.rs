//! What a `dev` that goes on with older data has caught up: slots missed and slots fired late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cronstream_bus::{Bus, FollowEvent};
use cronstream_schemas::event::{
    Cause, Cursor, Decoded, Event as _, Fired, LogEvent, SkipReason, Skipped, SkippedWhat,
};
use cronstream_schemas::id::Epoch;
use cronstream_schemas::time::Timestamp;

use crate::error::Error;
use crate::output::{Output, distance};
use crate::{cluster, jobs};

/// Once every partition is led, nothing old for so long means that all of it is decided.
const QUIET: Duration = Duration::from_secs(1);
/// After so long what is known is told; tickers wait a lease's time for those before them.
const PATIENCE: Duration = Duration::from_secs(20);

/// The account, while it is being made.
#[derive(Debug)]
pub(super) struct Account {
    opened: Timestamp,
    since: Instant,
    last_news: Instant,
    jobs: usize,
    last_slot: Option<Timestamp>,
    /// The terms before ours.
    epochs: BTreeMap<u8, Epoch>,
    partitions: usize,
    led: BTreeSet<u8>,
    missed: u64,
    overlapped: u64,
    late: u64,
}

impl Account {
    /// Looks at what is there before any ticker of ours is started; `None` when nothing is.
    pub(super) async fn open(bus: &Bus) -> Result<Option<Self>, Error> {
        let mut jobs = 0;
        jobs::for_each(bus, None, |state| jobs += usize::from(state.definition.is_some())).await?;
        if jobs == 0 {
            return Ok(None);
        }
        let cursors = cluster::cursors(bus).await?;
        Ok(Some(Self {
            opened: jobs::now(),
            since: Instant::now(),
            last_news: Instant::now(),
            jobs,
            last_slot: cursors.values().map(|cursor| cursor.position.due).max(),
            epochs: cursors.iter().map(|(number, cursor)| (*number, cursor.epoch)).collect(),
            partitions: usize::from(cluster::partitions(bus).await?),
            led: BTreeSet::new(),
            missed: 0,
            overlapped: 0,
            late: 0,
        }))
    }

    /// Takes what the log tells.
    pub(super) fn log(&mut self, event: &FollowEvent) {
        let FollowEvent::Messages(messages) = event else { return };
        for message in messages {
            if let Ok(Decoded::Known(event)) = LogEvent::decode(&message.payload) {
                self.take(&event);
            }
        }
    }

    fn take(&mut self, event: &LogEvent) {
        match event {
            LogEvent::Cursor(cursor) => self.led(cursor),
            LogEvent::Fired(Fired { cause: Cause::Slot(slot), fire_no: 1, .. })
                if *slot < self.opened =>
            {
                self.late += 1;
                self.last_news = Instant::now();
            }
            LogEvent::Skipped(Skipped {
                reason,
                what: SkippedWhat::Slots { first, count, .. },
                ..
            }) if *first < self.opened => {
                self.last_news = Instant::now();
                match reason {
                    SkipReason::Misfire => self.missed += count,
                    SkipReason::Overlap | SkipReason::JobBacklog | SkipReason::PartitionBacklog => {
                        self.overlapped += count
                    }
                    // Held slots of a pause or delete: nothing to catch up.
                    SkipReason::Paused | SkipReason::Deleted | SkipReason::Requested => {}
                }
            }
            LogEvent::Fired(_)
            | LogEvent::Skipped(_)
            | LogEvent::JobDefined(_)
            | LogEvent::JobPaused(_)
            | LogEvent::JobResumed(_)
            | LogEvent::JobDeleted(_)
            | LogEvent::JobOverridden(_)
            | LogEvent::CalendarDefined(_)
            | LogEvent::CalendarDeleted(_)
            | LogEvent::CalendarRevised(_)
            | LogEvent::JobRevised(_)
            | LogEvent::Held(_)
            | LogEvent::HeldEnded(_)
            | LogEvent::Rejected(_)
            | LogEvent::Meta(_) => {}
        }
    }

    fn led(&mut self, cursor: &Cursor) {
        let number = cursor.partition.0;
        let new = self.epochs.get(&number).is_none_or(|before| cursor.epoch > *before);
        if new && self.led.insert(number) {
            self.last_news = Instant::now();
        }
    }

    /// Tells the account once it is complete, and gives it back while it is not.
    pub(super) fn told(self, out: Output) -> Option<Self> {
        let complete = self.led.len() >= self.partitions && self.last_news.elapsed() >= QUIET;
        if !complete && self.since.elapsed() < PATIENCE {
            return Some(self);
        }
        out.talk(&self.text());
        None
    }

    fn text(&self) -> String {
        let count = |number: u64, one: &str, many: &str| match number {
            1 => format!("1 {one}"),
            number => format!("{number} {many}"),
        };
        let jobs = count(self.jobs as u64, "job", "jobs");
        let last = match self.last_slot {
            Some(slot) => format!("last slot {slot} ({})", distance(slot, self.opened)),
            None => "no slot before".to_owned(),
        };
        let missed = count(self.missed, "slot", "slots");
        let overlapped = match self.overlapped {
            0 => String::new(),
            many => format!(", {many} skipped behind a live run"),
        };
        let late = self.late;
        format!(
            "continuing: {jobs}, {last}, {missed} skipped as missed{overlapped}, {late} fired late"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account {
            opened: "2027-01-31T03:10:00Z".parse().unwrap(),
            since: Instant::now(),
            last_news: Instant::now(),
            jobs: 4,
            last_slot: Some("2027-01-31T03:00:00Z".parse().unwrap()),
            epochs: BTreeMap::from([(0, Epoch(3))]),
            partitions: 1,
            led: BTreeSet::new(),
            missed: 0,
            overlapped: 0,
            late: 0,
        }
    }

    fn skipped(reason: &str, first: &str, count: u64) -> LogEvent {
        let json = format!(
            r#"{{"skipped":{{"job":"a/b","revision":1,"incarnation":1,"reason":"{reason}","at":"2027-01-31T03:10:01Z",
            "what":{{"slots":{{"first":"{first}","last":"2027-01-31T03:09:00Z","count":{count}}}}}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn only_what_was_due_before_the_start_is_caught_up() {
        let mut account = account();
        account.take(&skipped("misfire", "2027-01-31T03:00:05Z", 37));
        account.take(&skipped("misfire", "2027-01-31T03:10:05Z", 1));
        assert_eq!(
            account.text(),
            "continuing: 4 jobs, last slot 2027-01-31T03:00:00.000Z (10m0s ago), 37 slots skipped as missed, 0 fired late"
        );
        account.take(&skipped("overlap", "2027-01-31T03:09:30Z", 2));
        assert!(
            account.text().contains("37 slots skipped as missed, 2 skipped behind a live run, 0")
        );
    }

    #[test]
    fn the_account_waits_until_every_partition_is_led_anew() {
        let told = |account: Account| account.told(Output::new(false));
        let quiet = Instant::now().checked_sub(QUIET * 2).unwrap();
        let unled = Account { last_news: quiet, ..account() };
        assert!(told(unled).is_some());
        let led = Account { last_news: quiet, led: BTreeSet::from([0]), ..account() };
        assert!(told(led).is_none());
        let busy = Account { led: BTreeSet::from([0]), ..account() };
        assert!(told(busy).is_some());
        let late = Account { since: Instant::now().checked_sub(PATIENCE).unwrap(), ..account() };
        assert!(told(late).is_none());
    }
}
