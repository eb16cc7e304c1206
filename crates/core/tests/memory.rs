//! What a job costs the fold of its partition, its id and params aside, and that what jobs have alike is let go.
//!
//! Counted are the bytes that were asked of the allocator; that of the binary rounds them up.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use allocation_counter::measure;
use cronstream_core::partition::Partition;
use cronstream_schemas::event::{Decoded, Event, LogEvent};
use cronstream_schemas::id::{self, Instance};
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;
use uuid::Uuid;

/// A table that doubles has just done so, as with the 125,000 that each of eight partitions has of a million.
const JOBS: u64 = 15_000;

/// Of `bench/job-0000000`.
const ID_BYTES: i64 = 17;

const NOW: &str = "2026-06-01T10:00:00.000Z";

/// Jobs, the `number`th of them with `definition(number)`.
struct Fleet {
    partition: Partition,
    seq: u64,
    /// Bytes of ids and params.
    own: i64,
    /// Bytes that the partition holds.
    held: i64,
}

impl Fleet {
    fn new() -> Self {
        Self { partition: Partition::new(id::Partition(0)), seq: 0, own: 0, held: 0 }
    }

    /// Counts what `work` leaves behind.
    fn count(&mut self, work: impl FnOnce(&mut Self)) {
        self.held += measure(|| work(self)).bytes_current;
    }

    /// Folds a state of job `number`, from the bytes that the log has.
    fn fold(&mut self, number: u64, definition: Option<&str>) {
        self.seq += 1;
        let (kind, definition) = match definition {
            Some(body) => ("job_defined", format!(r#""definition":{body},"#)),
            None => ("job_deleted", String::new()),
        };
        let seq = self.seq;
        let body = format!(
            r#"{{"{kind}":{{"job":"bench/job-{number:07}","revision":{seq},"incarnation":{seq},{definition}"anchor":"{NOW}",
            "effective_after":"{NOW}","tzdb":"2026f","command":{seq},"at":"{NOW}"}}}}"#
        );
        let Ok(Decoded::Known(event)) = LogEvent::decode(body.as_bytes()) else { panic!("{body}") };
        self.partition.apply_log(seq, &event);
    }

    fn define(&mut self, definition: impl Fn(u64) -> String) {
        self.own = 0;
        self.count(|fleet| {
            for number in 0..JOBS {
                let params = format!(r#"{{"number":{number}}}"#);
                fleet.own += ID_BYTES + params.len() as i64;
                let body = definition(number);
                fleet.fold(
                    number,
                    Some(&format!(r#"{{"task":"report","params":{params},{body}}}"#)),
                );
            }
        });
    }

    fn lead(&mut self) {
        self.count(|fleet| {
            let now: Timestamp = NOW.parse().unwrap();
            let node = Name::parse("node").unwrap();
            let cursor = fleet.partition.takeover(now, &node, Instance(Uuid::from_u128(1)));
            fleet.seq += 1;
            fleet.partition.apply_log(fleet.seq, &LogEvent::Cursor(cursor));
            fleet.partition.lead();
        });
    }

    fn bytes_a_job(&self) -> i64 {
        (self.held - self.own) / i64::try_from(JOBS).unwrap()
    }
}

/// Checks that each of many jobs costs a leader no more than `max` bytes beyond its id and params.
#[track_caller]
fn check(what: &str, max: i64, definition: impl Fn(u64) -> String) {
    let mut fleet = Fleet::new();
    fleet.define(definition);
    fleet.lead();
    let bytes = fleet.bytes_a_job();
    assert!(bytes <= max, "{what}: {bytes} bytes a job, not {max}");
}

fn alike(_: u64) -> String {
    r#""queue":"nightly","schedule":{"cron":"0 0 29 2 *"}"#.to_owned()
}

/// No two have the same schedule.
fn distinct(number: u64) -> String {
    let (second, minute, hour) = (number % 60, number / 60 % 60, number / 3_600);
    format!(r#""schedule":{{"cron":"{second} {minute} {hour} * * *"}}"#)
}

#[test]
fn a_job_costs_at_most_350_bytes_where_jobs_are_alike() {
    check("alike", 320, alike);
    check("an interval", 320, |_| r#""schedule":{"every":"5m"}"#.to_owned());
    check("an expression for each minute of the day", 350, |number| {
        format!(r#""schedule":{{"cron":"{} {} * * *"}}"#, number % 60, number / 60 % 24)
    });
    check("windows", 320, |_| {
        r#""schedule":{"cron":["0 12 * * *","0 13 * * 1"]},"windows":["09:00-17:00"]"#.to_owned()
    });
}

#[test]
fn a_job_with_a_schedule_or_a_title_of_its_own_costs_that_besides() {
    check("own expressions", 580, distinct);
    check("own instants", 400, |number| {
        let (second, millis) = (number / 1_000, number % 1_000);
        format!(r#""schedule":{{"at":"2027-01-01T00:00:{second:02}.{millis:03}Z"}}"#)
    });
    check("instants far apart", 475, |number| {
        let (day, hour, minute) = (number / 1_440 + 1, number / 60 % 24, number % 60);
        format!(r#""schedule":{{"at":"2027-01-{day:02}T{hour:02}:{minute:02}:00Z"}}"#)
    });
    check("own titles", 375, |number| {
        format!(r#"{},"title":"job number {number}""#, alike(number))
    });
}

#[test]
fn what_no_job_has_any_more_is_let_go() {
    let mut fleet = Fleet::new();
    fleet.define(alike);
    let bytes = fleet.bytes_a_job();
    let terms = |number| format!(r#"{},"labels":{{"number":"{number}"}}"#, distinct(number));
    fleet.define(terms);
    let distinct_bytes = fleet.bytes_a_job();
    assert!(distinct_bytes > bytes + 400, "{distinct_bytes} bytes a job");
    fleet.define(alike);
    let again = fleet.bytes_a_job();
    // Some of what died last is left until it is looked for.
    assert!(again <= bytes + 16, "{again} bytes a job, and {bytes} before");
    fleet.define(terms);
    fleet.count(|fleet| (0..JOBS).for_each(|number| fleet.fold(number, None)));
    fleet.own = ID_BYTES * JOBS as i64;
    let deleted = fleet.bytes_a_job();
    assert!(deleted <= bytes + 16, "{deleted} bytes a deleted job, and {bytes} one that is alike");
}
