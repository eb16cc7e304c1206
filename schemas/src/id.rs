//! Numbers and ids of the event log, each a type of its own.
//!
//! Invariant: a run id is a pure function of the job's incarnation and the slot or trigger key, so that two
//! leaders who decide the same run give it the same id (`design.md` §4).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::calendar::CalendarId;
use crate::name::JobId;
use crate::time::Timestamp;

/// One accepted version of a job: the sequence of its define command.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// One life of a job's name: the sequence of its first define command.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// The term of a partition's leader; the first leader has epoch 1.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// The number of a batch; rises by one with every batch of a partition.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Tick(pub u64);

/// The number of a partition, from 0.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Partition(pub u8);

/// How many partitions an installation may have.
pub const PARTITIONS_MAX: u8 = 32;

impl Partition {
    /// The partition of a job: xxh3-64 of `ns/name` modulo `partitions` (at least 1).
    #[must_use]
    pub fn of(job: &JobId, partitions: u8) -> Self {
        let (namespace, name) = (job.namespace.as_str(), job.name.as_str());
        Self::of_text(&[namespace, "/", name].concat(), partitions)
    }

    /// The partition of a calendar: xxh3-64 of `calendar:ns/name` modulo `partitions` (at least 1).
    #[must_use]
    pub fn of_calendar(calendar: &CalendarId, partitions: u8) -> Self {
        Self::of_text(&format!("calendar:{calendar}"), partitions)
    }

    fn of_text(text: &str, partitions: u8) -> Self {
        let number = xxh3_64(text.as_bytes()) % u64::from(partitions.max(1));
        Self(u8::try_from(number).expect("a remainder of a u8 fits a u8"))
    }
}

/// One process's claim to be a node: new at every start and at every takeover attempt.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Instance(#[schemars(with = "String")] pub Uuid);

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One run of a job: a UUIDv8 whose 32 hex digits are the trace id.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct RunId(#[schemars(with = "String")] pub Uuid);

/// What a run id is made of beside its instant and its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunSeed<'a> {
    /// A slot of the schedule.
    Slot(Timestamp),
    /// A trigger with the client's key.
    Trigger(&'a str),
    /// A trigger without a key: the command's sequence.
    Command(u64),
    /// A slot that a backfill runs again, and the sequence of that command.
    Backfill(Timestamp, u64),
}

impl RunId {
    /// The id of a run of `job`: 48 bits of the instant's milliseconds, then bits of xxh3-128 over the
    /// length-prefixed (namespace, job, incarnation, kind and value of the seed). For a trigger `at` is the
    /// command's broker timestamp.
    #[must_use]
    pub fn derive(at: Timestamp, job: &JobId, incarnation: Incarnation, seed: RunSeed<'_>) -> Self {
        let incarnation = incarnation.0.to_be_bytes();
        let number;
        let mut numbers = [0_u8; 16];
        let (kind, seed): (&[u8], &[u8]) = match seed {
            RunSeed::Slot(at) => {
                number = at.as_millis().to_be_bytes();
                (b"slot", &number)
            }
            RunSeed::Trigger(key) => (b"trigger", key.as_bytes()),
            RunSeed::Command(seq) => {
                number = seq.to_be_bytes();
                (b"command", &number)
            }
            RunSeed::Backfill(at, command) => {
                numbers[..8].copy_from_slice(&at.as_millis().to_be_bytes());
                numbers[8..].copy_from_slice(&command.to_be_bytes());
                (b"backfill", &numbers)
            }
        };
        let parts = [
            job.namespace.as_str().as_bytes(),
            job.name.as_str().as_bytes(),
            &incarnation,
            kind,
            seed,
        ];
        let mut input = Vec::with_capacity(160);
        for part in parts {
            input.extend_from_slice(&(part.len() as u64).to_be_bytes());
            input.extend_from_slice(part);
        }
        let hash = xxh3_128(&input).to_be_bytes();
        let mut bytes = [0_u8; 16];
        bytes[..6].copy_from_slice(&at.as_millis().to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&hash[..10]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// The instant in the id's first 48 bits.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        let mut millis = [0_u8; 8];
        millis[2..].copy_from_slice(&self.0.as_bytes()[..6]);
        Timestamp::from_millis(i64::from_be_bytes(millis))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::parse_str(text).map(Self)
    }
}

/// One shard of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId {
    /// The run.
    pub run: RunId,
    /// The shard's number, from 0.
    pub shard: u16,
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run, self.shard)
    }
}

/// One fire: `<run>.<shard>.<fire_no>`, the message id of its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FireId {
    /// The shard that is ordered to run.
    pub shard: ShardId,
    /// Which fire of the shard this is, from 1.
    pub fire_no: u32,
}

impl fmt::Display for FireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.shard, self.fire_no)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> JobId {
        text.parse().unwrap()
    }

    #[test]
    fn a_run_id_is_a_uuid_v8_that_carries_its_slot() {
        let slot = Timestamp::from_millis(1_800_000_000_123);
        let id = RunId::derive(slot, &job("a/b"), Incarnation(7), RunSeed::Slot(slot));
        assert_eq!((id.0.get_version_num(), id.at()), (8, slot));
        assert_eq!(id.to_string(), "01a3185c-507b-8d05-ac6c-fdd1ec25513c");
    }

    #[test]
    fn length_prefixes_keep_neighbouring_names_apart() {
        let at = Timestamp::MIN;
        let id = |text, seed| RunId::derive(at, &job(text), Incarnation(1), RunSeed::Trigger(seed));
        let ids = [id("ab/c", "k"), id("a/bc", "k"), id("ab/c", "kk"), id("ab/c", "")];
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }

    #[test]
    fn a_key_that_reads_like_a_sequence_is_no_sequence() {
        let id = |seed| RunId::derive(Timestamp::MIN, &job("a/b"), Incarnation(1), seed);
        assert_ne!(id(RunSeed::Trigger("7")), id(RunSeed::Command(7)));
    }

    #[test]
    fn numbers_beyond_32_and_53_bits_stay_themselves() {
        for number in [(1 << 31) + 1, (1 << 32) + 1, (1 << 53) + 1, u64::MAX] {
            let text = serde_json::to_string(&Revision(number)).unwrap();
            assert_eq!(text, number.to_string());
            assert_eq!(serde_json::from_str::<Revision>(&text).unwrap(), Revision(number));
        }
        let run = |seq| {
            let (at, job) = (Timestamp::MIN, job("a/b"));
            RunId::derive(at, &job, Incarnation(seq), RunSeed::Command(seq))
        };
        assert_ne!(run((1 << 32) + 1), run(1));
    }

    #[test]
    fn jobs_spread_over_all_partitions() {
        let mut counts = [0; 8];
        for n in 0..8_000 {
            counts[usize::from(Partition::of(&job(&format!("a/j{n}")), 8).0)] += 1;
        }
        assert!(counts.iter().all(|n| (850..1_150).contains(n)), "{counts:?}");
    }
}
